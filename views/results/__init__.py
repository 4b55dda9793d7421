"""Views that are kept as the rows of their SELECT, which Spark computes."""
