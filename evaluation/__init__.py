"""Expressions over rows: in blocks, by dictionary value, by ranges, or through Arrow.

Masks select rows, and a search of postings chooses the values of a dictionary; joins look up rows
of dimensions; columns of files get their declared types.
"""
