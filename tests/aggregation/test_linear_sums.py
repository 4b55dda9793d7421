import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import projseg
from projseg.errors import EvaluationError

EXPRESSIONS = {
    "a - b": lambda r: r["a"] - r["b"],
    "a + c": lambda r: r["a"] + r["c"],
    "-(a - c) + b": lambda r: -(r["a"] - r["c"]) + r["b"],
    "c - a - b": lambda r: r["c"] - r["a"] - r["b"],
    "3 * (a - 2) - c": lambda r: 3 * (r["a"] - 2) - r["c"],
    "0 * a + 7": lambda r: 7 + 0 * r["a"],
}
SCHEMA = pa.schema([("g", pa.int8()), ("a", pa.int32()), ("b", pa.int32()), ("c", pa.int64())])


def make(location, rows):
    table = projseg.Table.create(location, SCHEMA)
    table.append(pa.Table.from_pylist(rows, SCHEMA))
    return table


@pytest.mark.parametrize("text", EXPRESSIONS)
@given(data=st.data())
def test_sums_of_sums_are_sums_of_rows(tmp_path_factory, text, data):
    value = (
        st.one_of(st.integers(0, 9), st.none()) if data.draw(st.booleans()) else st.integers(0, 9)
    )
    row = st.fixed_dictionaries({"g": st.integers(0, 2), "a": value, "b": value, "c": value})
    rows = data.draw(st.lists(row, min_size=1, max_size=30))
    table = make(tmp_path_factory.mktemp("t") / "t", rows)
    expected = {}
    for one in rows:
        complete = all(one[name] is not None for name in "abc" if name in text)
        total = expected.setdefault(one["g"], None)
        if complete:
            expected[one["g"]] = (total or 0) + EXPRESSIONS[text](one)
    found = table.query("g", f"sum({text}) AS s").to_pylist()
    assert {row["g"]: row["s"] for row in found} == expected


def test_sums_of_columns_are_shared_only_where_all_rows_count(tmp_path):
    rows = [{"g": g % 2, "a": g, "b": 2 * g, "c": 5} for g in range(9)]
    table = make(tmp_path / "t", rows)
    (found,) = table.query(
        aggregators="sum(a - b) AS d, sum(a) AS a, sum(b) FILTER (WHERE g = 1) AS b1,"
        " sum(a - b) FILTER (WHERE g = 1) AS d1, sum(b) AS b, sum(b - a - b) AS e"
    ).to_pylist()
    assert found == {"d": -36, "a": 36, "b1": 32, "d1": -16, "b": 72, "e": -36}


def test_a_row_that_overflows_still_raises(tmp_path):
    rows = [{"g": 0, "a": 2**31 - 1, "b": -1, "c": 0}, {"g": 0, "a": -5, "b": 0, "c": 0}]
    table = make(tmp_path / "t", rows)
    with pytest.raises(EvaluationError, match="OVERFLOW"):
        table.query(aggregators="sum(a - b) AS s")
    assert table.query(aggregators="sum(c - a) AS s").to_pylist() == [{"s": 5 - (2**31 - 1)}]
