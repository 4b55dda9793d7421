"""Expressions: Spark SQL text to a typed canonical tree, and its evaluation over Arrow data."""
