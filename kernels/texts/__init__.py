"""Kernels over texts: their bytes and order, groups of equal ones, LIKE and patterns.

Also parts and words of texts, and texts made of others by changes or by sets of characters.
"""
