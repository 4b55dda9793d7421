"""Which segments make up a table, atomically: its storage, its metadata, commits, vacuum."""
