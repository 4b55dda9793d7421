"""Kernels of HLL, KLL and theta sketches: hashes of values, rows folded in, and their bytes."""
