"""Options of writes by name arrive as those by path, and threads need no session of their own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import product

import pytest

import projseg

pytestmark = pytest.mark.spark

KINDS = ("session", "own", "defined", "path")
CALLS = ("writeTo", "saveAsTable", "foreachBatch", "INSERT")


@pytest.fixture(scope="module")
def catalogs(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("by_name")
    kind = "org.apache.spark.sql.projseg.ProjsegCatalog"
    settings = {"named": kind, "named.warehouse": str(folder / "own"), "told": kind}
    settings |= {"told.uri": str(folder / "told.db"), "told.warehouse": str(folder / "told")}
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}", value)
    spark.sql("CREATE NAMESPACE named.s")
    if find_spec("sqlalchemy"):
        spark.sql("CREATE NAMESPACE told.s")
    return folder


class Target:
    """A table of a kind, and the calls that append a frame to it with options."""

    _made = 0

    def __init__(self, spark, folder, kind, columns="k int, g string", properties=""):
        if kind == "defined":
            pytest.importorskip("sqlalchemy")
        Target._made += 1
        self.spark, self._kind = spark, kind
        table = f"t{Target._made}"
        self.name = {
            "session": f"by_name_{table}",
            "own": f"named.s.{table}",
            "defined": f"told.s.{table}",
            "path": f"projseg.`{folder}/path/{table}`",
        }[kind]
        self._path = f"{folder}/path/{table}"
        if kind == "path":
            projseg.Table.create(self._path, dict(one.split() for one in columns.split(", ")))
        else:
            spark.sql(f"CREATE TABLE {self.name} ({columns}) USING projseg {properties}")

    def append(self, call, frame, **options):
        if call == "foreachBatch":
            # As each batch of a stream is written, by the session that Spark gives.
            call = "saveAsTable" if options.pop("saves", True) else "writeTo"
        if call == "INSERT":
            frame.createOrReplaceTempView("given")
            texts = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
            self.spark.sql(f"INSERT INTO {self.name} WITH ({texts}) SELECT * FROM given")
        elif call == "writeTo":
            frame.writeTo(self.name).options(**options).append()
        else:
            writer = frame.write.format("projseg").mode("append").options(**options)
            writer.save(self._path) if self._kind == "path" else writer.saveAsTable(self.name)

    def rows(self):
        return sorted(tuple(row) for row in self.spark.table(self.name).collect())

    def error(self, call, frame, **options):
        with pytest.raises(Exception, match="PROJSEG_") as raised:
            self.append(call, frame, **options)
        return str(raised.value)


def frame_of(spark, *rows, columns="k int, g string"):
    return spark.createDataFrame(list(rows), columns)


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("kind", "call"), list(product(KINDS, CALLS[:2] + CALLS[3:])))
def test_a_numbered_write_is_published_once(spark, catalogs, kind, call):
    target, frame = Target(spark, catalogs, kind), frame_of(spark, (1, "a"))
    for version in (1, 1, 2, 1):
        target.append(call, frame, txnAppId="app", txnVersion=str(version))
    assert target.rows() == [(1, "a"), (1, "a")]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS[:3])
def test_batches_of_a_stream_are_published_once_by_name(spark, catalogs, kind, tmp_path):
    target = Target(spark, catalogs, kind)
    source = str(tmp_path / "source")
    frame_of(spark, (1, "a"), (2, "b")).write.parquet(source)

    def twice(batch, number):
        for _ in range(2):
            target.append("foreachBatch", batch, txnAppId="s", txnVersion=str(number))

    stream = spark.readStream.schema("k int, g string").parquet(source)
    stream.writeStream.foreachBatch(twice).trigger(availableNow=True).option(
        "checkpointLocation", str(tmp_path / "checkpoint")
    ).start().awaitTermination()
    assert target.rows() == [(1, "a"), (2, "b")]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("kind", "call"), list(product(KINDS, CALLS[:2])))
def test_merge_schema_adds_and_widens_columns(spark, catalogs, kind, call):
    target = Target(spark, catalogs, kind)
    target.append(call, frame_of(spark, (1, "a")), txnAppId="a", txnVersion="1")
    wider = frame_of(spark, (2**40, "b", 0.5), columns="k bigint, g string, x double")
    # `writeTo` gives Spark a plan in which the names of a selection are not resolved.
    target.append(call, wider.selectExpr("k", "lower(g) AS g", "x"), mergeSchema="true")
    assert target.spark.table(target.name).schema.simpleString() == (
        "struct<k:bigint,g:string,x:double>"
    )
    assert target.rows() == [(1, "a", None), (2**40, "b", 0.5)]
    # Columns go by their names, in whatever order and case, and the table is as it was after it.
    target.append(call, frame_of(spark, (1.5, 3, "c"), columns="X double, K int, G string"))
    assert target.rows()[1] == (3, "c", 1.5)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
def test_a_write_that_fails_merges_no_column(spark, catalogs, kind):
    target = Target(spark, catalogs, kind)
    target.append("saveAsTable", frame_of(spark, (1, "a")))
    failing = spark.sql("SELECT 1 AS k, 'b' AS g, CAST(raise_error('no') AS int) AS x")
    with pytest.raises(Exception, match="no"):
        target.append("saveAsTable", failing, mergeSchema="true")
    assert [row[:2] for row in target.rows()] == [(1, "a")]
    if kind != "defined":  # a definition declares columns before their rows come
        assert target.spark.table(target.name).columns == ["k", "g"]


REFUSED = {
    "PROJSEG_UNKNOWN_OPTION": {"txnAppID2": "a"},
    "PROJSEG_BAD_OPTION": {"txnVersion": "one", "txnAppId": "a"},
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("kind", "call", "code"), list(product(KINDS, CALLS[:2] + CALLS[3:], REFUSED))
)
def test_options_are_refused_by_name_as_by_path(spark, catalogs, kind, call, code):
    target = Target(spark, catalogs, kind)
    assert f"[{code}]" in target.error(call, frame_of(spark, (1, "a")), **REFUSED[code])
    assert target.rows() == []


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("kind", "call"), list(product(("session", "own"), ("create", "saveAsTable")))
)
def test_options_declare_a_new_table(spark, catalogs, kind, call):
    name = {"session": "by_name_new", "own": "named.s.new"}[kind] + call
    frame = spark.sql("SELECT TIMESTAMP'2024-03-05 10:00:00' AS time, 1 AS k")
    options = {"timeColumn": "time", "segmentGranularity": "day"}
    if call == "create":
        frame.writeTo(name).using("projseg").options(**options).create()
    else:
        frame.write.format("projseg").options(**options).saveAsTable(name)
    with pytest.raises(Exception, match="PROJSEG_NULL_TIME"):
        spark.sql(f"INSERT INTO {name} VALUES (NULL, 2)")
    assert spark.table(name).count() == 1


@pytest.mark.sampled(6)
@pytest.mark.parametrize("door", ["save", "saveAsTable", "writeTo", "load", "table", "sql"])
def test_a_thread_without_a_session_of_its_own_finds_the_format(spark, catalogs, door, tmp_path):
    frame, place = frame_of(spark, (1, "a")), str(tmp_path / "t")
    frame.write.format("projseg").mode("append").save(place)
    target = Target(spark, catalogs, "session")
    work = {
        "save": lambda: frame.write.format("projseg").mode("append").save(place),
        "saveAsTable": lambda: target.append("saveAsTable", frame),
        "writeTo": lambda: target.append("writeTo", frame),
        "load": lambda: spark.read.format("projseg").load(place).collect(),
        "table": lambda: spark.table(target.name).collect(),
        "sql": lambda: spark.sql(f"SELECT * FROM projseg.`{place}`").collect(),
    }[door]
    # As the next cell after an interrupt: the gateway gives it a thread of Java's without one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()
