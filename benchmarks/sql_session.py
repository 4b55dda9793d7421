"""The session that benchmarks of plain SQL measure."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

import projseg


def sql_session() -> SparkSession:
    """Return a session with the extension, of two threads."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        projseg.configure(SparkSession.builder)
        .master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "3g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session
