"""Plan a query: segments pruned, sources chosen, work estimated."""
