"""Which rows a limit keeps does not depend on the sources: ties fall to the grouping columns."""

import datetime
import math
import tempfile

import pyarrow as pa
import pytest
import rows_oracle
from answers_agree import same
from asking import declare
from hypothesis import given, settings
from hypothesis import strategies as st
from query_cases import PROJECTION, QUERY, ROW, SCHEMA
from scale import tries

import projseg

CASES = tries(1_000, 8)
START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


def rank(value, *, descending=False, nulls_first=True):
    """Sort key of a value in Spark's order: NaN is the greatest, the zeros are equal."""
    if value is None:
        return (0 if nulls_first else 2, 0, 0)
    if isinstance(value, str):
        value = value.encode()
    is_nan = isinstance(value, float) and math.isnan(value)
    within = (1, 0) if is_nan else (0, value)
    return (1, *(map(_Reversed, within) if descending else within))


class _Reversed:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return other.value < self.value

    def __eq__(self, other):
        return other.value == self.value


ORDER = st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.booleans()), max_size=2)
# Deviations are the one aggregate whose last digits depend on the order of addition.
TIED_QUERY = QUERY.filter(lambda q: not any("var_pop" in a.sql for a in q.aggregates))


@settings(max_examples=CASES)
@given(
    st.lists(st.lists(ROW, min_size=1, max_size=40), min_size=1, max_size=3),
    st.lists(PROJECTION, min_size=1, max_size=3),
    st.lists(st.tuples(TIED_QUERY, ORDER, st.integers(0, 6)), min_size=1, max_size=4),
)
def test_ties_under_a_limit_fall_to_the_grouping_columns(batches, projections, questions):
    with tempfile.TemporaryDirectory() as location:
        table = projseg.Table.create(
            location, SCHEMA, time_column="time", segment_granularity="day", target_segment_rows=20
        )
        for number, rows in enumerate(batches):
            if number < len(projections):
                declare(table, f"p{number}", projections[number])
            table.append(pa.Table.from_pylist(rows, SCHEMA))
        rows = [row for batch in batches for row in batch]
        for query, order, limit in questions:
            check_groups(table, rows, query, order, limit)


def check_groups(table, rows, query, order, limit):
    names = [f"k{n}" for n in range(len(query.keys))]
    names += [f"a{n}" for n in range(len(query.aggregates))]
    order = [(number % len(names), down, first) for number, down, first in order]
    answer = rows_oracle.answer(
        rows, [key.of for key in query.keys], [a.call for a in query.aggregates], query.keep
    )
    if any(isinstance(v, int) and abs(v) >= 2**63 for values in answer.values() for v in values):
        return  # a sum that does not fit is an error, which other tests are about
    expected = [tuple(math.nan if k == "NaN" else k for k in key) + v for key, v in answer.items()]
    expected.sort(
        key=lambda row: (
            [rank(row[n], descending=down, nulls_first=first) for n, down, first in order],
            [rank(value) for value in row[: len(query.keys)]],
        )
    )
    for context in ({}, {"noProjections": True}):
        found = table.query(
            group_by=[f"{key.sql} AS k{n}" for n, key in enumerate(query.keys)],
            aggregators=[f"{a.sql} AS a{n}" for n, a in enumerate(query.aggregates)],
            filter=None if query.condition is None else query.condition.sql,
            interval=query.interval,
            order_by=[
                f"{names[n]} {'DESC' if down else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"
                for n, down, first in order
            ],
            limit=limit,
            context=context,
        )
        found = [tuple(row.values()) for row in found.to_pylist()]
        assert len(found) == len(expected[:limit])
        for left, right in zip(found, expected, strict=False):
            assert all(map(same, left, right)), (found, expected)


