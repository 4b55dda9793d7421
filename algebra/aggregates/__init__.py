"""Aggregates: as users write them, and what they take and return."""
