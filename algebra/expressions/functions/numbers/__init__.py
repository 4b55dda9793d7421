"""Functions of numbers, and digests."""
