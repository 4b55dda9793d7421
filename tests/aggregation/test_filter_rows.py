import math

import numpy as np
import pyarrow as pa
import pytest
import selecting as oracle
from hypothesis import given
from hypothesis import strategies as st

from projseg.algebra.expressions.bind import bind
from projseg.errors import InvalidInputError
from projseg.evaluation.arrow_vectors import grouping_vector
from projseg.evaluation.masks import filter_rows
from projseg.evaluation.rows import MemorySource, RowIds, all_rows
from projseg.kernels.row_selection import allowed_rows, with_rest
from projseg.segment_format.vectors import Numbers

IDS = st.lists(st.integers(0, 29))
ALLOWED = st.one_of(
    st.lists(st.booleans(), min_size=30, max_size=30),
    st.sets(st.integers(0, 29)).map(lambda kept: [one in kept for one in range(30)]),
)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@given(ids=IDS, allowed=ALLOWED)
def test_rows_with_allowed_ids_are_their_oracle(dtype, ids, allowed):
    mask = allowed_rows(np.array(ids, dtype), np.array(allowed))
    assert np.flatnonzero(mask).tolist() == oracle.rows_with_allowed_id(ids, allowed)


def test_an_id_without_a_flag_is_refused():
    with pytest.raises(InvalidInputError, match="id 30 is not below 30"):
        allowed_rows(np.array([30], np.uint8), np.arange(30) % 2 == 0)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@given(rows=st.lists(st.tuples(st.integers(0, 200), st.booleans())))
def test_rows_that_do_not_count_are_of_the_rest(dtype, rows):
    ids = np.array([one for one, _ in rows], dtype)
    mask = np.array([kept for _, kept in rows], bool)
    assert with_rest(ids, mask, 201).tolist() == np.where(mask, ids, 201).tolist()


def test_a_mask_of_another_length_is_refused():
    with pytest.raises(InvalidInputError, match="1 ids, 2 rows"):
        with_rest(np.zeros(1, np.uint8), np.zeros(2, bool), 1)


NUMBERS = st.sampled_from([-(2**63), -300, -1, 0, 1, 255, 256, 70_000, 2**63 - 1])
FLOATS = st.sampled_from([float("nan"), float("inf"), -0.0, 0.0, 1.5, -2.5])
COMPARE = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<>": lambda a, b: a != b,
}


def kept(column, text, values, arrow_type):
    schema = pa.schema([(column, arrow_type)])
    source = MemorySource(len(values), {column: grouping_vector(pa.array(values, arrow_type))})
    rows = filter_rows(all_rows(source), bind(text, schema))
    if isinstance(rows.selection, RowIds):
        return rows.selection.ids.tolist()
    return list(range(rows.selection.start, rows.selection.end))


@given(
    st.lists(st.one_of(st.none(), NUMBERS)),
    st.sampled_from(sorted(COMPARE)),
    NUMBERS,
    st.sampled_from(sorted(COMPARE)),
    NUMBERS,
)
def test_comparisons_of_integers_keep_what_they_should(values, first, a, second, b):
    text = f"x {first} {a} AND x {second} {b}".replace(str(-(2**63)), f"({-(2**63) + 1} - 1)")
    expected = [
        row
        for row, value in enumerate(values)
        if value is not None and COMPARE[first](value, a) and COMPARE[second](value, b)
    ]
    assert kept("x", text, values, pa.int64()) == expected


@given(st.lists(st.one_of(st.none(), FLOATS)), st.sampled_from(sorted(COMPARE)), st.just(0.5))
def test_comparisons_of_doubles_put_nan_above_all(values, comparison, bound):
    def order(value):
        return (1, 0) if math.isnan(value) else (0, value)

    expected = [
        row
        for row, value in enumerate(values)
        if value is not None and COMPARE[comparison](order(value), order(bound))
    ]
    assert kept("x", f"x {comparison} {bound}D", values, pa.float64()) == expected


@given(st.lists(st.integers(0, 255)), st.integers(-400, 400), st.integers(-400, 400))
def test_narrow_values_compare_as_what_they_stand_for(values, base, bound):
    schema = pa.schema([("x", pa.int64())])
    numbers = Numbers(np.array(values, np.uint8), pa.int64(), base)
    rows = all_rows(MemorySource(len(values), {"x": numbers}))
    found = filter_rows(rows, bind(f"x <= {bound}", schema))
    assert len(found) == sum(value + base <= bound for value in values)


@given(st.lists(st.one_of(st.none(), st.sampled_from("abcde"))))
def test_several_conditions_on_one_text_are_one_look_up(values):
    text = "x >= 'b' AND x <> 'c' AND (x < 'd' OR x = 'e')"
    expected = [row for row, value in enumerate(values) if value in ("b", "e")]
    assert kept("x", text, values, pa.string()) == expected
