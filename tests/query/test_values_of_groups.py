"""Distinct tuples, lists, modes and tried sums are the oracle's from every mixture of sources."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
import rows_oracle
from asking import declare
from hypothesis import given, settings
from hypothesis import strategies as st
from query_cases import CONDITION, KEY_COLUMNS, PROJECTION, ROW, SCHEMA
from scale import tries

import projseg
from projseg.aggregation import values
from projseg.errors import LimitExceededError, ProjsegError

TABLES = tries(1_500, 3)
COLUMNS = ["channel", "page", "code", "big", "robot", "price", "amount", "day"]


def normal(value):
    return (
        list(map(rows_oracle.normal, value))
        if isinstance(value, list)
        else rows_oracle.normal(value)
    )


def order_of(value):
    """A sort key of a normal value: NaN is the greatest, texts are in the order of their bytes."""
    if value == "NaN":
        return (1, 0)
    return (0, value.encode() if isinstance(value, str) else value)


def known(rows, name):
    return [normal(row[name]) for row in rows if row[name] is not None]


def tuple_count(rows, *names):
    every = {tuple(normal(row[name]) for name in names) for row in rows}
    return sum(None not in one for one in every)


def listed(rows, name):
    return sorted(known(rows, name), key=order_of)


def mode(rows, name):
    counts = Counter(known(rows, name))
    most = max(counts.values(), default=0)
    tied = [value for value, count in counts.items() if count == most]
    return min(tied, key=order_of, default=None)


def try_sum(rows, name):
    total = sum(known(rows, name))
    return total if known(rows, name) and -(2**63) <= total < 2**63 else None


def _asked(text, oracle, names):
    return text.format(", ".join(names)), lambda rows: oracle(rows, *names)


def _of(text, oracle, names):
    return st.sampled_from(names).map(lambda name: _asked(text, oracle, [name]))


ASKED = st.one_of(
    st.lists(st.sampled_from(COLUMNS), min_size=2, max_size=3, unique=True).map(
        lambda names: _asked("count(DISTINCT {})", tuple_count, names)
    ),
    _of("collect_list({})", listed, COLUMNS),
    _of("mode({})", mode, COLUMNS),
    _of("try_sum({})", try_sum, ["big", "code"]),
)


def filtered(asked, condition):
    if condition is None:
        return asked
    text, oracle = asked
    return (
        f"{text} FILTER (WHERE {condition.sql})",
        lambda rows: oracle([row for row in rows if condition.of(row) is True]),
    )


CALLS = st.lists(
    st.builds(filtered, ASKED, st.one_of(st.none(), CONDITION)), min_size=1, max_size=4
)


def expected(rows, keys, calls):
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(normal(row[key]) for key in keys)].append(row)
    if not keys:
        groups[()]
    return {key: [oracle(members) for _, oracle in calls] for key, members in groups.items()}


def found(table, keys, calls, where, context):
    outputs = [f"{text} AS a{n}" for n, (text, _) in enumerate(calls)]
    answer = table.query(keys, outputs, where, context=context).to_pylist()
    width = len(keys)
    rows = [tuple(map(normal, row.values())) for row in answer]
    return {row[:width]: list(row[width:]) for row in rows}


@settings(max_examples=TABLES)
@given(
    st.lists(ROW, max_size=60),
    st.lists(PROJECTION, min_size=1, max_size=2),
    st.lists(st.sampled_from([key.sql for key in KEY_COLUMNS]), max_size=2, unique=True),
    CALLS,
    st.one_of(st.none(), CONDITION),
)
def test_every_mixture_of_sources_gives_the_oracles_answer(rows, projections, keys, calls, kept):
    with tempfile.TemporaryDirectory() as location:
        table = projseg.Table.create(location, SCHEMA, time_column="time")
        data = pa.Table.from_pylist(rows, SCHEMA)
        table.append(data.slice(0, len(data) // 2))
        for number, projection in enumerate(projections):
            declare(table, f"p{number}", projection)
        of_values = projseg.Projection("values", ["code", "price", "page"], ["count(*) AS n"])
        table.add_projection(of_values, materialize=False)
        table.append(data.slice(len(data) // 2))
        for deleted in (None, "code < 0"):
            if deleted:
                table.delete(deleted)
                rows = [row for row in rows if row["code"] is None or row["code"] >= 0]
            chosen = [row for row in rows if kept is None or kept.of(row) is True]
            wanted = expected(chosen, keys, calls)
            for context in ({}, {"noProjections": True}):
                answer = found(table, keys, calls, kept and kept.sql, context)
                assert answer == wanted, (keys, calls, kept, context)


SMALL = pa.schema({"g": pa.string(), "a": pa.string(), "b": pa.int32(), "c": pa.int32()})


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Three segments, of which the last two have projections; and all rows."""
    rows = [
        {"g": "xyz"[n % 3], "a": [None, "p", "q", "pq"][n % 4], "b": n * n % 7, "c": n % 5}
        for n in range(300)
    ]
    table = projseg.Table.create(tmp_path_factory.mktemp("t") / "t", SMALL)
    data = pa.Table.from_pylist(rows, SMALL)
    table.append(data.slice(0, 100))
    for number, keys in enumerate((["a", "b"], ["g", "a", "b"])):
        projection = projseg.Projection(f"by{number}", keys, ["count(*) AS n", "sum(c) AS s"])
        table.add_projection(projection, materialize=False)
    table.append(data.slice(100, 100))
    table.append(data.slice(200))
    return table, data


