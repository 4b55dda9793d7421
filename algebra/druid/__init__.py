"""Druid's JSON form of a projection, read as Spark SQL text."""
