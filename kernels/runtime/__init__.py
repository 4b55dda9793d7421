"""How kernels run: compiled by Numba, kept as machine code, or interpreted."""
