"""Sums of integers of every size, in every order of a few awkward batches, against Python's own."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import projseg.aggregation.count_and_sum as sum_module
from projseg.aggregation.state import Groups
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.tree import Column
from projseg.errors import EvaluationError
from projseg.segment_format.vectors import Numbers

LARGEST = 2**63 - 1
INT64 = pa.int64()
ROWS = 100_000
SUM = Primitive("sum", (Column(INT64, "x"),))


def numbers(values, dtype=np.int64, base=0):
    """Values, None for null, as they are held: above a base, 0 where null."""
    validity = np.array([value is not None for value in values])
    held = np.array([0 if value is None else value - base for value in values], dtype)
    return Numbers(held, INT64, base, None if validity.all() else validity)


def listed(vector):
    """The values of numbers as Python has them."""
    valid = [True] * len(vector) if vector.validity is None else vector.validity.tolist()
    pairs = zip(vector.values.tolist(), valid, strict=True)
    return [vector.base + value if is_valid else None for value, is_valid in pairs]


BATCHES = {
    "small": numbers([1, None, 3, -5]),
    "largest": numbers([LARGEST, LARGEST, None, -1]),
    "least": numbers([-(2**63), -1, -(2**63), None]),
    "halves": numbers([2**32, 2**31 - 1, 2**31, -(2**32) - 1]),
    "narrow": numbers([7, 255, None, 0], np.uint8),
    "high base": numbers([2**62, 2**62 + 200, None, 2**62 + 1], np.uint8, 2**62),
    "low base": numbers([-(2**62), None, 255 - 2**62, 1 - 2**62], np.uint8, -(2**62)),
    "wide": numbers([2**70, None, -(2**70), 2**64], object),
    "wide base": numbers([2**70, 5, None, -(2**70)], object, 5),
    "all above a base": numbers([2**62, 2**62 + 200, 2**62 + 3, 2**62 + 1], np.uint8, 2**62),
    "nothing": numbers([None, None, None, None]),
}


def total(values):
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def check(batches, ids, group_count):
    state = new_state(SUM, group_count)
    groups = np.zeros(4, np.uint8) if ids is None else ids
    found = [[] for _ in range(group_count)]
    for batch in batches:
        state.add(Groups(ids, group_count, 4), [batch])
        for group, value in zip(groups.tolist(), listed(batch), strict=True):
            found[group].append(value)
    expected = [total(values) for values in found]
    (column,) = state.columns().values()
    assert listed(column) == expected
    is_wide = any(e is not None and not -LARGEST - 1 <= e <= LARGEST for e in expected)
    assert (column.values.dtype == object) == is_wide
    if not is_wide:
        assert state.finish().to_pylist() == expected
    return state, expected


@pytest.mark.parametrize("first", BATCHES)
def test_batches_add_up_in_any_order(first):
    for others in product(BATCHES, repeat=2):
        batches = [BATCHES[name] for name in (first, *others)]
        check(batches, None, 1)
        check(batches, np.array([2, 0, 0, 2], np.uint8), 3)


@pytest.mark.parametrize("first", BATCHES)
def test_states_of_batches_merge(first):
    ids = np.array([1, 0, 1, 0], np.uint8)
    for second in BATCHES:
        parts = [check([BATCHES[name]], ids, 2)[0] for name in (first, second)]
        whole = new_state(SUM, 2)
        for part in parts:
            whole.merge(Groups(np.array([0, 1], np.uint8), 2, 2), part.columns())
        _, expected = check([BATCHES[first], BATCHES[second]], ids, 2)
        (column,) = whole.columns().values()
        assert listed(column) == expected


@pytest.mark.parametrize("end", [LARGEST, -LARGEST - 1])
def test_a_sum_may_be_the_last_of_64_bits_and_no_more(end):
    step = 1 if end > 0 else -1
    state = new_state(SUM, 1)
    state.add(Groups(None, 1, 2), [numbers([end - 7 * step, 7 * step])])
    assert state.finish().to_pylist() == [end]
    assert state.columns()["sum"].values.dtype == np.int64
    state.add(Groups(None, 1, 1), [numbers([step])])
    assert state.columns()["sum"].values.tolist() == [end + step]
    with pytest.raises(EvaluationError, match="PROJSEG_OVERFLOW"):
        state.finish()


@pytest.mark.parametrize("end", [LARGEST, -LARGEST - 1])
def test_wide_values_may_add_up_to_the_last_of_64_bits(end):
    state = new_state(SUM, 1)
    state.add(Groups(None, 1, 2), [numbers([2**70, end - 2**70], object)])
    assert state.columns()["sum"].values.dtype == np.int64
    assert state.finish().to_pylist() == [end]


@pytest.mark.parametrize("value", [2**62, -(2**62) - 1, LARGEST, LARGEST - 2**31, -(2**63)])
@pytest.mark.parametrize("first", [[], [LARGEST] * 3, [-(2**63)] * 3, [2**32 - 1], [-1]])
def test_values_added_one_by_one_do_not_wrap(first, value):
    state = new_state(SUM, 1)
    if first:
        state.add(Groups(None, 1, len(first)), [numbers(first)])
    for count in range(1, 6):
        state.add(Groups(None, 1, 1), [numbers([value])])
        assert listed(state.columns()["sum"]) == [sum(first) + count * value]


@pytest.mark.parametrize("base", [-(2**40), 0, 2**40])
def test_wide_offsets_from_a_base_are_added_whole(base):
    values = np.full(ROWS, 2**32 - 1, np.uint32)
    state = new_state(SUM, 2)
    state.add(Groups(np.zeros(ROWS, np.uint8), 2, ROWS), [Numbers(values, INT64, base)])
    assert state.finish().to_pylist() == [ROWS * (2**32 - 1 + base), None]


@pytest.mark.parametrize("first", BATCHES)
def test_high_halves_are_moved_before_they_overflow(first, monkeypatch):
    """It takes 2**31 rows of the largest values, so the limit is lowered."""
    monkeypatch.setattr(sum_module, "_HIGH_BOUND_MAX", 1 << 34)
    for others in product(BATCHES, repeat=2):
        batches = [BATCHES[name] for name in (first, *others)]
        check(batches, np.array([2, 0, 0, 2], np.uint8), 3)


@pytest.mark.parametrize("group_count", [0, 1, 300])
def test_groups_without_values_have_no_sum(group_count):
    state = new_state(SUM, group_count)
    assert state.finish().to_pylist() == [None] * group_count
    ids = np.zeros(0, np.uint16)
    state.add(Groups(ids, group_count, 0), [numbers([])])
    state.add(Groups(ids, group_count, 0), [numbers([], object)])
    assert state.finish().to_pylist() == [None] * group_count
    assert state.columns()["sum"].values.tolist() == [0] * group_count


@pytest.mark.parametrize("arrow_type", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("times", [1, 25_000])
@pytest.mark.parametrize("id_type", [np.uint8, np.uint16])
def test_a_null_float_is_no_value_of_its_group(arrow_type, times, id_type):
    values = np.tile(np.array([1.5, 2.5, 0.0, -1.0], arrow_type.to_pandas_dtype()), times)
    groups = Groups(np.tile(np.array([0, 1, 2, 0], id_type), times), 3, 4 * times)
    kind = Primitive("sum", (Column(arrow_type, "x"),))
    for validity, third in ((None, 0.0), (np.tile([True, True, False, True], times), None)):
        state = new_state(kind, 3)
        state.add(groups, [Numbers(values, arrow_type, 0, validity)])
        assert state.finish().to_pylist() == [0.5 * times, 2.5 * times, third]
        one = new_state(kind, 1)
        one.add(Groups(None, 1, 4 * times), [Numbers(values, arrow_type, 0, validity)])
        assert one.finish().to_pylist() == [3.0 * times]
