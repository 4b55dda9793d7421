"""Engines of benchmarks, which `engine_comparison` lists: projseg, Spark, DuckDB and ClickHouse.

Each has one small adapter; statements for all are composed from neutral parts.
"""
