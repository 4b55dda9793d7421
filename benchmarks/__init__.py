"""Measure projseg beside its peers: the same rows, the same queries, the same run."""
