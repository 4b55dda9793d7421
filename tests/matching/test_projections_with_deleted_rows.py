"""Projections of segments with deleted rows: they answer as the rows do that are left."""

import collections
import datetime
import shutil
import tempfile
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_tables import (
    BOUNDS,
    STORED_KEYS,
    Declared,
    answer,
    condition,
    filtered,
    make_query,
    make_table,
    random_of,
)
from scale import tries

import projseg
from projseg.errors import ProjsegError
from projseg.table_layer.metadata import known_properties

TABLES = tries(500, 3)
QUERIES_A_TABLE = 16
START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
SCHEMA = pa.schema(
    [
        ("t", pa.timestamp("us", tz="UTC")),
        ("g", pa.string()),
        ("n", pa.int64()),
        ("d", pa.decimal128(38, 2)),
        ("x", pa.float64()),
    ]
)
EXACT = {
    "name": "exact",
    "sql": "SELECT g, date_trunc('HOUR', t) AS hour, sum(n) AS n, count(n) AS values, "
    "sum(d) AS d, count(d) AS decimals, count(*) AS rows, bit_xor(n) AS bits, "
    "sum(n) FILTER (WHERE n > 0) AS above, count(n) FILTER (WHERE n > 0) AS positive GROUP BY ALL",
}


@pytest.fixture
def kept_vectors(monkeypatch):
    """Let any delete leave a vector."""
    monkeypatch.setattr(known_properties, "_MAX_DELETED_RATIO", 1.0)


def delete(table, r):
    """Delete some rows by conditions that may be any."""
    for _ in range(r.randint(1, 3)):
        meant = f"{condition(r, 1)} AND m % {r.randint(2, 7)} = {r.randint(0, 3)}"
        try:
            table.delete(meant)
        except ProjsegError:
            continue  # a row's value does not suit the condition


REVERSIBLE = [
    *("count(*)", "count(n)", "count(c)", "count(x)", "sum(n)", "sum(m)", "avg(n)", "avg(m)"),
    *("bit_xor(n)", "bit_xor(m)", "sum(m + n)", "sum(length(c))"),
]


def add_exact(r, table):
    """Declare and build a projection of which most can be taken back; return its texts."""
    keys = [key for key in r.sample(STORED_KEYS, 3) if key not in ("ts", "x")]
    calls = []
    for call in r.sample(REVERSIBLE, r.randint(2, 6)):
        narrowed = filtered(r, call)[len(call) :]
        counted = f"count({call.partition('(')[2]}{narrowed}"
        calls += [call + narrowed, counted] if r.random() < 0.9 else [call]
    calls = list(dict.fromkeys([*calls, "count(*)"] if r.random() < 0.9 else calls))
    declared = Declared(keys, calls, condition(r, 1) if r.random() < 0.2 else None)
    try:
        table.add_projection(declared.named("exact"), materialize=True)
    except ProjsegError:
        return None  # two keys or states may be equal
    return declared


def exact_query(r, declared):
    """Return a query that such a projection answers, and its context."""
    keys = r.sample(declared.keys, r.randint(0, len(declared.keys)))
    calls = r.sample(declared.aggregates, r.randint(1, min(4, len(declared.aggregates))))
    conditions = [] if declared.where is None else [f"({declared.where})"]
    if declared.keys and r.random() < 0.4:
        forms = ["(%s) IS NOT NULL", "(%s) IS NULL", "(%s) = (%s)"]
        conditions.append(r.choice(forms).replace("%s", r.choice(declared.keys)))
    query = {
        "group_by": [f"{key} AS k{index}" for index, key in enumerate(keys)],
        "aggregators": [f"{call} AS v{index}" for index, call in enumerate(calls)],
        "filter": " AND ".join(conditions) or None,
    }
    if r.random() < 0.3:
        query["interval"] = "/".join(sorted(r.sample(BOUNDS, 2)))
    return query, {}


def hidden_segments(table):
    return {entry.file for entry in table.snapshot.segments if entry.deletion_vector is not None}


def test_projections_and_base_rows_agree_on_the_rows_that_are_left(
    tmp_path, dear_base_rows, kept_vectors
):
    served = collections.Counter()
    for seed in range(TABLES):
        r = random_of(10_000 + seed)
        table, declared = make_table(r, str(tmp_path / str(seed)))
        exact = add_exact(r, table)
        delete(table, r)
        hidden = hidden_segments(table)
        for _ in range(QUERIES_A_TABLE):
            if exact is not None and r.random() < 0.6:
                query, context = exact_query(r, exact)
            else:
                query, context = make_query(r, declared)
            expected = answer(table, query, {**context, "noProjections": True})
            found = answer(table, query, context)
            is_raised_by_base_rows_only = isinstance(expected, str) and isinstance(found, list)
            assert found == expected or is_raised_by_base_rows_only, (seed, query, context)
            if isinstance(found, list):
                plan = table.explain(**query, context=context)
                for row in plan.segments.to_pylist():
                    served[row["segment"] in hidden, row["source"] not in (None, "metadata")] += 1
    # Where rows are hidden, projections still answer.
    assert served[True, True] > sum(served.values()) / 20, served


