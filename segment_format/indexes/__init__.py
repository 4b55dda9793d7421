"""Indexes of columns' values: bitmaps in a segment, and Bloom filters in files beside it."""
