"""Replacing a table by name: one commit of its own log, or the table as it was.

The oracle of what a statement stores is Spark itself, over a frame of the rows of before.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from replaced_tables import (
    BAD_PROPERTIES,
    CATALOGS,
    CLASS,
    OF_COLUMNS,
    OF_FRAMES,
    OF_QUERIES,
    QUERIES,
    Replacing,
    drawn_properties,
)
from scale import tries

import projseg

pytest.importorskip("sqlalchemy")

MADE = "SELECT id AS k, id % 7 AS g, timestamp_seconds(id * 30000) AS t FROM range(40)"


@pytest.fixture(scope="module")
def names(spark, tmp_path_factory):
    """The table of each catalog."""
    folder = tmp_path_factory.mktemp("replaced")
    spark.conf.set("spark.sql.catalog.replacing", CLASS)
    spark.conf.set("spark.sql.catalog.replacing.warehouse", str(folder / "house"))
    spark.conf.set("spark.sql.catalog.redefining", CLASS)
    spark.conf.set("spark.sql.catalog.redefining.uri", str(folder / "house.db"))
    spark.conf.set("spark.sql.catalog.redefining.warehouse", str(folder / "defined"))
    return {
        "session": "replaced",
        "external": "replaced",
        "folder": "replacing.default.replaced",
        "definitions": "redefining.default.replaced",
    }


class Life:
    """A table of one catalog, what it held at each version, and what was drawn for it."""

    def __init__(self, spark, name, catalog, folder):
        self.spark, self.name, self.catalog, self.folder = spark, name, catalog, folder
        self.drawn = Counter()
        self.versions = {}

    def make(self):
        where = f" LOCATION '{self.folder / 'x y'}'" if self.catalog == "external" else ""
        self.spark.sql(f"CREATE TABLE {self.name} USING projseg{where} AS {MADE}")
        described = self.spark.sql(f"DESCRIBE EXTENDED {self.name}").collect()
        place = next(row.data_type for row in described if row.col_name == "Location")
        self.place = Path(place.removeprefix("file:").replace("%20", " "))
        self.versions[0] = self.rows()

    @property
    def table(self):
        return projseg.Table(self.place)

    def rows(self, at=""):
        frame = self.spark.sql(f"SELECT * FROM {self.name}{at}")
        return frame.columns, sorted((tuple(row) for row in frame.collect()), key=repr)

    def picture(self):
        """What a statement that fails must leave: rows, history, files and what is told."""
        files = sorted(str(path) for path in self.place.rglob("*"))
        told = self.spark.sql(f"SHOW CREATE TABLE {self.name}").first()[0]
        return self.rows(), self.table.version, files, told

    def wanted(self, query):
        """What a query gives over a frame of the rows that are there."""
        frame = self.spark.sql(f"SELECT * FROM {self.name}")
        copy = self.spark.createDataFrame(frame.collect(), frame.schema)
        copy.createOrReplaceTempView("replaced_rows")
        made = self.spark.sql(query.format(z="replaced_rows"))
        return made.columns, sorted((tuple(row) for row in made.collect()), key=repr)

    def columns_of(self, query):
        names = self.spark.sql(query.format(z=self.name)).columns
        return {name.casefold(): name for name in names}

    def succeed(self, draw):
        form = draw.choice(OF_QUERIES + OF_COLUMNS)
        query = "" if form in OF_COLUMNS else draw.choice(QUERIES)
        columns = {"t": "t", "g": "g"} if not query else self.columns_of(query)
        properties = drawn_properties(draw, columns)
        wanted = (["k", "g", "t", "odd name"], []) if not query else self.wanted(query)
        said = (form, query, properties)
        self.drawn[self.catalog, form, "succeeds"] += 1
        before = self.table
        Replacing(form, query.format(z=self.name), properties).run(self.spark, self.name)
        after = self.table
        assert after.version == before.version + 1, said
        assert self.rows() == wanted, said
        assert after.properties.time_column == properties.get("timeColumn"), said
        held = [one.name for one in after.properties.projections]
        assert held == (["by_g"] if "projections" in properties else []), said
        assert after.properties.properties.get("autoCompact") == properties.get("autoCompact"), said
        assert after.verify(deep=True) == [], said
        self.versions[after.version] = wanted
        assert self.spark.sql(f"SELECT count(*) FROM {self.name}").first()[0] == len(wanted[1])
        self.travel(draw)
        self.append_from(before, draw)

    def travel(self, draw):
        """Read an older version, and bring one back."""
        version = draw.choice(list(self.versions))
        columns, rows = self.versions[version]
        frame = self.spark.sql(f"SELECT * FROM {self.name} VERSION AS OF {version}")
        found = [column for column in frame.columns if column in columns]
        assert found == columns or self.catalog == "definitions"
        frame = frame.select(*(f"`{column}`" for column in columns))
        assert sorted((tuple(row) for row in frame.collect()), key=repr) == rows
        # The table of a definition is restored without the definition.
        if draw.random() < 0.4 and self.catalog != "definitions":
            self.drawn[self.catalog, "restore", "succeeds"] += 1
            self.spark.sql(f"RESTORE {self.name} TO VERSION AS OF {version}")
            frame = self.spark.sql(f"SELECT * FROM {self.name}")
            found = frame.select(*(f"`{column}`" for column in columns))
            assert sorted((tuple(row) for row in found.collect()), key=repr) == rows
            self.versions[self.table.version] = self.rows()

    def append_from(self, opened, draw):
        """Append by a writer that opened the table before it was replaced."""
        if draw.random() < 0.5:
            return
        rows, before = opened.query(limit=2), self.rows()
        try:
            opened.append(rows)
        except projseg.ProjsegError as error:
            self.drawn[self.catalog, "older writer", error.code] += 1
            assert self.rows() == before
            return
        self.drawn[self.catalog, "older writer", "appended"] += 1
        assert len(self.rows()[1]) == len(before[1]) + len(rows)
        assert self.table.verify(deep=True) == []
        self.versions[self.table.version] = self.rows()

    def fail(self, draw):
        failure = draw.choice(list(FAILURES))
        one = Replacing(draw.choice(OF_QUERIES), draw.choice(QUERIES).format(z=self.name))
        FAILURES[failure](self, draw, one)
        is_beside = failure in ("race", "stale")
        if is_beside and not self.rows()[1]:
            return
        self.drawn[self.catalog, one.form, failure] += 1
        frame = self.spark.table(self.name) if failure == "stale" else None
        if failure == "stale":
            self.table.append(self.table.query(limit=1))
        before = self.picture()
        with pytest.raises(Exception, match=one.error):
            one.write(frame, self.name) if is_beside and frame else one.run(self.spark, self.name)
        after = self.picture()
        if failure == "race":  # the other writer's row is there, and nothing else has changed
            assert len(after[0][1]) == len(before[0][1]) + 1, one
            assert (after[1], after[3]) == (before[1] + 1, before[3]), one
        else:
            assert after == before, one
        self.versions[self.table.version] = self.rows()


def job(life, draw, one):
    one.query = (
        "SELECT /*+ REPARTITION(4) */ id AS k, id % 3 AS g, current_timestamp() AS t, "
        f"IF(id = {draw.randrange(40)}, raise_error('no'), 1) AS e FROM range(40)"
    )
    one.error = "USER_RAISED_EXCEPTION"


def refused_property(life, draw, one):
    properties, one.error = draw.choice(BAD_PROPERTIES)
    time = life.columns_of(one.query)["t"]
    one.properties = {key: text.replace("{t}", time) for key, text in properties.items()}


def refused_type(life, draw, one):
    one.query, one.error = f"SELECT k, INTERVAL '1' DAY AS i FROM {life.name}", "UNSUPPORTED_TYPE"


def refused_option(life, draw, one):
    one.form = draw.choice(OF_FRAMES)
    one.options, one.error = {"nosuchoption": "1"}, "PROJSEG_UNKNOWN_OPTION"


def refused_location(life, draw, one):
    one.form = draw.choice(["replaceAs", "createOrReplaceAs"])
    one.location, one.error = str(life.folder / "elsewhere"), "LOCATION"


def race(life, draw, one):
    one.query = f"SELECT cast(racing(g) AS bigint) AS k, g, t FROM {life.name}"
    one.error = "PROJSEG_COMMIT_CONFLICT"
    marker = str(life.folder / f"raced {life.table.version}")
    life.spark.udf.register("racing", appending(str(life.place), marker), "bigint")


def stale(life, draw, one):
    one.form, one.error = draw.choice(OF_FRAMES), "PROJSEG_COMMIT_CONFLICT"


FAILURES = {
    "job": job,
    "property": refused_property,
    "type": refused_type,
    "option": refused_option,
    "location": refused_location,
    "race": race,
    "stale": stale,
}


def appending(place, marker):
    """Return a function that appends a row to a table, the first time that it is called."""

    def racing(value):
        import projseg

        try:
            Path(marker).touch(exist_ok=False)
        except FileExistsError:
            return value
        table = projseg.Table(place)
        table.append(table.query(limit=1))
        return value

    return racing


@pytest.fixture
def life(spark, names, tmp_path):
    spark.conf.set("spark.projseg.enabled", "true")
    lives = []

    def begin(catalog):
        lives.append(Life(spark, names[catalog], catalog, tmp_path))
        lives[-1].make()
        return lives[-1]

    yield begin
    for one in lives:
        spark.sql(f"DROP TABLE IF EXISTS {one.name}")
    spark.conf.set("spark.projseg.enabled", "false")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(max(4, tries(80) // 2)))
def test_a_table_is_replaced_in_one_commit_or_stays_as_it_was(life, seed):
    draw, catalog = random.Random(seed), CATALOGS[seed % len(CATALOGS)]
    found = life(catalog)
    for _ in range(4):
        found.fail(draw) if draw.random() < 0.5 else found.succeed(draw)
    print(dict(found.drawn))
