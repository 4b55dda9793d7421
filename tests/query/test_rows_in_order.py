"""`ORDER BY ... LIMIT n` over rows: answers are the oracle's, and most rows are not looked at."""

import datetime
import tempfile
from decimal import Decimal
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

import projseg
from projseg import Projection
from projseg.reader import first_rows, ordered_rows
from projseg.segment_format.file.segment_file import SegmentFile

duckdb = pytest.importorskip("duckdb")

START_US = int(datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC).timestamp()) * 1_000_000
TIME = pa.timestamp("us", tz="UTC")
COLUMNS = ["id", "time", "few", "wide", "real", "single", "word", "long", "cents", "huge", "day"]
COLUMNS += ["yes", "steady", "none"]
KEYS = [*COLUMNS[:-1], "few + 1", "length(word)", "-cents", "coalesce(word, 'k20')"]
FILTERS = [None, "few > 1", "word LIKE 'k1%'", "id % 50 = 3", "wide > 0 AND few < 3", "few > 99"]
TERM = st.tuples(
    st.sampled_from(KEYS), st.sampled_from(["ASC", "DESC"]), st.sampled_from(["FIRST", "LAST"])
)
QUESTION = st.tuples(
    st.lists(TERM, min_size=1, max_size=3),
    st.sampled_from(FILTERS),
    st.sampled_from([0, 1, 5, 30, 1_000]),
)


def drawn_rows(seed, count):
    """Return rows with many equal values, odd doubles, long texts, and nulls in some columns."""
    draw = np.random.default_rng(seed)
    share = [0.0, 0.1, 0.97][seed % 3]

    def nulls(values, kind=None):
        mask = draw.random(count) < share
        return pa.array(values, kind, mask=None if mask.all() and count == 0 else mask)

    odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -3.0])
    micros = draw.integers(0, 4 * 86_400_000_000, count)
    if seed % 2:
        micros.sort()
    cents = [Decimal(int(one)) / 100 for one in draw.integers(-(10**4), 10**4, count)]
    huge = [Decimal(int(one)) * 10**18 for one in draw.integers(-(10**6), 10**6, count)]
    arrays = {
        "id": pa.array(draw.permutation(count)),
        "time": pa.array(micros + START_US).cast(TIME),
        "few": nulls(draw.integers(-2, 3, count).astype(np.int32)),
        "wide": nulls(draw.choice([-(2**63), -1, 0, 7, 2**63 - 1], count)),
        "real": nulls(draw.choice(odd, count)),
        "single": nulls(draw.choice(odd, count).astype(np.float32)),
        "word": nulls(np.array([f"k{one}" for one in draw.integers(0, 40, count)], object)),
        "long": nulls(
            np.array([f"{'x' * int(n % 90)}é{n}" for n in draw.integers(0, 10**9, count)], object)
        ),
        "cents": nulls(cents, pa.decimal128(12, 2)),
        "huge": nulls(huge, pa.decimal128(38, 2)),
        "day": nulls(draw.integers(0, 99, count).astype(np.int32)).cast(pa.date32()),
        "yes": nulls(draw.random(count) < 0.5),
        "steady": pa.array([f"v{one // 50:04d}" for one in range(count)]),
        "none": pa.nulls(count, pa.int64()),
    }
    return pa.table(arrays)


