"""Kernels over rows: gather, select, sort, widen."""
