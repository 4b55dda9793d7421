"""The steps, each a module: definitions first, then access, replies and status."""
