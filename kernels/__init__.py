"""Numba kernels: free functions over arrays, each behind a guard.

A guard checks lengths, ids and offsets, for Numba does not check the bounds of arrays; it raises
InvalidInputError where they do not fit each other. Byte strings and texts come as Arrow holds them:
text i is content[offsets[i] : offsets[i + 1]].

`runtime` runs kernels; kernels over texts, decimals and sketches have their own folders.
"""
