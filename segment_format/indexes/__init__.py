"""Indexes of a column's values; the bitmap index is the only kind."""
