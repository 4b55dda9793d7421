"""Delete, update, merge, replace and erase rows that match a condition or have known numbers.

Changes rewrite the affected segments; after an erasure, a search proves what is left.
"""