def made_table(location, rows, seed):
    """Return a table of some segments, of which one lacks a column, and a few rows are deleted."""
    is_timed = seed % 4 != 3
    table = projseg.Table.create(
        location,
        rows.schema.remove(rows.schema.get_field_index("day")),
        time_column="time" if is_timed else None,
        segment_granularity="day" if is_timed and seed % 5 else "all",
        target_segment_rows=[150, 10_000][seed % 2],
        projections=[Projection("by_word", order_by=["word"], columns=["*"])]
        if seed % 3 == 1
        else [],
    )
    table.append(rows.slice(0, len(rows) // 3).drop_columns("day"))
    table.add_column("day", "date")
    table.append(rows.slice(len(rows) // 3))
    if seed % 2:
        table.delete("id % 7 = 3")
    return table


def with_changes(rows, seed):
    """Return the rows that the table then holds."""
    lacking = pa.nulls(len(rows) // 3, pa.date32())
    days = pa.chunked_array([lacking, *rows["day"].slice(len(rows) // 3).chunks])
    rows = rows.set_column(rows.schema.get_field_index("day"), "day", days)
    return rows.filter(pa.array(rows["id"].to_numpy() % 7 != 3)) if seed % 2 else rows


@settings(max_examples=tries(40), deadline=None)
@given(st.integers(0, 10**6), st.lists(QUESTION, min_size=4, max_size=6), st.integers(1, 2))
def test_the_first_rows_are_the_oracles(seed, questions, threads):
    rows = drawn_rows(seed, 600)
    with tempfile.TemporaryDirectory() as location, patch.object(ordered_rows, "_RANGE_ROWS", 64):
        table = made_table(location, rows, seed)
        oracle = duckdb.connect()
        oracle.execute("SET TimeZone = 'UTC'")
        oracle.register("kept", with_changes(rows, seed))
        for terms, condition, limit in questions:
            order = [f"{key} {way} NULLS {nulls}" for key, way, nulls in terms]
            order.append("id ASC NULLS FIRST")
            found = table.query(
                columns=COLUMNS,
                filter=condition,
                order_by=order,
                limit=limit,
                context={"threads": threads},
            )
            where = "" if condition is None else f"WHERE {condition}"
            expected = oracle.sql(
                f"SELECT * FROM kept {where} ORDER BY {', '.join(order)} LIMIT {limit}"
            ).to_arrow_table()
            note = (order, condition, limit)
            assert found["id"].to_pylist() == expected["id"].to_pylist(), note
            for name in COLUMNS:
                assert str(found[name].to_pylist()) == str(
                    expected.select([name]).cast(found.select([name]).schema)[name].to_pylist()
                ), (name, note)
            slow = table.query(
                columns=COLUMNS, filter=condition, order_by=order, context={"threads": 1}
            )
            assert str(found.to_pylist()) == str(slow.slice(0, limit).to_pylist())


def test_equal_rows_come_by_time_and_then_as_they_stand(tmp_path):
    rows = drawn_rows(8, 2_000)
    table = made_table(tmp_path, rows, 8)
    stood = table.query(columns=COLUMNS).to_pylist()
    for name, is_descending in (("few", False), ("yes", True)):
        wanted = sorted(stood, key=lambda row: row["time"])
        wanted.sort(key=lambda row: (row[name] is not None, row[name] or 0), reverse=is_descending)
        order = f"{name} {'DESC' if is_descending else 'ASC'}"
        with patch.object(ordered_rows, "_RANGE_ROWS", 64):
            found = table.query(columns=COLUMNS, order_by=order, limit=40)
        assert found["id"].to_pylist() == [row["id"] for row in wanted[:40]]


ROWS = 700_000  # eleven pages of one segment


@pytest.fixture(scope="module")
def long_table(tmp_path_factory):
    numbers = np.arange(ROWS)
    rows = pa.table(
        {
            "time": pa.array(START_US + numbers * 1_000_000).cast(TIME),
            "rising": pa.array(numbers // 3),
            "word": pa.array([f"w{one:05d}" for one in range(700)]).take(
                pa.array(numbers // 1_000)
            ),
            "few": pa.array(np.where(numbers % 5 == 0, None, numbers % 7)),
            "mixed": pa.array((numbers * 7919) % 1_000_003),
            "other": pa.array((numbers * 104_729) % 1_000_003),
        }
    )
    table = projseg.Table.create(
        tmp_path_factory.mktemp("first") / "t",
        rows.schema,
        time_column="time",
        segment_granularity="all",
        target_segment_rows=ROWS,
    )
    table.append(rows)
    return table


@pytest.mark.parametrize(
    ("order", "condition", "steps"),
    [
        ([], None, 1),
        (["time DESC"], None, 1),
        (["time DESC"], "mixed % 3 = 0", 1),
        (["rising"], "mixed < 900000", 2),  # the first step is cut in two
        (["word DESC", "mixed"], None, 2),
        (["mixed"], None, 2),  # neighbouring pages are looked at together
        (["few DESC"], "mixed > 7", 2),  # equal rows of later pages have later times
        (["few", "rising", "mixed"], None, 2),
    ],
)
def test_steps_behind_the_last_row_are_not_looked_at(long_table, order, condition, steps):
    looked = []
    select = first_rows.select_rows

    def recorded(source, row_range, **rest):
        looked.append(row_range)
        return select(source, row_range, **rest)

    with patch.object(first_rows, "select_rows", recorded):
        answer = long_table.query(
            columns=["*"],
            filter=condition,
            order_by=order,
            limit=10,
            context={"threads": 1},
        )
    assert len(answer) == 10
    assert 1 <= len(looked) <= steps


@pytest.fixture(scope="module")
def tied_rows(tmp_path_factory):
    """Two segments of several pages: few values of each key, of which some are in one alone."""
    count = 300_000
    draw = np.random.default_rng(11)
    few = draw.integers(0, 5, count)
    words = [None, *(f"w{n}" for n in range(6))]
    rows = pa.table(
        {
            "time": pa.array(START_US + np.arange(count) // 40_000 * 1_000_000).cast(TIME),
            "few": pa.array(few, mask=draw.random(count) < 0.3),
            "word": pa.array(words).take(pa.array(few // 2 + 3 * (np.arange(count) >= 150_000))),
            "real": pa.array(draw.choice([0.0, -0.0, 1.5, float("nan")], count)),
            "id": pa.array(np.arange(count)),
        }
    )
    table = projseg.Table.create(
        tmp_path_factory.mktemp("tied") / "t", rows.schema, time_column="time"
    )
    table.append(rows.slice(0, 150_000))
    table.append(rows.slice(150_000))
    table.delete("id % 11 = 3")
    return table, rows.filter(pa.array(np.arange(count) % 11 != 3))


@pytest.mark.parametrize("limit", [3, 700, 30_000])
@pytest.mark.parametrize("condition", ["true", "few > 1", "id % 1000 = 7"])
@pytest.mark.parametrize(
    "order",
    [
        ["few"],
        ["few DESC"],
        ["few DESC NULLS FIRST", "word"],
        ["few NULLS LAST", "word DESC NULLS FIRST"],
        ["word", "few"],
        ["word NULLS LAST"],
        ["word DESC", "real", "few"],
        ["word DESC NULLS FIRST", "time DESC"],
        ["real DESC", "word"],
        ["time DESC", "few"],
    ],
)
def test_ties_of_many_pages_fall_to_later_terms(tied_rows, order, condition, limit):
    table, kept = tied_rows
    found = table.query(columns=["*"], filter=condition, order_by=order, limit=limit)
    terms = [f"{term} {nulls_of(term)}" for term in (*order, "time", "id")]
    oracle = duckdb.connect()
    oracle.register("kept", kept)
    expected = oracle.sql(
        f"SELECT id FROM kept WHERE {condition} ORDER BY {', '.join(terms)} LIMIT {limit}"
    ).to_arrow_table()
    assert found["id"].to_pylist() == expected["id"].to_pylist()


def nulls_of(term):
    """Return where nulls come in Spark, if the term does not say it."""
    if "NULLS" in term:
        return ""
    return "NULLS LAST" if "DESC" in term else "NULLS FIRST"


@pytest.mark.parametrize("order", [[], ["time"], ["time DESC"], ["time DESC", "mixed"], ["mixed"]])
@pytest.mark.parametrize("condition", [None, "value % 3 <> 1", "value = 4", "value IN (2, 5)"])
def test_the_first_of_many_rows_at_one_time_are_those_of_a_sort(tmp_path, order, condition):
    count = 30_000
    draw = np.random.default_rng(7)
    seconds, mixed, values = (draw.integers(0, most, count) for most in (2_000, 50, 6))
    times = pa.array(START_US + seconds * 1_000_000).cast(TIME)
    rows = pa.table({"time": times, "mixed": pa.array(mixed), "value": pa.array(values)})
    table = projseg.Table.create(
        tmp_path / "t", rows.schema, time_column="time", segment_granularity="all"
    )
    for start in range(0, count, 15_000):
        table.append(rows.slice(start, 15_000))
    table.delete("mixed = 7")
    stored = table.query(columns=["time", "mixed", "value"], filter=condition).to_pylist()
    for term in reversed([*order, "time"]):
        name, *way = term.split()
        stored.sort(key=lambda row, name=name: row[name], reverse=bool(way))
    for limit in (1, 10, 5_000):
        asked = {"columns": ["time", "mixed", "value"], "filter": condition, "order_by": order}
        assert table.query(**asked, limit=limit).to_pylist() == stored[:limit]


def test_other_columns_are_decoded_where_a_first_row_stands(long_table, monkeypatch):
    decoded = []
    column = SegmentFile.column

    def recorded(self, table, role, name, *pages):
        decoded.append((name, pages))
        return column(self, table, role, name, *pages)

    monkeypatch.setattr(SegmentFile, "column", recorded)
    answer = long_table.query(columns=["mixed", "other"], order_by="mixed DESC", limit=2)
    assert answer["other"].to_pylist() == [
        (row * 104_729) % 1_000_003
        for row in np.argsort(-((np.arange(ROWS) * 7919) % 1_000_003), kind="stable")[:2]
    ]
    pages = [one for name, one in decoded if name == "other"]
    assert all(end - first == 1 for first, end in pages)
    assert len(pages) <= 2


def test_segments_behind_the_last_row_are_not_opened(tmp_path):
    rows = drawn_rows(1, 2_000).drop_columns("none")
    table = projseg.Table.create(
        tmp_path, rows.schema, time_column="time", segment_granularity="hour"
    )
    table.append(rows)
    opened = []
    open_source = first_rows.open_source

    def recorded(storage, entry, *rest):
        opened.append(entry.file)
        return open_source(storage, entry, *rest)

    with patch.object(first_rows, "open_source", recorded):
        for order in ([], ["time DESC"]):
            table.query(columns=["id", "time"], order_by=order, limit=5, context={"threads": 1})
    assert len(set(opened)) < 6 < 60 < len(table.snapshot.segments)