VALUES = st.none() | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
DECIMALS = st.none() | st.integers(-5, 5) | st.integers(-(10**37), 10**37)
ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 3), VALUES, DECIMALS),
    min_size=2,
    max_size=25,
)
AGGREGATES = {
    "count(*)": "count(*)",
    "count(n)": "count(n)",
    "sum(n)": "sum(n)",
    "sum(d)": "sum(d)",
    "bit_xor(n)": "bit_xor(n)",
    "sum(n) FILTER (WHERE n > 0)": "sum(n) FILTER (WHERE n > 0)",
    "count(d) FILTER (WHERE g = 'a')": "count(d) FILTER (WHERE g = 'a')",
    "sum(n) FILTER (WHERE g = 'a')": "sum(n) FILTER (WHERE g = 'a')",
}
KEYS = {
    "none": ("", ""),
    "g": ("g", "g"),
    "hour": ("date_trunc('HOUR', t)", "date_trunc('hour', t)"),
    "both": ("g, date_trunc('HOUR', t)", "g, date_trunc('hour', t)"),
}
FILTERS = [None, "g = 'a'", "g IS NULL OR g = 'b'", "t >= timestamp '2024-05-01 01:00:00+00:00'"]


def asked_of_duckdb(data, keys, calls, where):
    with duckdb.connect() as peer:
        peer.execute("SET TimeZone = 'UTC'")
        peer.register("edits", data)
        selected = ", ".join([*([keys] if keys else []), *calls])
        grouped = f" GROUP BY {keys}" if keys else ""
        filtered = f" WHERE {where}" if where else ""
        return texts(peer.sql(f"SELECT {selected} FROM edits{filtered}{grouped}").fetchall())


def texts(rows):
    """Rows as texts, in order; a decimal and the integer that it equals are one."""
    return sorted(repr([shown(value) for value in row]) for row in rows)


def shown(value):
    if isinstance(value, datetime.datetime):
        return value.timestamp()
    return str(Decimal(value).normalize()) if isinstance(value, int | Decimal) else value


@settings(max_examples=tries(2_000, 12))
@given(
    drawn=ROWS,
    gone=st.lists(st.sets(st.integers(0, 24), max_size=6), min_size=1, max_size=3),
    calls=st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=4, unique=True),
    key=st.sampled_from(sorted(KEYS)),
    where=st.sampled_from(FILTERS),
)
def test_any_rows_and_any_deletes_as_duckdb_has_them(drawn, gone, calls, key, where):
    folder = tempfile.mkdtemp()
    rows = [
        {
            "t": START + datetime.timedelta(hours=hour, seconds=number),
            "g": group,
            "n": value,
            "d": None if decimal is None else Decimal(decimal).scaleb(-2),
            "x": 1.0,
        }
        for number, (group, hour, value, decimal) in enumerate(drawn)
    ]
    table = projseg.Table.create(
        f"{folder}/t", SCHEMA, time_column="t", projections=[EXACT],
        properties={"maxDeletedRatio": "1"},
    )  # fmt: skip
    table.append(pa.Table.from_pylist(rows, SCHEMA))
    for some in gone:
        moments = [row["t"].isoformat() for number, row in enumerate(rows) if number in some]
        if moments:
            listed = ", ".join(f"timestamp '{moment}'" for moment in moments)
            table.delete(f"t IN ({listed})")
    left = [row for number, row in enumerate(rows) if number not in set().union(*gone)]
    own, peers = KEYS[key]
    query = {"aggregators": ", ".join(calls), "filter": where}
    if own:
        query["group_by"] = own
    wanted = outcome(
        lambda: asked_of_duckdb(pa.Table.from_pylist(left, SCHEMA), peers, calls, where)
    )
    found = {}
    for name, context in (
        ("base", {"noProjections": True}),
        ("stored", {"forceProjections": True}),
    ):
        found[name] = outcome(
            lambda context=context: texts(
                tuple(row.values()) for row in table.query(**query, context=context).to_pylist()
            )
        )
    assert found["stored"] == found["base"]
    if isinstance(found["base"], list) and isinstance(wanted, list):
        assert found["base"] == wanted
    if left and hidden_segments(table):
        plan = table.explain(**query, context={"forceProjections": True})
        assert set(plan.sources) <= {"exact"}  # no segment where zones prove that no row matches
    shutil.rmtree(folder)


def outcome(ask):
    """The answer, or the kind of the error."""
    try:
        return ask()
    except ProjsegError as error:
        return error.code
    except duckdb.Error:
        return "DUCKDB"


def made(tmp_path, projections, rows):
    table = projseg.Table.create(
        tmp_path / "t", SCHEMA, time_column="t", projections=projections,
        properties={"maxDeletedRatio": "1"},
    )  # fmt: skip
    table.append(
        pa.Table.from_pylist(
            [
                {"t": START + datetime.timedelta(minutes=i), "g": g, "n": n, "d": None, "x": 0.5}
                for i, (g, n) in enumerate(rows)
            ],
            SCHEMA,
        )
    )
    return table


