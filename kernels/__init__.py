"""Numba kernels: free functions over arrays, each behind a guard."""