PEER = {
    "count(DISTINCT a, b)": "count(DISTINCT (a, b)) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL)",
    "count(DISTINCT b, a) FILTER (WHERE b > 2)":
        "count(DISTINCT (a, b)) FILTER (WHERE a IS NOT NULL AND b > 2)",
    "collect_list(a)": "coalesce(list(a ORDER BY a) FILTER (WHERE a IS NOT NULL), [])",
    "array_agg(b)": "list(b ORDER BY b)",
    "sum(b)": "sum(b)::BIGINT",
}  # fmt: skip


def as_set(rows):
    return sorted(str(sorted(row.items())) for row in rows)


@pytest.mark.parametrize("grouped", ["g", "ROLLUP(g, a)", "GROUPING SETS ((a), (g), ())"])
def test_duckdb_agrees_beside_other_aggregates_and_in_grouping_sets(mixed, grouped):
    table, data = mixed
    keys = [key for key in ("g", "a") if key in grouped.split("ROLLUP")[-1]]
    ours = [f"{text} AS v{n}" for n, text in enumerate(PEER)]
    theirs = ", ".join([*keys, *(f"{text} AS v{n}" for n, text in enumerate(PEER.values()))])
    with duckdb.connect() as peer:
        peer.register("rows", data)
        sql = f"SELECT {theirs} FROM rows GROUP BY {grouped}"
        wanted = peer.sql(sql).to_arrow_table().to_pylist()
    for context in ({}, {"noProjections": True}):
        answer = table.query(grouped, ours, context=context).to_pylist()
        assert as_set(answer) == as_set(wanted)
    sources = set(table.explain(grouped, ours).sources)
    assert sources == {"base", "by1"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("count(DISTINCT a, b)", 12),
        ("count(DISTINCT b, a, a, 1)", 12),
        ("mode(a)", "p"),
        ("mode() WITHIN GROUP (ORDER BY a)", "p"),
        ("mode(b, true)", 2),
        ("collect_list(DISTINCT a)", ["p", "pq", "q"]),
        ("sum(b) / count(DISTINCT a, b)", None),
    ],
)
def test_projections_by_the_arguments_serve(mixed, text, value):
    table, _ = mixed
    from_base = table.query(aggregators=f"{text} AS v", context={"noProjections": True})
    assert table.query(aggregators=f"{text} AS v") == from_base
    assert set(table.explain(aggregators=text).sources) == {"base", "by0"}
    if value is not None:
        assert from_base.to_pylist() == [{"v": value}]


def test_why_a_projection_does_not_serve(mixed):
    table, _ = mixed
    for text in ("count(DISTINCT a, c)", "mode(c)"):
        assert "MISSING_GROUPING_COLUMN c" in str(table.explain(aggregators=text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("count(DISTINCT a, b)", "needs every row of its arguments; group by all of them"),
        ("collect_list(a)", "needs every value of a group; group by its argument"),
        ("mode(a)", "needs every value of a group; group by its argument"),
    ],
)
def test_projections_say_what_to_declare_instead(text, problem):
    with pytest.raises(ProjsegError, match=problem):
        projseg.Table.create("/nowhere", SMALL, projections=[projseg.Projection("p", "g", text)])


def test_over_no_rows(tmp_path):
    table = projseg.Table.create(tmp_path / "t", SMALL)
    asked = ["count(DISTINCT a, b) AS n", "collect_list(a) AS l", "mode(a) AS m", "mode(b) AS k"]
    asked += ["try_sum(b) AS s", "try_avg(b) AS v"]
    none = {"n": 0, "l": [], "m": None, "k": None, "s": None, "v": None}
    assert table.query(aggregators=asked).to_pylist() == [none]
    row = dict.fromkeys(SMALL.names)
    table.append(pa.Table.from_pylist([row, row], SMALL))
    assert table.query("g", asked).to_pylist() == [{"g": None, **none}]


def test_lists_beyond_one_arrow_array_are_refused(mixed, monkeypatch):
    monkeypatch.setattr(values, "_ARROW_MAX", 299)
    table, _ = mixed
    kept = "collect_list(b) FILTER (WHERE b < 3) AS l"
    assert len(table.query(aggregators=kept)["l"][0]) < 299
    assert len(table.query("g", "collect_list(b) AS l", limit=2)) == 2
    with pytest.raises(LimitExceededError, match="are 300 values, more than 299; filter rows"):
        table.query(aggregators="collect_list(b) AS l")


@pytest.mark.parametrize(
    ("values", "most"),
    [
        ([0, 2**40, 2**40], 2**40),
        ([2**62, -(2**62), 7, 2**62, None], 2**62),
        ([1.5, 2.5, 2.5], 2.5),
        ([Decimal("0.01"), *[Decimal("9999999.99")] * 2], Decimal("9999999.99")),
    ],
)
@pytest.mark.parametrize("group_by", [(), ("g",)])
def test_the_most_frequent_of_numbers_far_apart(tmp_path, values, most, group_by):
    rows = pa.table({"g": ["x"] * len(values) + ["y"], "v": [*values, values[0]]})
    table = projseg.Table.create(tmp_path / "t", rows.schema)
    table.append(rows)
    answer = table.query(group_by, "mode(v) AS v", filter="g = 'x'")
    assert answer["v"].to_pylist() == [most]
