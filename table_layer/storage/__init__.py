"""Where a table lives: a directory or an object store."""
