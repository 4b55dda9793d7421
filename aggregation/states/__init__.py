"""States of aggregates: rows and states folded into one state a group, and final values."""
