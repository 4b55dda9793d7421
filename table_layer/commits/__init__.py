"""Commits: new versions, published atomically and rebased on conflict."""
