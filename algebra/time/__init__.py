"""Instants, intervals, time zones, and the granularities that cut time into buckets."""
