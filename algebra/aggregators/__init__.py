"""Aggregate functions as mergeable states: one file for each state, `states` the table of them."""
