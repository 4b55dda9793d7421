"""Reads of Spark's data source, batch and streaming."""
