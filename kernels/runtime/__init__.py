"""How kernels run: compiled by Numba, kept as machine code in a cache, or interpreted."""
