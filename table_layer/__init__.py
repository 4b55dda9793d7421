"""Which segments make up a table, atomically: its storage, metadata, commits, foreign files."""
