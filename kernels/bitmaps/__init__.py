"""Kernels of Roaring bitmaps in the portable format."""
