"""The log of queries that the extension planned, as a DataFrame."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession


def query_log(spark: SparkSession) -> DataFrame:
    """Return the latest queries over projseg tables that the extension planned, oldest first.

    The driver keeps them in memory, of all its sessions. SQL has the same rows as
    `SELECT * FROM projseg_query_log()`.

    Parameters
    ----------
    spark : SparkSession
        Configured by `projseg.configure`.

    Returns
    -------
    DataFrame
        time, location, version, request (JSON, with `?` for literals), answered (`planted`,
        `shared`, `scanned` or `not`), sources, reasons (why projections or projseg are not used),
        rows and bytes (read, at most), planning_milliseconds, answering_milliseconds.
    """
    return spark.sql("SELECT * FROM projseg_query_log()")
