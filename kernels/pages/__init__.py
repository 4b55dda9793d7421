"""Kernels of page encodings: bits, runs, differences, prefixes."""