def test_a_sum_of_no_values_is_null_and_a_group_of_no_rows_is_none(tmp_path):
    table = made(tmp_path, [EXACT], [("a", 5), ("a", None), ("b", 7), ("c", 1), ("c", 2)])
    table.delete("n IN (5, 7, 2)")
    asked = {"group_by": "g", "aggregators": "sum(n) AS n, avg(n) AS mean, count(*) AS rows"}
    found = table.query(**asked, context={"forceProjections": True}).to_pylist()
    assert sorted(found, key=lambda row: row["g"]) == [
        {"g": "a", "n": None, "mean": None, "rows": 1},
        {"g": "c", "n": 1, "mean": 1.0, "rows": 1},
    ]
    assert table.query(aggregators="sum(n) AS n, count(*) AS rows").to_pylist() == [
        {"n": 1, "rows": 2}
    ]


@pytest.mark.parametrize(
    ("declared", "asked", "why"),
    [
        ("SELECT g, max(n) AS m, count(*) AS c GROUP BY g", {"aggregators": "max(n)"},
         "max(n)"),
        ("SELECT g, sum(x) AS m, count(*) AS c GROUP BY g", {"aggregators": "sum(x)"}, "sum(x)"),
        ("SELECT g, sum(n) AS m, count(n) AS c GROUP BY g",
         {"group_by": "g", "aggregators": "sum(n)"}, "count(*) is not stored"),
        ("SELECT g, sum(n) AS m, count(*) AS c GROUP BY g", {"aggregators": "sum(n)"},
         "count(n) is not stored"),
        ("SELECT g, n, count(*) AS c GROUP BY g, n",
         {"group_by": "60 / n AS k", "aggregators": "count(*)"},
         "grouping column k may fail on a deleted row"),
        ("SELECT g, n, count(*) AS c GROUP BY g, n",
         {"aggregators": "count(g)", "filter": "60 / n > 1"},
         "the filter may fail on a deleted row"),
        ("SELECT g, n, count(*) AS c GROUP BY g, n",
         {"aggregators": "bit_xor(60 div n)"}, "bit_xor(60L DIV n) may fail on a deleted row"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_back_is_read_from_rows(tmp_path, declared, asked, why):
    table = made(tmp_path, [{"name": "p", "sql": declared}], [("a", 0), ("b", None), ("b", 4)])
    assert set(table.explain(**asked, context={"forceProjections": True}).sources) == {"p"}
    table.delete("n = 0")
    assert table.explain(**asked).sources == {"base": 1}
    (rejected,) = table.explain(**asked).segments["rejected"].to_pylist()
    assert rejected == [("p", f"ROWS_DELETED {why}")]
    found = table.query(**asked).to_pylist()
    assert found == table.query(**asked, context={"noProjections": True}).to_pylist()


def test_null_free_columns_need_no_count_of_their_own(tmp_path):
    declared = {"name": "p", "sql": "SELECT g, sum(n) AS m, count(*) AS c GROUP BY g"}
    table = made(tmp_path, [declared], [("a", 3), ("b", 2), ("b", 4)])
    table.delete("n = 3")
    asked = {"aggregators": "sum(n) AS n, avg(n) AS mean"}
    assert set(table.explain(**asked, context={"forceProjections": True}).sources) == {"p"}
    assert table.query(**asked, context={"forceProjections": True}).to_pylist() == [
        {"n": 6, "mean": 3.0}
    ]


def test_the_filter_that_a_projection_implies_holds_for_deleted_rows_too(tmp_path):
    declared = {
        "name": "p",
        "sql": "SELECT g, sum(n) AS m, count(*) AS c, count(n) AS v WHERE n > 2 GROUP BY g",
    }
    table = made(tmp_path, [declared], [("a", 1), ("a", 3), ("b", 2), ("b", 9), ("b", 4)])
    table.delete("n IN (1, 2, 4)")
    asked = {"group_by": "g", "aggregators": "sum(n) AS n", "filter": "n > 2"}
    found = table.query(**asked, context={"forceProjections": True}).to_pylist()
    assert sorted(map(tuple, map(dict.values, found))) == [("a", 3), ("b", 9)]


def test_the_estimate_counts_the_deleted_rows(tmp_path):
    table = made(tmp_path, [EXACT], [("ab"[i % 2], i) for i in range(4_000)])
    asked = {"group_by": "g", "aggregators": "sum(n) AS n"}
    before = table.explain(**asked)
    table.delete("n % 50 = 0")
    after = table.explain(**asked)
    assert set(before.sources) == set(after.sources) == {"exact"}
    (read,), (read_before,) = after.segments.to_pylist(), before.segments.to_pylist()
    assert read["rows"] == read_before["rows"] + 80
    assert read["bytes"] > read_before["bytes"]
