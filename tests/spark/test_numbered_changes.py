"""Rows that are read with numbers and changed by them, without a JVM: Spark only carries rows."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import types as t
from scale import tries

import projseg
from projseg.errors import CommitConflictError, InvalidInputError
from projseg.spark_datasource.option_table import ROW_NUMBER, ROW_NUMBERS
from projseg.spark_datasource.read_request import parse_read_request
from projseg.spark_datasource.row_level_changes import ChangeWriter, NumberedReader
from projseg.spark_datasource.write_request import parse_write_request

pytestmark = pytest.mark.spark

DELETE, UPDATE, INSERT = 1, 2, 3
VALUES = [t.StructField("n", t.LongType()), t.StructField("k", t.StringType())]
NUMBER = t.StructField(ROW_NUMBER, t.LongType())
READ = t.StructType([*VALUES, NUMBER])
WRITTEN = t.StructType([t.StructField("operation", t.IntegerType()), NUMBER, *VALUES])


class OnlyTask:
    """What a write asks of the task it runs in."""

    attempts = 0

    def partitionId(self):
        return OnlyTask.attempts

    def taskAttemptId(self):
        OnlyTask.attempts += 1
        return OnlyTask.attempts

    def cpus(self):
        return 1


@pytest.fixture(autouse=True)
def _in_a_task(monkeypatch):
    monkeypatch.setattr(TaskContext, "get", OnlyTask)


def made(location, count, *, segment_rows=10):
    table = projseg.Table.create(
        location, {"n": "bigint", "k": "string"}, target_segment_rows=segment_rows
    )
    table.append([{"n": n, "k": f"k{n % 3}"} for n in range(count)])
    return table


def numbered(location, **options):
    """Return the rows of the newest version by their numbers."""
    request = parse_read_request({"path": str(location), ROW_NUMBERS: "true", **options})
    reader = NumberedReader(request.of_base_rows(), READ)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    rows = [row for batch in batches for row in batch.to_pylist()]
    found = {row.pop(ROW_NUMBER): (row["n"], row["k"]) for row in rows}
    assert len(found) == len(rows)
    return found


class Change:
    """A change as Spark runs it: planned, then tasks, then the commit."""

    def __init__(self, location, name, *, depends_on_all=False):
        change = {
            "write_id": f"{name:032x}",
            "operation": "merge",
            "depends_on_all": depends_on_all,
            "asked": {},
            "version": projseg.Table(location).version,
        }
        self.writer = ChangeWriter(
            parse_write_request({"path": str(location)}), json.dumps(change), WRITTEN
        )
        self.told = []

    def task(self, rows):
        """Run a task over rows of an operation, a number and values."""
        columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * 4
        types = [pa.int32(), pa.int64(), pa.int64(), pa.string()]
        arrays = [pa.array(column, type) for column, type in zip(columns, types, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, WRITTEN.names)
        self.told.append(self.writer.write(iter([batch])))
        return self

    def commit(self):
        self.writer.commit(self.told)


def files(location):
    return {str(path.relative_to(location)) for path in Path(location).rglob("*.pseg")}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(tries(40)))
def test_random_changes_by_number(tmp_path, seed):
    dice = random.Random(seed)
    table = made(tmp_path / "table", dice.randint(1, 60), segment_rows=dice.choice([5, 20, 100]))
    name = 0
    for _ in range(4):
        rows = numbered(table.location)
        expected, parts = dict(rows), [[], []]
        share = dice.choice([0.05, 0.3, 1.0])
        for number, (n, k) in rows.items():
            if dice.random() < share:
                what = dice.choice([DELETE, UPDATE])
                new = (None, None) if what == DELETE else (n + 1000, f"{k}!")
                times = dice.choice([1, 2]) if what == DELETE else 1
                for _ in range(times):  # a MERGE may delete a row twice
                    dice.choice(parts).append((what, number, *new))
                del expected[number]
                name += 1
                expected |= {} if what == DELETE else {("new", name): new}
        for _ in range(dice.randint(0, 3)):
            name += 1
            parts[0].append((INSERT, None, name, None))
            expected["new", name] = (name, None)
        change = Change(table.location, name + 1)
        for part in parts:
            change.task(part)
        before = projseg.Table(table.location).version
        change.commit()
        now = projseg.Table(table.location)
        assert now.version == before + any(parts)
        found = sorted(numbered(table.location).values(), key=repr)
        assert found == sorted(expected.values(), key=repr)
        assert sorted(map(repr, found)) == sorted(
            repr((row["n"], row["k"])) for row in now.query(columns="n, k").to_pylist()
        )
        if any(parts):
            told = dict(now.history().to_pylist()[0]["metrics"])
            done = [one[0] for part in parts for one in part]
            gone = {one[1] for part in parts for one in part if one[0] == DELETE}
            assert told["deleted_rows"] == len(gone)
            assert told["updated_rows"] == done.count(UPDATE)
            assert told["inserted_rows"] == done.count(INSERT)
        assert not now.verify(deep=True)


def test_a_condition_is_applied_and_rows_keep_their_numbers(tmp_path):
    table = made(tmp_path / "table", 30)
    everything = numbered(table.location)
    some = numbered(table.location, filter="n % 7 = 3")
    assert some == {number: row for number, row in everything.items() if row[0] % 7 == 3}
    table.delete("n = 3")
    assert len(numbered(table.location)) == 29


def test_what_others_change_meanwhile_is_a_conflict(tmp_path):
    table = made(tmp_path / "table", 20)
    by_value = {row[0]: number for number, row in numbered(table.location).items()}
    changes = [Change(table.location, one) for one in (1, 2, 3)]
    changes[0].task([(DELETE, by_value[0], None, None)]).commit()
    listed = files(table.location)
    with pytest.raises(CommitConflictError, match="PROJSEG_COMMIT_CONFLICT"):
        changes[1].task([(UPDATE, by_value[1], 5, "x")]).commit()
    assert files(table.location) == listed
    changes[2].task([(DELETE, by_value[19], None, None)]).commit()
    assert len(table.refresh().query(columns="n")) == 18


def test_rows_that_others_add_conflict_with_what_depends_on_all(tmp_path):
    table = made(tmp_path / "table", 20)
    number = next(iter(numbered(table.location)))
    changes = [Change(table.location, 7 + at, depends_on_all=at == 1) for at in (0, 1)]
    table.append([{"n": 50, "k": "new"}])
    changes[0].task([(DELETE, number, None, None)]).commit()
    with pytest.raises(CommitConflictError):
        changes[1].task([(INSERT, None, 50, "twice")]).commit()
    assert table.refresh().query(columns="n", filter="n = 50").num_rows == 1


def test_groups_have_no_numbers(tmp_path):
    made(tmp_path / "table", 5)
    with pytest.raises(InvalidInputError):
        numbered(tmp_path / "table", groupBy="k", aggregators="count(*)")
