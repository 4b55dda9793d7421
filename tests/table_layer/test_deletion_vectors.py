"""Deletes that hide rows: what is written, what is read, and what later operations make of it."""

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import projseg
from projseg.errors import (
    CommitConflictError,
    CorruptionError,
    EvaluationError,
    InvalidInputError,
)
from projseg.maintenance.row_changes.delete_and_update import delete_rows
from projseg.maintenance.row_changes.matching_rows import Condition
from projseg.memory.cache import KEPT
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.metadata.change import CommitNote, Replace
from projseg.table_layer.metadata.deleted_rows import with_deleted_rows
from projseg.table_layer.storage.paths import new_write_id

START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
ROWS = 200
TOTALS = {"name": "totals", "sql": "SELECT s, sum(k) AS k, count(*) AS n GROUP BY s"}


def batch(day=0, first=0, count=ROWS):
    numbers = np.arange(first, first + count)
    return pa.table(
        {
            "t": pa.array([START + datetime.timedelta(days=day, minutes=int(n)) for n in numbers]),
            "k": pa.array(numbers),
            "s": pa.array([f"s{n % 4}" for n in numbers]),
        }
    )


def made(tmp_path, *batches, **options):
    table = projseg.Table.create(
        tmp_path / "t", batch().schema, time_column="t", segment_granularity="day", **options
    )
    for one in batches or [batch()]:
        table.append(one)
    return table


def keys(table):
    return sorted(table.query(columns="k")["k"].to_pylist())


def files(table, suffix):
    """The sizes of the table's files of one kind, by name."""
    listed = table.snapshot.storage.list_names("data/")
    return {file.name: file.size for file in listed if file.name.endswith(suffix)}


def counted(table, **options):
    (row,) = table.query(aggregators="count(*) AS n", **options).to_pylist()
    return row["n"]


def test_few_deleted_rows_cost_a_small_file_and_no_segment(tmp_path):
    table = made(tmp_path, projections=[TOTALS])
    segments = files(table, "pseg")
    done = table.delete("k < 5")
    assert (done.deleted_rows, done.masked_segments, done.removed_segments) == (5, 1, 0)
    assert files(table, "pseg") == segments
    (size,) = files(table, "pdel").values()
    assert size < 100
    assert keys(table) == list(range(5, ROWS))
    assert table.verify(deep=True) == []
    (listed,) = table.segments().to_pylist()
    assert (listed["rows"], listed["deleted_rows"]) == (ROWS - 5, 5)
    newest = table.history().to_pylist()[0]
    assert newest["rows"] == ROWS - 5
    assert dict(newest["metrics"])["masked_segments"] == 1
    table.delete("k BETWEEN 3 AND 9")
    assert len(files(table, "pdel")) == 2
    assert table.segments()["deleted_rows"].to_pylist() == [10]
    assert keys(table) == list(range(10, ROWS))
    old = projseg.Table(table.location, version=done.version)
    assert keys(old) == list(range(5, ROWS))


@pytest.mark.parametrize(
    ("ratio", "count", "is_hidden"),
    [(None, 39, True), (None, 40, False), ("0.5", 99, True), ("0", 1, False), ("1", 199, True)],
)
def test_many_deleted_rows_write_the_segment_anew(tmp_path, ratio, count, is_hidden):
    properties = {} if ratio is None else {"maxDeletedRatio": ratio}
    table = made(tmp_path, properties=properties)
    before = files(table, "pseg")
    table.delete(f"k < {count}")
    assert (files(table, "pseg") == before) == is_hidden
    assert bool(files(table, "pdel")) == is_hidden
    assert keys(table) == list(range(count, ROWS))
    table.delete()
    assert len(table.segments()) == counted(table) == 0


def test_what_metadata_say_of_a_segment_with_deleted_rows(tmp_path):
    table = made(tmp_path)
    table.delete("k IN (0, 199)")
    assert counted(table) == ROWS - 2
    assert table.explain(aggregators="count(*)").sources == {"metadata": 1}
    (row,) = table.query(
        aggregators="min(k) AS low, max(k) AS high, count(k) AS n, min(t) AS first"
    ).to_pylist()
    assert (row["low"], row["high"], row["n"]) == (1, 198, 198)
    assert row["first"] == START + datetime.timedelta(minutes=1)


def test_no_expression_is_evaluated_on_a_deleted_row(tmp_path):
    table = made(tmp_path)
    asked = [
        {"aggregators": "sum(60 / k) AS x"},
        {"group_by": "60 / k AS x", "aggregators": "count(*) AS n"},
        {"columns": "60 / k AS x"},
        {"columns": "k", "filter": "60 / k > 1"},
        {"columns": "60 / k AS x", "limit": 3},
        {"aggregators": "count(*) AS n", "filter": "s >= 's0' AND 60 / k + length(s) > 1"},
    ]
    for query in asked:
        with pytest.raises(EvaluationError):
            table.query(**query)
    table.delete("k = 0")
    rest = made(tmp_path / "rest", batch(first=1, count=ROWS - 1))
    for query in asked:
        found, wanted = (sorted(map(repr, t.query(**query).to_pylist())) for t in (table, rest))
        assert found == wanted, query


def test_scans_with_limit_and_order_pass_over_deleted_rows(tmp_path):
    table = made(tmp_path, batch(0), batch(1, first=1000))
    table.delete("k IN (0, 1, 3, 199, 1000)")
    assert table.query(columns="k", limit=3)["k"].to_pylist() == [2, 4, 5]
    ordered = table.query(columns="k", order_by="k DESC", limit=200)["k"].to_pylist()
    assert ordered == [*range(1199, 1000, -1), 198]
    assert counted(table, filter="k = 3") == counted(table, filter="s = 's3' AND k < 5") == 0


