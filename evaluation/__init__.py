"""Expressions over rows: in blocks, by dictionary value, by ranges, or through Arrow."""
