"""Expressions: from Spark SQL text to a typed canonical tree, and its value over Arrow data."""
