"""Instants, intervals, granularities and zones: what the clock shows, and how it is cut up."""
