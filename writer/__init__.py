"""Arrow batches to immutable segment files."""
