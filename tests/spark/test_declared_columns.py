"""What is declared of columns is kept through every change, and no read believes it."""

from __future__ import annotations

import pytest
from declared_lives import Life

CLASS = "org.apache.spark.sql.projseg.ProjsegCatalog"
LIVES, STEPS = 60, 8


@pytest.fixture(scope="module")
def lives(spark, tmp_path_factory):
    """The session, and the folder of tables."""
    folder = tmp_path_factory.mktemp("lives")
    spark.conf.set("spark.sql.catalog.lives", CLASS)
    spark.conf.set("spark.sql.catalog.lives.warehouse", str(folder / "own"))
    spark.conf.set("spark.projseg.enabled", "true")
    yield spark, folder
    spark.conf.set("spark.projseg.enabled", "false")


@pytest.mark.slow
def test_lives_of_declared_columns(lives):
    spark, folder = lives
    for seed in range(LIVES):
        Life(spark, seed, folder).live(STEPS)
