"""Dictionaries: the sorted distinct values of a column, in pages, by hash."""
