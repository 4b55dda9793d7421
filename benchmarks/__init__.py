"""Measure projseg beside its peers, and in scenarios: the same rows, queries and run."""
