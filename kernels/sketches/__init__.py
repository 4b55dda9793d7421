"""Kernels of HLL, KLL and theta sketches."""
