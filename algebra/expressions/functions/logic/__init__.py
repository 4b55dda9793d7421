"""Conditions, comparisons and casts."""
