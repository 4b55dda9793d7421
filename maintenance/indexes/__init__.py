"""Indexes of segments that are there: filters made from stored hashes, and files gathered."""
