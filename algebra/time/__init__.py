"""Instants, intervals, durations, time zones, and the granularities that cut time into buckets."""
