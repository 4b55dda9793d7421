"""Every form of write, between tables of every kind: what is named changes, and no other byte."""

from __future__ import annotations

import hashlib
from itertools import product

import pytest
from scale import one_of

import projseg

KINDS = ("session", "own", "path")
PROPERTIES = "TBLPROPERTIES ('timeColumn' = 't', 'segmentGranularity' = 'day')"
SRC = [("a", 1), ("b", 2)]
DST = [("d", 9)]


@pytest.fixture(scope="module")
def warehouse(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("matrix")
    spark.conf.set("spark.sql.catalog.wares", "org.apache.spark.sql.projseg.ProjsegCatalog")
    spark.conf.set("spark.sql.catalog.wares.warehouse", str(folder))
    return folder


class Tables:
    """A source, a target and a bystander of each kind."""

    def __init__(self, spark, folder, warehouse):
        self.spark, self._folder, self._warehouse = spark, folder, warehouse

    def name(self, kind, role):
        return {
            "session": f"matrix_{role}",
            "own": f"wares.matrix.{role}",
            "path": f"projseg.`{self.place(kind, role)}`",
        }[kind]

    def place(self, kind, role):
        if kind == "own":
            return self._warehouse / "matrix" / role
        return self._folder / kind / role

    def declare(self):
        columns = "(k string, n int, t timestamp) USING projseg"
        self.spark.sql("CREATE NAMESPACE wares.matrix")
        for role in ("src", "dst", "other"):
            place = self.place("session", role)
            name = self.name("session", role)
            self.spark.sql(f"CREATE TABLE {name} {columns} LOCATION '{place}' {PROPERTIES}")
            self.spark.sql(f"CREATE TABLE {self.name('own', role)} {columns} {PROPERTIES}")
            schema = {"k": "string", "n": "int", "t": "timestamp"}
            projseg.Table.create(
                self.place("path", role), schema, time_column="t", segment_granularity="day"
            )
            rows = DST if role == "dst" else SRC
            listed = ", ".join(f"('{k}', {n}, TIMESTAMP'2024-03-31')" for k, n in rows)
            for kind in KINDS:
                self.spark.sql(f"INSERT INTO {self.name(kind, role)} VALUES {listed}")

    def drop(self):
        for role in ("src", "dst", "other", "made"):
            self.spark.sql(f"DROP TABLE IF EXISTS {self.name('session', role)}")
        self.spark.sql("DROP NAMESPACE IF EXISTS wares.matrix CASCADE")

    def bytes_but(self, *changed):
        """Return a hash of every file but those of some tables, by the kind and role."""
        places = {
            (kind, role): self.place(kind, role)
            for kind in KINDS
            for role in ("src", "dst", "other")
        }
        return {
            key: hashlib.sha256(
                b"".join(
                    str(path.relative_to(place)).encode() + path.read_bytes()
                    for path in sorted(place.rglob("*"))
                    if path.is_file()
                )
            ).hexdigest()
            for key, place in places.items()
            if key not in changed
        }

    def rows(self, kind, role):
        found = projseg.Table(self.place(kind, role)).query(columns="k, n", order_by="k, n")
        return [(row["k"], row["n"]) for row in found.to_pylist()]


@pytest.fixture
def tables(spark, tmp_path, warehouse):
    spark.conf.set("spark.projseg.enabled", "true")
    made = Tables(spark, tmp_path, warehouse)
    try:
        made.declare()
        yield made
    finally:
        made.drop()
        spark.conf.set("spark.projseg.enabled", "false")


def sql(text):
    return lambda spark, src, dst: spark.sql(text.format(src=src, dst=dst))


def of_view(text):
    def act(spark, src, dst):
        spark.table(dst).createOrReplaceTempView("matrix_view")
        try:
            spark.sql(text.format(src=src, dst=dst, view="matrix_view"))
        finally:
            spark.catalog.dropTempView("matrix_view")

    return act


def up(rows):
    return [(k, n + 1) for k, n in rows]


WRITES = {
    "insert": (sql("INSERT INTO {dst} SELECT * FROM {src}"), lambda dst: dst + SRC),
    "by name": (
        sql("INSERT INTO {dst} (t, n, k) SELECT t, n, k FROM {src} WHERE n = 1"),
        lambda dst: [*dst, ("a", 1)],
    ),
    "overwrite": (sql("INSERT OVERWRITE {dst} SELECT * FROM {src}"), lambda dst: SRC),
    "itself": (sql("INSERT OVERWRITE {dst} SELECT k, n + 1, t FROM {dst}"), up),
    "of a view": (of_view("INSERT OVERWRITE {dst} SELECT k, n + 1, t FROM {view}"), up),
    "joined": (
        sql("INSERT INTO {dst} SELECT s.k, d.n, s.t FROM {src} s JOIN {dst} d ON s.n < d.n"),
        lambda dst: dst + [(s, n) for s, m in SRC for _, n in dst if m < n],
    ),
    "old version": (
        sql("INSERT OVERWRITE {dst} SELECT * FROM {src} VERSION AS OF 1"),
        lambda dst: SRC,
    ),
    "insertInto": (
        lambda spark, src, dst: spark.table(src).where("n = 2").write.insertInto(dst),
        lambda dst: [*dst, ("b", 2)],
    ),
    "insertInto over": (
        lambda spark, src, dst: spark.table(src).write.insertInto(dst, overwrite=True),
        lambda dst: SRC,
    ),
    "writeTo": (
        lambda spark, src, dst: spark.table(src).writeTo(dst).append(),
        lambda dst: dst + SRC,
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("src", "dst"), one_of(4, list(product(KINDS, KINDS))))
def test_the_table_that_is_named_changes_and_no_other_byte(tables, src, dst):
    expected = list(DST)
    names = tables.name(src, "src"), tables.name(dst, "dst")
    before = tables.bytes_but((dst, "dst"))
    for form, (act, result) in WRITES.items():
        if form == "old version" and src == "session":
            continue  # its first version is its first write
        act(tables.spark, *names)
        expected = sorted(result(expected))
        assert (form, tables.rows(dst, "dst")) == (form, expected)
        assert tables.bytes_but((dst, "dst")) == before, form


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("src", "dst"), one_of(4, list(product(KINDS, ["own", "session"]))))
def test_tables_that_a_write_makes(tables, src, dst):
    spark, source, made = tables.spark, tables.name(src, "src"), tables.name(dst, "made")
    before = tables.bytes_but()

    def found():
        return sorted(tuple(row) for row in spark.table(made).select("k", "n").collect())

    spark.sql(f"CREATE TABLE {made} USING projseg AS SELECT * FROM {source}")
    assert found() == SRC
    spark.sql(f"CREATE OR REPLACE TABLE {made} USING projseg AS SELECT k, 7 AS n FROM {source}")
    assert found() == [("a", 7), ("b", 7)]
    frame = spark.table(source).select("k", "n")
    frame.write.format("projseg").mode("append").saveAsTable(made)
    assert found() == [("a", 1), ("a", 7), ("b", 2), ("b", 7)]
    frame.write.format("projseg").mode("ignore").saveAsTable(made)
    assert len(found()) == 4
    with pytest.raises(Exception, match="ALREADY_EXISTS"):
        frame.write.format("projseg").mode("error").saveAsTable(made)
    frame.where("n = 1").write.format("projseg").mode("overwrite").saveAsTable(made)
    assert found() == [("a", 1)]
    frame.writeTo(made).using("projseg").replace()
    assert found() == SRC
    spark.sql(f"INSERT INTO {made} SELECT k, n + 1 FROM {made}")
    assert found() == sorted(SRC + up(SRC))
    spark.sql(f"DROP TABLE {made}")
    assert tables.bytes_but() == before


REFUSED = (
    "MERGE INTO {dst} AS d USING {src} AS s ON s.n < d.n WHEN MATCHED THEN UPDATE SET k = s.k",
    "UPDATE {dst} SET n = 'nine'",
    "INSERT INTO {dst} SELECT k, 1 / 0, t FROM {src}",
    "INSERT OVERWRITE {dst} SELECT k, n, NULL FROM {src}",
    "INSERT INTO {dst} SELECT k FROM {src}",
    "INSERT OVERWRITE {dst} PARTITION (k = 'd') SELECT n, t FROM {src}",
)


@pytest.mark.parametrize("dst", one_of(3, KINDS))
def test_what_is_refused_changes_no_byte(tables, dst):
    names = {"src": tables.name("own", "src"), "dst": tables.name(dst, "dst")}
    before = tables.bytes_but()
    for text in REFUSED:
        with pytest.raises(Exception, match=r"(?i)\[|not (support|merge)"):
            tables.spark.sql(text.format(**names)).collect()
        assert tables.bytes_but() == before, text
