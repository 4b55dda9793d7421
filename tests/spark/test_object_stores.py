"""Tables in an object store through Spark: read, written and asked, and no secret shown."""

import logging

import pytest
from spark_sql import using

import projseg

SECRET = "planted-5ecret"
BY_KEY = projseg.Projection("by_key", ["k"], ["sum(x) AS x"])


@pytest.fixture
def options(store_server):
    return store_server.options() | {"secret_access_key": SECRET, "session_token": SECRET}


@pytest.fixture
def written(spark, store_place, options):
    rows = spark.range(100).selectExpr("id AS x", "CAST(id % 3 AS STRING) AS k")
    projseg.write(rows, store_place, storage_options=options, projections=BY_KEY)
    return str(store_place)


def stored(options):
    return {f"storage.{key}": value for key, value in options.items()}


def plans_of(frame):
    return frame._jdf.queryExecution().toString()


def test_rows_are_written_and_read(spark, written, options):
    more = spark.createDataFrame([(1000, "0")], "x long, k string")
    more.write.format("projseg").mode("append").options(**stored(options)).save(written)
    found = spark.read.format("projseg").options(**stored(options)).load(written)
    assert found.count() == 101
    asked = projseg.read(
        spark, written, group_by="k", aggregators="sum(x) AS x", storage_options=options
    )
    wanted = projseg.Table(written, storage_options=options).query("k", "sum(x) AS x")
    assert sorted(map(tuple, asked.collect())) == sorted(
        zip(*wanted.to_pydict().values(), strict=True)
    )
    for frame in (found, asked):
        assert SECRET not in plans_of(frame)


def test_tasks_that_merge_segments_reach_the_store(spark, written, options):
    table = projseg.Table(written, storage_options=options)
    table.append({"x": [1000], "k": ["0"]})
    assert table.compact(spark=spark).segments == 1
    assert table.query(aggregators="sum(x) AS x").to_pylist() == [{"x": sum(range(100)) + 1000}]
    assert table.verify(deep=True) == []


def test_the_extension_answers_from_projections(spark, written, options):
    with using(spark, enabled="true"):
        frame = spark.read.format("projseg").options(**stored(options)).load(written)
        groups = frame.groupBy("k").sum("x")
        assert "by_key" in plans_of(groups)
        assert SECRET not in plans_of(groups)
        assert sum(row[1] for row in groups.collect()) == sum(range(100))
        assert SECRET not in str(projseg.query_log(spark).collect())


def test_a_secret_appears_in_no_error_and_no_log(spark, written, options, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    wrong = stored(options | {"regoin": SECRET})
    reader = spark.read.format("projseg").options(**wrong)
    with pytest.raises(Exception, match="PROJSEG_BAD_STORAGE_OPTION") as caught:
        reader.load(written)
    assert SECRET not in str(caught.value)
    rows = spark.createDataFrame([("no number", "0")], "x string, k string")
    with pytest.raises(Exception, match="PROJSEG_SCHEMA_MISMATCH") as caught:
        projseg.write(rows, written, "append", storage_options=options)
    assert SECRET not in str(caught.value)
    # The logs of our own; Spark's debug log of the gateway shows every call.
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("projseg")]
    assert SECRET not in "".join(ours) + "".join(capfd.readouterr())


def test_metadata_hold_no_secret(store_place, written, options):
    table = projseg.Table(written, storage_options=options)
    assert SECRET not in str(table.history().to_pylist())
    for file in store_place.iterdir():
        assert SECRET.encode() not in file.read_bytes()
