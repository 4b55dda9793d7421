import math

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scale import tries

import projseg
from projseg.evaluation.arrow_vectors import encode_sorted, vector_of_array
from projseg.writer.sort_order import sorted_row_ids

NARROW = st.one_of(st.none(), st.integers(-3, 3))
FLOATS = st.one_of(st.none(), st.sampled_from([-math.inf, -1.5, 0.0, math.inf, math.nan]))
WIDE = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 2))


def sorted_slowly(rows):
    """The row numbers in order, nulls first, equal rows as they stand."""
    keys = [
        [(value is not None, value != value, 0 if value != value else value or 0) for value in row]
        for row in rows
    ]
    return sorted(range(len(rows)), key=lambda number: keys[number])


@given(st.lists(st.tuples(NARROW, WIDE, NARROW), max_size=40), st.permutations(["a", "b", "c"]))
def test_rows_are_sorted_by_numbers_of_any_range_and_by_ids(rows, columns):
    values = dict(zip("abc", zip(*rows, strict=True) if rows else ((), (), ()), strict=True))
    arrays = {name: pa.array(of, pa.int64()) for name, of in values.items()}
    vectors = {name: vector_of_array(array) for name, array in arrays.items()}
    vectors["c"] = encode_sorted(arrays["c"])
    expected = sorted_slowly([*zip(*(values[name] for name in columns), strict=True)])
    found = sorted_row_ids(vectors, columns)
    found = np.arange(len(rows)) if found is None else found
    assert found.tolist() == expected


@settings(max_examples=tries(40))
@given(st.lists(st.tuples(FLOATS, NARROW), max_size=12))
@example([(-math.inf, 1), (None, 1)])
@example([(None, 4), (-math.inf, 3), (None, 2), (-math.inf, 1)])
def test_tables_sorted_by_doubles_are_sound(tmp_path_factory, rows):
    data = pa.table(
        {
            "x": pa.array([x for x, _ in rows], pa.float64()),
            "n": pa.array([n for _, n in rows], pa.int64()),
        }
    )
    location = str(tmp_path_factory.mktemp("sorted") / "t")
    table = projseg.Table.create(location, data.schema, cluster_by=["x", "n"], data=data)
    expected = [rows[number] for number in sorted_slowly(rows)]
    found = [(row["x"], row["n"]) for row in table.query(columns="x, n").to_pylist()]
    assert repr(found) == repr(expected)
    assert table.verify(deep=True) == []
