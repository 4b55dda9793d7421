"""Streams into projseg tables, run by Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import projseg
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.storage.locate_storage import open_storage

pytestmark = pytest.mark.spark

COUNTS = '[{"name": "counts", "sql": "SELECT s, count(*) AS many, sum(n) AS n GROUP BY s"}]'


@pytest.fixture
def source(tmp_path):
    """A folder of files that a stream reads, each in a batch of its own."""
    folder = tmp_path / "source"
    folder.mkdir()

    def add(*numbers):
        name = f"{len(list(folder.iterdir())):04d}.json"
        rows = (json.dumps({"n": n, "s": f"s{n % 2}"}) for n in numbers)
        Path(folder, name).write_text("\n".join(rows))

    add.folder = str(folder)
    return add


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "table")


def stream_of(spark, source):
    reader = spark.readStream.schema("n bigint, s string").option("maxFilesPerTrigger", "1")
    return reader.json(source.folder)


def run(frame, place, mode="append", **options):
    """Write all that is there, from the checkpoint on; return the query's id."""
    writer = frame.writeStream.format("projseg").outputMode(mode).trigger(availableNow=True)
    query = writer.options(checkpointLocation=f"{place}-checkpoint", **options).start(place)
    query.awaitTermination()
    return query.id


def numbers_of(place):
    return sorted(projseg.Table(place).query()["n"].to_pylist())


def forget_last_commit(place):
    """Leave the checkpoint as a crash between the table's commit and Spark's own does."""
    commits = Path(f"{place}-checkpoint", "commits")
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
    for file in commits.glob(f"*{last}*"):
        file.unlink()


def test_a_stream_is_written_once_over_restarts_and_repeated_batches(spark, source, place):
    source(1, 2)
    source(3)
    frame = stream_of(spark, source)
    query_id = run(frame, place, projections=COUNTS)
    table = projseg.Table(place)
    assert numbers_of(place) == [1, 2, 3]
    assert table.version == 1
    assert table.explain(group_by="s", aggregators="sum(n)").sources == {"counts": 2}
    assert dict(table.history().to_pylist()[0]["operationParameters"]) == {
        "queryId": query_id,
        "epochId": "1",
    }
    forget_last_commit(place)
    source(4)
    assert run(frame, place) == query_id
    assert numbers_of(place) == [1, 2, 3, 4]
    assert projseg.Table(place).version == 2
    newest = open_snapshot(open_storage(place))
    assert [kept.version for kept in newest.file.transactions.values()] == [2]


def test_output_mode_complete_replaces_all_and_update_is_refused(spark, source, place):
    source(1, 2)
    source(3)
    sums = stream_of(spark, source).selectExpr("sum(n) AS n")
    run(sums, place, "complete")
    assert numbers_of(place) == [6]
    assert projseg.Table(place).version == 1
    with pytest.raises(Exception, match="projseg does not support Update mode"):
        run(sums, f"{place}-updated", "update")
    assert not Path(f"{place}-updated").exists()


def test_a_stream_to_a_table_of_the_catalog_needs_its_path(spark, source, tmp_path):
    source(1)
    writer = stream_of(spark, source).writeStream.format("projseg").trigger(availableNow=True)
    place = str(tmp_path / "by_name")
    spark.sql("CREATE TABLE streamed_by_name (n BIGINT, s STRING) USING projseg")
    try:
        pathless = writer.option("checkpointLocation", f"{place}-1")
        with pytest.raises(Exception, match="PROJSEG_PATH_MISSING"):
            pathless.toTable("streamed_by_name").awaitTermination()
        given = writer.option("checkpointLocation", f"{place}-2").option("path", place)
        given.toTable("streamed_by_name").awaitTermination()
        assert numbers_of(place) == [1]
    finally:
        spark.sql("DROP TABLE streamed_by_name")


def test_options_of_a_single_write_are_refused_before_the_first_batch(spark, source, place):
    source(1)
    with pytest.raises(Exception, match="option 'txnVersion' is of a single write"):
        run(stream_of(spark, source), place, txnVersion="1")
    assert not Path(place).exists()
