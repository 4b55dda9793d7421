"""SQL text of expressions: read, cut, named and written."""
