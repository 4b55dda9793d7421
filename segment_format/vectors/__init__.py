"""Columns in memory: vectors, wide integers and Arrow arrays."""
