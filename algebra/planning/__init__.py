"""The choice of the source that answers a query on each segment, and the reasons against others."""
