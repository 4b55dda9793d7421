"""A pool of processes that answer queries side by side.

A fork server starts workers, a queue gives them to requests, messages carry questions and rows.
"""
