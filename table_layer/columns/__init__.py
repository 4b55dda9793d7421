"""Columns of a table over time: changed, renamed, widened."""
