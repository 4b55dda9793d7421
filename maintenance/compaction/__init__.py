"""Compaction: small segments of a time chunk become larger ones."""
