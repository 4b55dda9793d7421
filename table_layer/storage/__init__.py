"""Where a table lives: local files or an object store, and the paths of a table's files.

A table over a source has options for both places.
"""
