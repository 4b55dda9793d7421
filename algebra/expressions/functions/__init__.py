"""The functions, one family in each file: their type rules and their evaluation over arrays.

Those of times and dates have a folder.
"""
