"""Kernels that fold the rows of each group: counts, sums, extremes."""
