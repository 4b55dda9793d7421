"""Which source answers a query on each segment, how, at what cost, and why no other."""