def test_compaction_and_materialising_leave_deleted_rows_behind(tmp_path):
    table = made(tmp_path, projections=[TOTALS])
    table.delete("k < 5")
    assert table.compact(dry_run=True)["rows"].to_pylist() == [ROWS - 5]
    table.compact()
    assert table.segments()["deleted_rows"].to_pylist() == [0]
    assert table.segments()["rows"].to_pylist() == [ROWS - 5]
    assert len(table.compact(dry_run=True)) == 0
    table.delete("k < 9")
    by_time = {"name": "low", "sql": "SELECT s, min(k) AS low, count(*) AS n GROUP BY s"}
    table.add_projection(by_time, materialize=True)
    assert table.segments()["deleted_rows"].to_pylist() == [0]
    assert keys(table) == list(range(9, ROWS))
    served = table.query(
        group_by="s", aggregators="min(k) AS low", context={"forceProjections": True}
    )
    assert sorted(served["low"].to_pylist()) == [9, 10, 11, 12]
    assert table.verify(deep=True) == []


def test_updates_and_merges_hide_the_rows_that_they_replace(tmp_path):
    table = made(tmp_path)
    before = files(table, "pseg")
    done = table.update({"k": "k + 1000"}, "k < 3")
    assert (done.updated_rows, done.masked_segments, done.added_segments) == (3, 1, 1)
    assert before.items() < files(table, "pseg").items()
    assert keys(table) == [*range(3, ROWS), 1000, 1001, 1002]
    done = table.merge({"k": [5, 1001, 7777], "s": ["new"] * 3, "t": [START] * 3}, on=["k"])
    # The second segment has three rows, of which one is more than its share.
    assert (done.updated_rows, done.inserted_rows, done.masked_segments) == (2, 1, 1)
    assert keys(table) == [*range(3, ROWS), 1000, 1001, 1002, 7777]
    assert counted(table, filter="s = 'new'") == 3
    table.merge({"k": [9]}, on=["k"], when_matched="delete", when_not_matched="ignore")
    table.merge({"k": [9], "s": ["again"], "t": [START]}, on=["k"], when_matched="ignore")
    assert counted(table, filter="k = 9") == counted(table, filter="s = 'again'") == 1
    assert table.verify(deep=True) == []


def test_versions_with_deleted_rows_are_restored_and_vacuumed(tmp_path):
    table = made(tmp_path)
    deleted = table.delete("k < 5").version
    table.delete("k < 9")
    table.compact()
    table.restore(deleted)
    assert keys(table) == list(range(5, ROWS))
    assert table.segments()["deleted_rows"].to_pylist() == [5]
    table.vacuum(0, dry_run=False, force=True)
    assert (len(files(table, "pdel")), len(files(table, "pseg"))) == (1, 1)
    KEPT.clear()
    assert keys(projseg.Table(table.location)) == list(range(5, ROWS))
    table.compact()
    table.vacuum(0, dry_run=False, force=True)
    assert files(table, "pdel") == {}


def test_of_two_deletes_of_one_segment_none_is_lost(tmp_path):
    table = made(tmp_path)
    base = table.snapshot
    other = projseg.Table(table.location)
    other.delete("k = 7")
    # The first works on what it saw, finds the segment listed otherwise, and plans anew.
    delete_rows(base, Condition("k = 8"), CommitNote())
    table.refresh()
    assert keys(table) == [k for k in range(ROWS) if k not in (7, 8)]
    stale = base.segments[0]
    files_written = []
    write_id = new_write_id()
    rows = np.array([1], np.uint32)
    masked = with_deleted_rows(base.storage, stale, rows, write_id, files_written)
    change = Replace(frozenset({stale.listed_as}), masked=(masked,))
    with pytest.raises(CommitConflictError):
        commit(base.storage, base, change, write_id=write_id, operation="delete")


def test_a_compaction_meanwhile_brings_no_row_back(tmp_path):
    table = made(tmp_path, batch(count=100), batch(first=100, count=100))
    other = projseg.Table(table.location)

    def delete_once(_):
        if counted(other) == ROWS:
            other.delete("k < 3")

    table.compact(on_segment=delete_once)
    assert keys(table) == list(range(3, ROWS))
    assert table.segments()["deleted_rows"].to_pylist() == [0]


def test_a_commit_that_names_no_vector_of_its_own_is_refused(tmp_path):
    table = made(tmp_path)
    base, (entry,) = table.snapshot, table.snapshot.segments
    rows = np.array([1, 2], np.uint32)
    masked = with_deleted_rows(base.storage, entry, rows, new_write_id(), [])
    for refused in (masked, entry):
        change = Replace(frozenset({entry.listed_as}), masked=(refused,))
        with pytest.raises(InvalidInputError, match="no deletion vector of write id"):
            commit(base.storage, base, change, write_id=new_write_id(), operation="delete")
    assert keys(table) == list(range(ROWS))


@pytest.mark.folder
def test_a_damaged_or_missing_vector_is_told(tmp_path):
    table = made(tmp_path)
    table.delete("k < 5")
    (path,) = Path(table.location).glob("data/*.pdel")
    content = path.read_bytes()
    for damaged in (content[:-1], content[:-1] + bytes([content[-1] ^ 1]), b""):
        path.write_bytes(damaged)
        KEPT.clear()
        with pytest.raises(CorruptionError):
            keys(table)
        assert [finding.file for finding in table.verify()] == [f"data/{path.name}"]
        assert counted(table) == ROWS - 5  # metadata know
    path.unlink()
    with pytest.raises(CorruptionError, match="missing"):
        keys(table)
    path.write_bytes(content)
    assert keys(table) == list(range(5, ROWS))
