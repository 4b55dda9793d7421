"""One Spark session for every test here: starting a JVM costs five seconds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from star_tables import make_stars

WIKIPEDIA = (
    Path(__file__).resolve().parents[3]
    / "shared/data/wikipedia/wikiticker-2015-09-12-sampled.json.gz"
)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    import projseg

    session = (
        projseg.configure(SparkSession.builder)
        .config("spark.projseg.enabled", "false")  # but in tests of acceleration
        .master("local[2,2]")  # two cores, and a failed task runs once more
        .appName("projseg tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def plain(spark):
    """Another session of the same JVM and catalog, without the extension."""
    from pyspark.sql import SparkSession

    java = spark._jvm
    none = java.scala.collection.immutable.HashMap()
    session = java.org.apache.spark.sql.classic.SparkSession(
        spark._jsc.sc(),
        java.scala.Option.apply(spark._jsparkSession.sharedState()),
        java.scala.Option.empty(),
        java.org.apache.spark.sql.SparkSessionExtensions(),
        none,
        none,
    )
    return SparkSession(spark.sparkContext, session)


@pytest.fixture
def silent_refusals():
    """Log no error of Spark: many texts are refused, each with a page of Java's stack."""
    from pyspark.logger import PySparkLogger

    # A logger of this name that another class made would fail at each error of a query.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.disabled = True
    yield
    logger.disabled = False


@pytest.fixture(scope="session")
def stars(spark, tmp_path_factory):
    make_stars(spark, tmp_path_factory.mktemp("stars"))


@pytest.fixture(scope="session")
def wikipedia_file():
    if not WIKIPEDIA.exists():
        pytest.skip(f"the Wikipedia sample is not at {WIKIPEDIA}; it is not part of the project")
    return str(WIKIPEDIA)
