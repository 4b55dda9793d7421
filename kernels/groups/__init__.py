"""Kernels that number the groups of rows by one key or several."""
