"""Indexes of columns' values: bitmaps in a segment, and Bloom filters in files beside it.

A kind of index says which keys a column has; those of texts are words and runs of characters.
"""