@pytest.mark.parametrize("order", [(), ("edits DESC",), ("edits % 2", "edits")])
def test_ties_of_many_groups_do_not_depend_on_the_source(tmp_path, order):
    count = 20_000
    rows = pa.table(
        {
            "page": [f"page {n * 7919 % count:05}" for n in range(count)],
            "user": [n * 104_729 % 300_007 for n in range(count)],
        }
    )
    by_both = projseg.Projection("by_both", ["user", "page"], ["count(*)"])
    table = projseg.Table.create(
        tmp_path / "t", rows.schema, projections=[by_both], target_segment_rows=7_000
    )
    table.append(rows)
    table.drop_projection("by_both")
    table.append(rows.slice(0, 9_000))
    question = {
        "group_by": ["page", "user"],
        "aggregators": "count(*) AS edits",
        "order_by": order,
        "limit": 50,
    }
    twice = set(rows["page"][:9_000].to_pylist())
    groups = [
        {"page": page, "user": user, "edits": 1 + (page in twice)}
        for page, user in zip(rows["page"].to_pylist(), rows["user"].to_pylist(), strict=True)
    ]
    keys = {
        (): lambda g: (g["page"], g["user"]),
        ("edits DESC",): lambda g: (-g["edits"], g["page"], g["user"]),
        ("edits % 2", "edits"): lambda g: (g["edits"] % 2, g["edits"], g["page"], g["user"]),
    }
    expected = sorted(groups, key=keys[order])[:50]
    assert table.query(**question).to_pylist() == expected
    assert table.query(**question, context={"noProjections": True}).to_pylist() == expected
    assert table.query(**question, context={"threads": 2}).to_pylist() == expected


ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["x", "y", None]), st.integers(0, 2)),
    min_size=1,
    max_size=60,
)


@settings(max_examples=CASES)
@given(
    st.lists(ROWS, min_size=1, max_size=3),
    st.sampled_from([(), ("page",), ("page", "added")]),
    st.sampled_from(["all", "hour"]),
    st.sampled_from([(), ("added DESC",), ("page", "added % 2")]),
    st.sampled_from([None, "added > 0", "page = 'x'"]),
    st.integers(0, 70),
)
def test_ties_of_rows_fall_to_time_and_then_to_the_segments_order(
    batches, cluster_by, granularity, order, condition, limit
):
    """The stored order is what a scan without a limit returns."""
    with tempfile.TemporaryDirectory() as location:
        schema = pa.schema(
            [("time", pa.timestamp("us", "UTC")), ("page", pa.string()), ("added", pa.int32())]
        )
        table = projseg.Table.create(
            location,
            schema,
            time_column="time",
            cluster_by=cluster_by,
            segment_granularity=granularity,
            target_segment_rows=15,
        )
        for batch in batches:
            rows = [
                {"time": START + datetime.timedelta(minutes=20 * t), "page": page, "added": added}
                for t, page, added in batch
            ]
            table.append(pa.Table.from_pylist(rows, schema))
        stored = table.query(filter=condition).to_pylist()
        keys = {
            (): lambda row: row["time"],
            ("added DESC",): lambda row: (-row["added"], row["time"]),
            ("page", "added % 2"): lambda row: (
                rank(row["page"]),
                row["added"] % 2,
                row["time"],
            ),
        }
        expected = sorted(stored, key=keys[order])[:limit]
        found = table.query(filter=condition, order_by=order, limit=limit)
        assert found.to_pylist() == expected
        hidden = table.query("", "", condition, order_by=order, limit=limit, columns="page, added")
        if set(order) <= {"added DESC", "page", "added % 2"}:
            wanted = [{"page": row["page"], "added": row["added"]} for row in expected]
            assert hidden.to_pylist() == wanted
        if not order:
            stream = table.scan(filter=condition, limit=limit)
            assert stream.read_all().to_pylist() == expected


def test_the_first_rows_are_found_without_decoding_later_pages(tmp_path):
    """A preview of a large table stays cheap."""
    count = 650_000
    rows = pa.table(
        {
            "time": pa.array(range(7 * count, 0, -7), pa.timestamp("us", "UTC")),
            "added": pa.array(range(count), pa.int64()),
        }
    )
    table = projseg.Table.create(tmp_path / "t", rows.schema, time_column="time")
    table.append(rows)
    before = projseg.cache_statistics().byte_count
    found = table.query(columns="added", limit=3)
    assert found["added"].to_pylist() == [count - 1, count - 2, count - 3]
    kept = projseg.cache_statistics().byte_count - before
    assert kept < count * 4  # one of the two columns, at four bytes a value
