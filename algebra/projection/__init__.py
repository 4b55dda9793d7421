"""Definitions of projections: the spec that SQL, Druid's JSON and keywords are parsed to.

Renamed columns change a definition's names.
"""
