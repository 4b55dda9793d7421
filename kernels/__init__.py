"""Numba kernels: free functions over arrays, each behind a guard.

`runtime` runs them; those over texts, of decimals and of sketches have folders.
"""
