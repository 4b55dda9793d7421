"""Kernels over decimals: their arithmetic, their rounding, and their texts."""
