"""Queries, before and after they are bound to a table, and the flags of their context."""
