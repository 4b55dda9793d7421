"""Tables of hundreds and thousands of columns: answers, and calls that grow as the columns do."""

import cProfile
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import projseg

ROW_COUNT = 30


def wide_rows(column_count):
    random = np.random.default_rng(column_count)
    start = datetime(2024, 5, 1, tzinfo=UTC)
    times = [start + timedelta(seconds=n // 2) for n in range(ROW_COUNT)]
    columns = {"time": pa.array(times, pa.timestamp("us", "UTC"))}
    for n in range(column_count):
        numbers = random.integers(0, 900, ROW_COUNT // 2).repeat(2)
        columns[f"c{n}"] = pa.array(numbers if n % 2 else [f"v{number}" for number in numbers])
    return pa.table(columns)


def table_of(folder, rows):
    return projseg.Table.create(folder, rows.schema, time_column="time")


def test_every_column_of_a_wide_table_is_grouped_by(tmp_path):
    rows = wide_rows(1_200)
    table = table_of(tmp_path / "t", rows)
    table.append(rows)
    table.append(rows)
    found = table.sql("SELECT DISTINCT * FROM t").to_pylist()
    expected = {tuple(row.values()): row for row in rows.to_pylist()}
    assert len(found) == len(expected) == ROW_COUNT // 2
    assert {tuple(row.values()) for row in found} == set(expected)


def calls_of(ask):
    profiler = cProfile.Profile()
    with profiler:
        ask()
    return sum(entry.callcount for entry in profiler.getstats())


ASKED = {
    "all columns": lambda table, _: table.sql("SELECT * FROM t"),
    "first rows": lambda table, _: table.sql("SELECT * FROM t ORDER BY c1, c0 LIMIT 3"),
    "sums": lambda table, rows: table.sql(
        f"SELECT {', '.join(f'sum({name})' for name in rows.column_names[2::2])} FROM t"
    ),
    "computed": lambda table, rows: table.sql(
        f"SELECT {', '.join(f'{name} + 1' for name in rows.column_names[2::2])} FROM t"
    ),
    "rows as dicts": lambda table, rows: table.append(rows.to_pylist()),
    "rows": lambda table, rows: table.append(rows),
}


@pytest.mark.parametrize("asked", ASKED)
def test_calls_grow_no_faster_than_columns(tmp_path, asked):
    """Four times the columns take at most five times the calls, the first time they are asked."""
    calls = []
    for column_count in (10, 100, 400):
        rows = wide_rows(column_count)
        table = table_of(tmp_path / str(column_count), rows)
        table.append(rows)
        calls.append(calls_of(lambda table=table, rows=rows: ASKED[asked](table, rows)))
    _, fewer, more = calls  # the first one imports
    assert more < 5 * fewer
