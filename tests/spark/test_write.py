"""Writing from Spark: save modes, options against the table, schemas, failing tasks."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import projseg
from projseg.errors import InvalidInputError
from projseg.spark_datasource.write_job import ProjsegWriter, SegmentsWritten
from projseg.spark_datasource.write_request import parse_write_request
from projseg.writer.table_writer import write_segments

pytestmark = pytest.mark.spark

OPTIONS = {"timeColumn": "t", "segmentGranularity": "day", "clusterBy": "k"}
SECOND_DAY = "1970-01-02T00:00Z/P1D"
PROJECTION = {"name": "by_k", "sql": "SELECT k, sum(n) AS n, count(*) AS c GROUP BY ALL"}


@pytest.fixture
def location(tmp_path):
    return str(tmp_path / "table")


@pytest.fixture(scope="module")
def rows(spark):
    return spark.range(1000).selectExpr(
        "timestamp_micros(id * 259200000) AS t", "concat('k', id % 7) AS k", "id AS n"
    )


def save(frame, location, mode="append", **options):
    frame.write.format("projseg").mode(mode).options(**options).save(location)


def refused(run):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - py4j's classes differ by where it fails
        run()
    return str(caught.value)


def total(location):
    answer = projseg.Table(location).query(aggregators="count(*) AS c, sum(n) AS n").to_pylist()
    return answer[0]["c"], answer[0]["n"]


def test_append_makes_the_table_and_adds_to_it(rows, location):
    save(rows, location, **OPTIONS, projections=json.dumps([PROJECTION]))
    assert total(location) == (1000, 499_500)
    save(rows, location)
    assert total(location) == (2000, 999_000)
    table = projseg.Table(location)
    assert table.properties.time_column == "t"
    assert table.detail()["projections"] == ["by_k"]
    assert table.segments().num_rows >= 2 * 3, "three days, written twice"
    history = table.history().to_pylist()
    assert [(row["operation"], row["rows"]) for row in history] == [
        ("append", 2000),
        ("create", 1000),
    ]
    assert table.verify(deep=True) == []


def test_overwrite_replaces_every_row(rows, location):
    save(rows, location, **OPTIONS)
    save(rows.limit(10), location, mode="overwrite")
    assert total(location) == (10, 45)
    before = projseg.Table(location, version=0).query(aggregators="count(*) AS c")
    assert before.to_pylist() == [{"c": 1000}]


def test_replace_interval_replaces_one_day(rows, location):
    save(rows, location, **OPTIONS)
    second_day = rows.filter("t >= '1970-01-02' AND t < '1970-01-03'")
    lost = second_day.count()
    replacement = second_day.limit(1)
    save(replacement, location, mode="overwrite", replaceInterval=SECOND_DAY)
    assert total(location)[0] == 1000 - lost + 1
    third_day = rows.filter("t >= '1970-01-03T06:00' AND t < '1970-01-03T18:00'")
    replaced = third_day.count()
    hours = {"mode": "overwrite", "replaceInterval": "1970-01-03T06:00Z/PT12H"}
    save(third_day.limit(2), location, **hours)
    assert total(location)[0] == 1000 - lost + 1 - replaced + 2
    assert replaced > 2
    assert projseg.Table(location).verify(deep=True) == []


def test_rows_outside_the_replaced_interval_are_refused(rows, location):
    save(rows, location, **OPTIONS)
    told = refused(lambda: save(rows, location, mode="overwrite", replaceInterval=SECOND_DAY))
    assert "PROJSEG_ROWS_OUTSIDE_INTERVAL" in told
    assert total(location) == (1000, 499_500)


def test_the_first_rows_of_a_table_keep_to_the_replaced_interval_too(rows, location):
    options = {"mode": "overwrite", "replaceInterval": SECOND_DAY}
    told = refused(lambda: save(rows, location, **OPTIONS, **options))
    assert "PROJSEG_ROWS_OUTSIDE_INTERVAL" in told
    assert not projseg.is_table(location)
    told = refused(lambda: save(rows, location, **options))
    assert "PROJSEG_NO_TIME_COLUMN" in told
    inside = rows.filter("t >= '1970-01-02' AND t < '1970-01-03'")
    save(inside, location, **OPTIONS, **options)
    assert total(location)[0] == inside.count() > 0


def test_an_option_that_contradicts_the_table_is_refused(rows, location):
    save(rows, location, **OPTIONS)
    told = refused(lambda: save(rows, location, segmentGranularity="hour"))
    assert "PROJSEG_OPTION_CONTRADICTS_TABLE" in told
    told = refused(lambda: save(rows, location, projections=json.dumps([PROJECTION])))
    assert "the table does not declare it" in told
    save(rows, location, **OPTIONS)
    assert total(location)[0] == 2000


def test_a_misspelt_option_is_refused_before_anything_is_written(rows, location):
    told = refused(lambda: save(rows, location, timeColum="t"))
    assert "did you mean 'timeColumn'?" in told
    assert not Path(location).exists()


def test_columns_are_matched_by_name_and_missing_ones_are_null(rows, location):
    save(rows, location, **OPTIONS)
    save(rows.select("k", "t").limit(5), location)
    counts = projseg.Table(location).query(aggregators="count(*) AS c, count(n) AS n").to_pylist()
    assert counts == [{"c": 1005, "n": 1000}]


def test_a_new_column_needs_merge_schema(rows, location):
    save(rows, location, **OPTIONS)
    wider = rows.withColumn("extra", F.lit("x")).limit(3)
    assert "PROJSEG_SCHEMA_MISMATCH" in refused(lambda: save(wider, location))
    save(wider, location, mergeSchema="true")
    table = projseg.Table(location)
    assert table.schema.names == ["t", "k", "n", "extra"]
    assert table.query(aggregators="count(extra) AS c")["c"][0].as_py() == 3


def test_a_column_of_another_type_is_refused(rows, location):
    save(rows, location, **OPTIONS)
    told = refused(lambda: save(rows.withColumn("n", F.lit("x")), location))
    assert "PROJSEG_SCHEMA_MISMATCH" in told
    assert "'n'" in told


def test_a_transaction_is_written_once(rows, location):
    for _ in range(2):
        save(rows, location, **OPTIONS, txnAppId="loader", txnVersion="1")
    assert total(location)[0] == 1000
    listed = set(projseg.Table(location).segments()["segment"].to_pylist())
    assert {f"data/{file.name}" for file in Path(location, "data").iterdir()} == listed
    save(rows, location, txnAppId="loader", txnVersion="2")
    assert total(location)[0] == 2000


def test_a_failing_task_leaves_the_table_as_it_was(spark, rows, location):
    save(rows, location, **OPTIONS)
    failing = rows.withColumn("n", F.expr("if(n = 999, raise_error('no'), n)"))
    assert "no" in refused(lambda: save(failing, location))
    assert total(location) == (1000, 499_500)
    assert projseg.Table(location).version == 0


def test_a_task_that_fails_at_its_end_and_runs_again_is_written_once(spark, location, tmp_path):
    mark = str(tmp_path / "failed-once")

    @F.udf("bigint", useArrow=False)
    def fail_once(n):
        if n == 499 and not os.path.exists(mark):
            open(mark, "w").close()
            raise RuntimeError("the first attempt fails at its last row")
        return n

    rows = spark.range(0, 1000, 1, 2).select(fail_once("id").alias("n"))
    save(rows, location)
    assert Path(mark).exists()
    assert total(location) == (1000, 499_500)
    names = [name.split("-") for name in projseg.Table(location).segments()["segment"].to_pylist()]
    assert len({partition for _, partition, _, _ in names}) == len(names) == 2


def test_an_empty_frame_makes_an_empty_table(rows, location):
    save(rows.limit(0), location, **OPTIONS)
    assert total(location) == (0, None)


def test_the_helper_has_the_modes_that_spark_refuses(rows, location):
    projseg.write(rows, location, time_column="t", cluster_by=["k"], projections=[PROJECTION])
    with pytest.raises(InvalidInputError, match="PROJSEG_TABLE_EXISTS"):
        projseg.write(rows, location)
    projseg.write(rows, location, mode="ignore")
    assert projseg.Table(location).version == 0, "nothing was committed"
    assert total(location)[0] == 1000
    projseg.write(rows, location, mode="append")
    assert total(location)[0] == 2000
    with pytest.raises(InvalidInputError, match="did you mean 'append'"):
        projseg.write(rows, location, mode="apend")


def test_the_writer_itself_looks_whether_there_is_a_table(rows, location):
    save(rows, location, ifExists="error")
    told = refused(lambda: save(rows, location, ifExists="error"))
    assert "[PROJSEG_TABLE_EXISTS]" in told
    save(rows, location, ifExists="IGNORE")
    assert total(location)[0] == 1000
    save(rows, location, ifExists="append")
    assert total(location)[0] == 2000
    assert "did you mean 'ignore'" in refused(lambda: save(rows, location, ifExists="ignor"))
    told = refused(lambda: save(rows, location, mode="overwrite", ifExists="error"))
    assert "[PROJSEG_BAD_OPTION]" in told
    assert total(location)[0] == 2000


def test_of_racing_writers_that_want_no_table_exactly_one_wins(spark, location):
    frames = [spark.createDataFrame(pa.table({"id": [number]})) for number in range(3)]

    def attempt(number):
        try:
            projseg.write(frames[number], location, mode="error")
        except InvalidInputError as error:
            return error.code
        return number

    with ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(attempt, range(3)))
    won = [outcome for outcome in outcomes if isinstance(outcome, int)]
    assert sorted(map(str, outcomes)) == [str(won[0]), *["PROJSEG_TABLE_EXISTS"] * 2]
    assert projseg.Table(location).query()["id"].to_pylist() == won


def test_a_transaction_that_made_the_table_is_no_error(rows, location):
    for _ in range(2):
        save(rows, location, ifExists="error", txnAppId="loader", txnVersion="1")
    assert total(location)[0] == 1000


def test_the_helper_takes_paths_and_projections_of_every_form(rows, tmp_path):
    sql = {"name": "by_k", "sql": "SELECT k, sum(n) AS n GROUP BY ALL"}
    kept = projseg.Projection("kept", group_by=["k"], aggregators=["max(n) AS n"], where="n > 5")
    forms = {
        "objects": [kept, projseg.Projection("by_k", ["k"], ["sum(n) AS n"])],
        "dicts": [asdict(kept), sql],
        "json": json.dumps([asdict(kept), sql]),
        "mixed": (kept, json.dumps(sql)),
    }
    made = {}
    for form, projections in forms.items():
        projseg.write(rows.limit(3), tmp_path / form, projections=projections)
        made[form] = projseg.Table(tmp_path / form).properties.projections
    assert {p.name for p in made["objects"]} == {"kept", "by_k"}
    assert all(
        {p.definition_hash for p in one} == {p.definition_hash for p in made["objects"]}
        for one in made.values()
    )
    for one in (kept, asdict(kept)):
        projseg.write(rows.limit(0), tmp_path / "one", projections=one, mode="overwrite")
        assert projseg.Table(tmp_path / "one").detail()["projections"] == ["kept"]
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_PROJECTION"):
        projseg.write(rows, tmp_path / "bad", projections=["{"])
    assert (
        projseg.read(rows.sparkSession, tmp_path / "dicts", aggregators="count(*)").first()[0] == 3
    )


def test_every_type_survives(spark, location):
    frame = spark.sql(
        "SELECT true AS b, 1Y AS i8, 2S AS i16, 3 AS i32, 4L AS i64, 1.5f AS f, 2.5D AS d,"
        " 1.25BD AS exact, 'é' AS s, X'00FF' AS bytes, DATE'2015-09-12' AS day,"
        " TIMESTAMP'2015-09-12 01:02:03.456789' AS ts, TIMESTAMP_NTZ'2015-09-12 01:02:03' AS ntz,"
        " array(1, NULL) AS list, map('a', array(1.5D)) AS m, named_struct('x', 1, 'y', 'z') AS st"
    )
    nulls = frame.selectExpr(*[f"if(i32 = 3, NULL, {name}) AS {name}" for name in frame.columns])
    both = frame.union(nulls)
    save(both, location)
    read = spark.read.format("projseg").load(location)
    assert [f.dataType.simpleString() for f in read.schema] == [
        f.dataType.simpleString() for f in both.schema
    ]
    assert sorted(read.collect(), key=str) == sorted(both.collect(), key=str)


def test_session_time_zone_does_not_move_instants(spark, location):
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        save(spark.sql("SELECT TIMESTAMP'2015-09-12 00:00:00' AS t"), location)
        assert projseg.Table(location).query()["t"][0].as_py().isoformat() == (
            "2015-09-11T18:30:00+00:00"
        )
        read = spark.read.format("projseg").load(location).selectExpr("string(t) AS t")
        assert read.first().t == "2015-09-12 00:00:00"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_first_write_that_fails_leaves_no_table(spark, rows, location):
    failing = rows.withColumn("n", F.expr("if(n = 999, raise_error('no'), n)"))
    assert "no" in refused(lambda: save(failing, location, **OPTIONS))
    assert not projseg.is_table(location)
    save(rows, location)  # declares something else, and nothing is in its way
    assert projseg.Table(location).properties.time_column is None
    assert total(location) == (1000, 499_500)


def test_a_refused_commit_gives_back_its_segments(spark, rows, location):
    save(rows, location, **OPTIONS)
    before = sorted(Path(location, "data").iterdir())
    writer = ProjsegWriter(
        parse_write_request({"path": location, "replaceInterval": "1970-01-02T00:00Z/P1D"}),
        rows.schema,
        overwrite=True,
    )
    target = writer._job.target
    entries = write_segments(
        rows.toArrow().to_batches(),
        target.properties,
        target.storage,
        write_id=writer._job.write_id,
    )
    with pytest.raises(InvalidInputError, match="PROJSEG_ROWS_OUTSIDE_INTERVAL"):
        writer.commit([SegmentsWritten.of(entries)])
    assert sorted(Path(location, "data").iterdir()) == before
