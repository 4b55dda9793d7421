"""Rows, queries and projections that engines are compared by."""
