"""Rows to groups to mergeable states: the loop that reading and writing share."""
