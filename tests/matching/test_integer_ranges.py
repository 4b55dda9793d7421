"""Which sums of whole numbers there can be, and which casts only widen."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projseg.algebra.expressions.bind import bind
from projseg.algebra.proofs.value_set import (
    ANY_VALUE,
    ANYTHING,
    NOTHING,
    NULL_ONLY,
    ValueSet,
    any_of,
    only,
    values_between,
    values_of_sum,
    without_widening,
)

SCHEMA = pa.schema([("i", pa.int32()), ("b", pa.int64()), ("f", pa.float64()), ("y", pa.int8())])


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("CAST(i AS BIGINT)", "i"),
        ("CAST(CAST(y AS INT) AS BIGINT)", "y"),
        ("CAST(b AS INT)", "CAST(b AS INT)"),
        ("CAST(f AS BIGINT)", "CAST(f AS BIGINT)"),
        ("CAST(i AS DOUBLE)", "CAST(i AS DOUBLE)"),
        ("CAST(CAST(b AS INT) AS BIGINT)", "CAST(b AS INT)"),
        ("i + 1", "i + 1"),
    ],
)
def test_only_casts_to_wider_whole_numbers_are_left_out(text, inner):
    assert without_widening(bind(text, SCHEMA)) == bind(inner, SCHEMA)


VALUES = st.sets(st.integers(-5, 5), max_size=3)


@given(st.lists(st.tuples(VALUES, st.booleans()), min_size=1, max_size=3))
def test_a_sum_lies_between_the_sums_of_least_and_largest(parts):
    sets = [ValueSet(any_of(values, pa.int64()).cuts, has_null) for values, has_null in parts]
    found = values_of_sum(tuple(sets), pa.int64())
    assert found.has_null == any(has_null for _, has_null in parts)
    low, high = sum(min(v, default=0) for v, _ in parts), sum(max(v, default=0) for v, _ in parts)
    is_sum = all(values for values, _ in parts)
    assert found.without_null() == (values_between(low, high, pa.int64()) if is_sum else NOTHING)


def test_a_sum_of_what_has_no_bound_has_none():
    three = only(3, pa.int64())
    assert values_of_sum((three, ANY_VALUE), pa.int64()) == ANY_VALUE
    for open_ended in (values_between(5, None, pa.int64()), values_between(None, 1, pa.int64())):
        assert values_of_sum((three.union(open_ended), three), pa.int64()) == ANY_VALUE
    assert values_of_sum((ANYTHING, three), pa.int64()) == ANYTHING
    assert values_of_sum((three, NULL_ONLY), pa.int64()) == NULL_ONLY
    assert values_of_sum((three,), pa.float64()) == ANYTHING
