"""Aggregates over joined projseg tables are answered as Spark answers over Parquet."""

from __future__ import annotations

import random

import pytest
from scale import IS_NIGHTLY, tries
from spark_sql import assert_same, plan_of, using
from star_cases import PROJECTIONS, SCHEMAS, Star, rows_of

import projseg

STARS = tries(15, 2)
ASKED = 25 if IS_NIGHTLY else 10
VIEWS = {
    "by_place": "SELECT region, d.name, country, day, sum(v) AS s, count(v), sum(v * d.zone) AS z "
    "FROM edits e JOIN places d ON e.country = d.code GROUP BY ALL",
    "by_zone": "SELECT region, label, shop, date_trunc('DAY', time) AS t, sum(v) AS s, "
    "sum(v * weight) AS w, sum(weight) AS ws FROM edits e LEFT JOIN places d ON e.country = d.code "
    "LEFT JOIN zones z ON d.zone = z.id GROUP BY ALL",
    "by_shop": "SELECT s.active, s.opened, s.class, m.active AS m, country, e.day, sum(v) AS v, "
    "sum(s.manager) AS sm FROM edits e LEFT JOIN shops s ON e.shop = s.shop "
    "LEFT JOIN shops m ON s.manager = m.shop GROUP BY ALL",
}


class Copies:
    """A star as projseg tables and as Parquet, each in a database of its own."""

    def __init__(self, spark, folder, tables):
        self.spark, self.folder = spark, folder
        self.tables = {}
        for database in ("of_projseg", "of_parquet"):
            spark.sql(f"CREATE DATABASE {database} LOCATION '{folder}/{database}'")
        for name, rows in tables.items():
            options = {}
            if name == "edits":
                options = {
                    "time_column": "time",
                    "segment_granularity": "hour",
                    "projections": PROJECTIONS,
                }
            self.tables[name] = projseg.Table.create(f"{folder}/{name}", SCHEMAS[name], **options)
            self.tables[name].append(rows)
            spark.sql(f"CREATE TABLE of_projseg.{name} USING projseg LOCATION '{folder}/{name}'")
            frame = spark.createDataFrame(rows)
            frame.write.parquet(f"{folder}/{name}_parquet")
            spark.sql(
                f"CREATE TABLE of_parquet.{name} USING parquet LOCATION '{folder}/{name}_parquet'"
            )

    def drop(self):
        for database in ("of_projseg", "of_parquet"):
            self.spark.sql(f"DROP DATABASE {database} CASCADE")

    def view(self, name, text):
        self.tables["edits"].refresh().create_view(name, text, tables=self.tables)

    def frames(self, text):
        """Return a statement's answer from projseg, and Spark's over Parquet."""
        found = []
        for database in ("of_projseg", "of_parquet"):
            self.spark.sql(f"USE {database}")
            found.append(self.spark.sql(text))
        self.spark.sql("USE default")
        return found

    def check(self, text):
        """Compare the answers; return the plan."""
        found, expected = self.frames(text)
        plan = plan_of(found)
        assert_same(found, expected)
        return plan


@pytest.fixture
def copies(spark, tmp_path):
    made = []

    def of(tables, name="star"):
        made.append(Copies(spark, tmp_path / name, tables))
        return made[-1]

    with using(spark, enabled="true"):
        yield of
        for one in made:
            one.drop()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(STARS))
def test_random_stars_are_answered_as_over_parquet(spark, copies, seed):
    rng = random.Random(seed)
    star = copies(rows_of(rng, empty=seed % 7 == 6))
    answered = viewed = 0
    for name, text in VIEWS.items():
        star.view(name, text)
    for _ in range(ASKED):
        text, _ = Star(rng).texts()
        with using(spark, local_enabled=rng.choice(["true", "true", "false"])):
            plan = star.check(text)
        answered += "Join" not in plan
        viewed += "from view " in plan
    assert answered > ASKED // 2
    assert viewed > 0


@pytest.mark.slow
def test_a_doubled_key_is_refused_and_spark_joins(spark, copies):
    star = copies(rows_of(random.Random(3), doubled=True))
    text = "SELECT s.active, sum(v), count(*) FROM edits e JOIN shops s USING (shop) GROUP BY 1"
    plan = star.check(text)
    assert "Join" in plan
    found, _ = star.frames(text)
    shown = found._jdf.queryExecution().executedPlan().toString()
    assert "PROJSEG_JOIN_KEY_NOT_UNIQUE: join 'shops': several of its rows have shop = " in shown
    own = f"location LIKE '%{star.folder}/%' AND reasons LIKE '%NOT_UNIQUE%'"
    log, *_ = spark.sql(f"SELECT reasons FROM projseg_query_log() WHERE {own}").collect()
    assert log.reasons == "the engine refused with PROJSEG_JOIN_KEY_NOT_UNIQUE"
    # A semi join needs no unique key.
    semi = (
        "SELECT country, sum(v) FROM edits WHERE shop IN (SELECT shop FROM shops) GROUP BY country"
    )
    assert "Join" not in star.check(semi)
