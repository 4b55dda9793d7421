"""Views: stored groups of a table and its dimensions, in parts that stand for many segments.

`definitions` says what a view stores.
"""
