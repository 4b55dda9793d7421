"""Definitions of views: from a SELECT, a rollup's dimensions and metrics, or a result of Spark's.

Checks refuse what no view can say.
"""
