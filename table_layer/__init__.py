"""Which segments make up a table, atomically: its storage, metadata, commits, foreign files.

On these stand the feed of changes, changes of columns, indexed and renamed columns, coverage,
metadata tables, vacuum, removal, and the search for values that are still stored.
"""
