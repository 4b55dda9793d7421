"""Keys and sums that follow from others are computed of the groups, and not of the rows."""

from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import projseg
from projseg.aggregation import fold as fold_module
from projseg.errors import EvaluationError
from projseg.reader import run_plan

SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.string()), ("x", pa.int32())])
ROW = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-3, 3),
        "b": st.none() | st.sampled_from(["", "one", "other"]),
        "x": st.none() | st.integers(-5, 5),
    }
)
KEYS = ["a", "a + 1", "b", "substr(b, 1, 2)", "concat(b, cast(a AS string))", "a % 2"]
SUMS = [*(f"sum(x + {n})" for n in range(4)), "sum(3 * x)", "sum(7 - x)", "sum(x)", "count(x)"]


def made(location, batches):
    table = projseg.Table.create(location, SCHEMA)
    for rows in batches:
        table.append(pa.Table.from_pylist(rows, SCHEMA))
    return table


def one_by_one(table, keys, sums):
    """The answer of a query for each sum alone, over keys that a subquery renders independent."""
    names = [f"k{n}" for n in range(len(keys))]
    inner = ", ".join(f"{key} AS {name}" for key, name in zip(keys, names, strict=True))
    rows = table.sql(f"SELECT {inner}, x FROM t").to_pylist()
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row["x"])
    by_text = {
        **{f"sum(x + {n})": lambda v, n=n: v + n for n in range(4)},
        "sum(3 * x)": lambda v: 3 * v,
        "sum(7 - x)": lambda v: 7 - v,
        "sum(x)": lambda v: v,
        "count(x)": lambda _: 1,
    }
    found = set()
    for key, values in groups.items():
        known = [value for value in values if value is not None]
        totals = [sum(map(by_text[s], known)) if known or s == "count(x)" else None for s in sums]
        found.add((*key, *totals))
    return found


@given(
    st.lists(st.lists(ROW, min_size=1, max_size=20), min_size=1, max_size=3),
    st.lists(st.sampled_from(KEYS), min_size=1, unique=True),
    st.lists(st.sampled_from(SUMS), min_size=1, unique=True),
)
def test_answers_are_those_of_all_keys_and_sums(tmp_path_factory, batches, keys, sums):
    table = made(tmp_path_factory.mktemp("t") / "t", batches)
    group_by = [f"{key} AS k{n}" for n, key in enumerate(keys)]
    aggregators = [f"{one} AS s{n}" for n, one in enumerate(sums)]
    found = table.query(group_by, aggregators).to_pylist()
    assert len(found) == len({tuple(row.values()) for row in found})
    assert {tuple(row.values()) for row in found} == one_by_one(table, keys, sums)


@pytest.mark.parametrize(
    ("keys", "sums", "folded"),
    [
        (["a", "a + 1", "a + 2"], ["count(*) AS n"], (1, 1)),
        (["a", "b", "concat(b, cast(a AS string))"], ["count(*) AS n"], (2, 1)),
        (["a + 1", "a + 2"], ["count(*) AS n"], (2, 1)),
        (["a", "a + 1", "length(b)"], ["count(*) AS n"], (3, 1)),
        ([], [f"sum(x + {n}) AS s{n}" for n in range(20)], (0, 2)),
        (["b"], ["sum(x) AS s", "max(x) AS m"], (1, 2)),
    ],
)
def test_rows_are_folded_by_fewer_keys_and_sums(tmp_path, keys, sums, folded):
    rows = [{"a": n % 5, "b": f"t{n % 3}", "x": n} for n in range(50)]
    table = made(tmp_path / "t", [rows, rows])
    seen = []

    def recorded(rows, keys, primitives, feeds, **options):
        seen.append((len(keys), len(primitives)))
        return fold_module.fold(rows, keys, primitives, feeds, **options)

    with patch.object(run_plan, "fold", recorded):
        found = table.query(keys, sums)
    assert found.num_rows
    assert set(seen) == {folded}


def test_a_key_that_overflows_still_raises(tmp_path):
    table = made(tmp_path / "t", [[{"a": 2**31 - 1, "b": "", "x": 1}]])
    with pytest.raises(EvaluationError, match="OVERFLOW"):
        table.query(["a", "a + 1"], "count(*) AS n")
    assert len(table.query(["a", "a + 1"], "count(*) AS n", filter="a < 0")) == 0


def test_zeros_of_both_signs_are_one_group_and_two_texts(tmp_path):
    table = projseg.Table.create(tmp_path / "t", pa.schema([("x", pa.float64())]))
    table.append({"x": [0.0, -0.0, 0.0]})
    rows = table.query("x, CAST(x AS STRING) AS text", "count(*) AS n").to_pylist()
    assert sorted((row["text"], row["n"]) for row in rows) == [("-0.0", 1), ("0.0", 2)]
