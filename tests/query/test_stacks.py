"""Small segments that are read together: as if each were read alone, at every stage of a table."""

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries
from small_tables import describe_segment
from sql_statements import duckdb_over

import projseg
from projseg.algebra.expressions.tree import Column
from projseg.algebra.planning.source_plan import SourcePlan
from projseg.reader.combined_sources import stacked

START = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("name", pa.string()),
        ("kind", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
    ]
)
PROJECTIONS = [
    {
        "name": "by_name",
        "sql": "SELECT name, kind, sum(n) AS n, count(*) AS rows, max(kind) AS last, "
        "approx_count_distinct(n) AS values GROUP BY name, kind",
    },
    {"name": "by_kind", "sql": "SELECT kind, min(x) AS low, sum(x) AS x GROUP BY kind"},
]
QUERIES = [
    "SELECT sum(n) AS n, count(*) AS c FROM edits",
    "SELECT name, sum(n) AS n, max(kind) AS last FROM edits GROUP BY name",
    "SELECT name, sum(n) AS n FROM edits WHERE kind = 'a' GROUP BY name",
    "SELECT kind, min(x) AS low FROM edits GROUP BY kind",
    "SELECT date_trunc('hour', time) AS h, count(*) AS c, max(time) AS last FROM edits GROUP BY 1",
    "SELECT date_trunc('day', time) AS d, name, sum(n) AS n FROM edits GROUP BY 1, 2",
    "SELECT n, count(*) AS c FROM edits WHERE n > 2 GROUP BY n",
    "SELECT name, count(DISTINCT n) AS v FROM edits GROUP BY name",
    "SELECT kind, sum(n) AS n FROM edits WHERE time >= TIMESTAMP '2024-03-01 05:00:00Z' "
    "AND time < TIMESTAMP '2024-03-01 20:30:00Z' GROUP BY kind",
]


def row(hour, number):
    return {
        "time": START + dt.timedelta(hours=hour, seconds=number),
        "name": None if number % 7 == 3 else f"name {number * hour % 5}",
        "kind": "abc"[number % 3],
        "n": None if number % 5 == 4 else number % 11,
        "x": (number % 9) / 4,
    }


def rows_of(hours, count=5):
    return pa.Table.from_pylist([row(hour, n) for hour in hours for n in range(count)], SCHEMA)


def make(location, rows=None, **options):
    table = projseg.Table.create(
        location,
        SCHEMA,
        time_column="time",
        segment_granularity="hour",
        projections=PROJECTIONS,
        **options,
    )
    if rows is not None:
        table.append(rows)
    return table


def sorted_rows(answer):
    return sorted((tuple(one.values()) for one in answer.to_pylist()), key=repr)


def assert_agrees(table, rows, queries=QUERIES):
    with duckdb_over(rows) as peer:
        peer.execute("SET TimeZone = 'UTC'")
        for query in queries:
            expected = peer.sql(query).to_arrow_table()
            for context in ({}, {"noProjections": True}, {"threads": 1}):
                found = table.sql(query, context=context)
                found = found.cast(expected.schema) if query != QUERIES[7] else found
                assert sorted_rows(found) == sorted_rows(expected), (query, context)


def test_answers_agree_cold_and_warm_and_after_every_change(tmp_path):
    rows = rows_of(range(40))
    table = make(tmp_path / "t", rows)
    for _ in range(2):
        assert_agrees(table, rows)
    table.append(rows_of(range(30, 60)))
    rows = pa.concat_tables([rows, rows_of(range(30, 60))])
    assert_agrees(table, rows)
    table.delete("n = 7 AND name = 'name 0'")
    with duckdb_over(rows) as peer:
        rows = peer.sql("SELECT * FROM edits WHERE (n = 7 AND name = 'name 0') IS NOT TRUE")
        rows = rows.to_arrow_table().cast(SCHEMA)
    for _ in range(2):
        assert_agrees(table, rows)
    table.compact()
    assert_agrees(table, rows)


def test_columns_renamed_widened_and_added_between_segments(tmp_path):
    table = make(tmp_path / "t", rows_of(range(12)))
    total = "SELECT name, sum(n) AS n, sum(x) AS x FROM t GROUP BY name"
    before = sorted_rows(table.sql(total))
    table.rename_column("n", "number")
    table.widen_column("number", pa.int64())
    table.add_column("extra", pa.string())
    renamed = "SELECT name, sum(number) AS n, sum(x) AS x FROM t GROUP BY name"
    assert sorted_rows(table.sql(renamed)) == before
    assert table.sql("SELECT extra, count(*) AS c FROM t GROUP BY extra").to_pylist() == [
        {"extra": None, "c": 60}
    ]
    more = rows_of(range(12, 24)).rename_columns(["time", "name", "kind", "number", "x"])
    more = more.append_column("extra", pa.array(["e"] * len(more)))
    table.append(more.cast(table.schema))
    found = table.sql("SELECT extra, sum(number) AS n FROM t GROUP BY extra").to_pylist()
    parts = [rows_of(range(12)), rows_of(range(12, 24))]
    sums = [sum(n for n in part["n"].to_pylist() if n is not None) for part in parts]
    assert {one["extra"]: one["n"] for one in found} == {None: sums[0], "e": sums[1]}
    table.rename_column("number", "n")
    table.drop_column("extra")
    again = table.sql("SELECT name, sum(n) AS n FROM t GROUP BY name").to_pylist()
    assert sum(one["n"] for one in again) == sum(sums)


def test_tables_and_versions_are_told_apart(tmp_path):
    first, second = (make(tmp_path / f"{count}", rows_of(range(10), count)) for count in (3, 6))
    first.append(rows_of(range(10, 20), 3))
    old = projseg.Table(tmp_path / "3", version=1)
    for _ in range(2):
        for table, count in ((first, 60), (second, 60), (old, 30)):
            answer = table.sql("SELECT count(*) AS c FROM t WHERE kind <> 'z'")
            assert answer.to_pylist() == [{"c": count}]


def test_a_missing_segment_is_named(tmp_path):
    make(tmp_path / "t", rows_of(range(12)))
    file = sorted((tmp_path / "t" / "data").iterdir())[5]
    file.unlink()
    with pytest.raises(projseg.ProjsegError, match="PROJSEG_SEGMENT_MISSING") as raised:
        projseg.Table(tmp_path / "t").sql("SELECT name, sum(n) AS n FROM t GROUP BY name")
    assert file.name in str(raised.value)


@settings(max_examples=tries(2_000, 100))
@given(st.lists(st.tuples(st.sampled_from([0, 5, 8_000, 9_000]), st.booleans()), max_size=40))
def test_stacks_hold_every_source_once_in_order(drawn):
    robot = Column(pa.bool_(), "robot")
    sources = []
    for number, (rows, is_filtered) in enumerate(drawn):
        entry, _ = describe_segment("0" * 32, number=number, hour=number, rows=rows)
        sources.append((entry, SourcePlan(None, (), (), filter=robot if is_filtered else None)))
    found = list(stacked(sources))
    assert [source for stack in found for source in stack.sources] == sources
    for stack in found:
        counts = [entry.row_count for entry, _ in stack.sources]
        assert stack.row_count == sum(counts)
        assert len({plan.filter for _, plan in stack.sources}) == 1
        if len(counts) > 1:
            assert max(counts) <= 1 << 13
            assert sum(counts) <= 1 << 16
