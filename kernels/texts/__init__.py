"""Kernels over texts: distinct values, order, LIKE, groups."""
