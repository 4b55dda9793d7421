"""Proofs from conditions and from a segment's facts: sound, but not complete.

They reason with sets of values for which a predicate is true, with exact values, and with the keys
of indexes.
"""
