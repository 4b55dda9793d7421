"""Delete, update, merge and erase rows."""
