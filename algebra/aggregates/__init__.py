"""Aggregates: calls, outputs and GROUP BY as users write them; functions and result types.

Expressions of these become outputs; a call is made of primitives, whose states are columns.
"""
