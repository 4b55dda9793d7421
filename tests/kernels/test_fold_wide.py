"""Folds of integers of 128 bits against Python's integers."""

import folds as oracle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

from projseg.errors import InvalidInputError
from projseg.kernels.fold_wide import LIMB_BITS, extreme_rows, sum_wide_into
from projseg.segment_format.arrow_arrays import as_wide, halves

EDGE = 1 << 127
EDGES = [0, 1, -1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, EDGE - 1, -EDGE]
NUMBERS = st.sampled_from(EDGES) | st.integers(-EDGE, EDGE - 1) | st.integers(-9, 9)
ROWS = st.lists(st.tuples(st.integers(0, 4), st.none() | NUMBERS), min_size=1, max_size=12)


def arrays_of(rows, id_dtype):
    ids = None if id_dtype is None else np.array([group for group, _ in rows], id_dtype)
    validity = np.array([value is not None for _, value in rows])
    values = np.array([value or 0 for _, value in rows], object)
    return ids, halves(as_wide(values)), None if validity.all() else validity


def groups_of(rows, id_dtype):
    return [0 if id_dtype is None else group for group, _ in rows], [value for _, value in rows]


@pytest.mark.parametrize("id_dtype", [None, np.uint8, np.uint16, np.uint32])
def test_limbs_hold_the_sum(id_dtype):
    @given(ROWS, ROWS)
    @settings(max_examples=tries(100), deadline=None)
    def compare(first, second):
        limbs, counts = np.zeros((5, 4), np.int64), np.zeros(5, np.int64)
        for rows in (first, second):
            ids, pairs, validity = arrays_of(rows, id_dtype)
            sum_wide_into(limbs, counts, ids, pairs, validity)
        groups, values = groups_of(first + second, id_dtype)
        sums = [
            sum(limb << LIMB_BITS * place for place, limb in enumerate(row))
            for row in limbs.tolist()
        ]
        assert [total or 0 for total in oracle.total(groups, values, 5)] == sums
        assert oracle.count(groups, values, 5) == counts.tolist()

    compare()


@pytest.mark.parametrize("id_dtype", [None, np.uint8, np.uint16, np.uint32])
def test_the_first_of_the_extreme_rows_is_found(id_dtype):
    @given(ROWS)
    @settings(max_examples=tries(100), deadline=None)
    def compare(rows):
        ids, pairs, validity = arrays_of(rows, id_dtype)
        groups, values = groups_of(rows, id_dtype)
        for is_min, twin in ((True, oracle.smallest), (False, oracle.largest)):
            found = extreme_rows(ids, 5, pairs, validity, is_min=is_min)
            expected = [
                -1
                if best is None
                else next(
                    row
                    for row, each in enumerate(zip(groups, values, strict=True))
                    if each == (group, best)
                )
                for group, best in enumerate(twin(groups, values, 5))
            ]
            assert found.tolist() == expected

    compare()


def test_what_does_not_fit_is_refused():
    pairs = np.zeros((3, 2), np.int64)
    for limbs, counts, given_pairs in [
        (np.zeros((2, 3), np.int64), np.zeros(2, np.int64), pairs),
        (np.zeros((2, 4), np.int64), np.zeros(1, np.int64), pairs),
        (np.zeros((2, 4), np.int64), np.zeros(2, np.int64), np.zeros((3, 1), np.int64)),
    ]:
        with pytest.raises(InvalidInputError, match="do not fit"):
            sum_wide_into(limbs, counts, None, given_pairs)
    with pytest.raises(InvalidInputError, match="do not fit"):
        extreme_rows(None, 1, np.zeros((3, 3), np.int64), is_min=True)
    with pytest.raises(InvalidInputError):
        extreme_rows(np.array([0, 1, 5], np.uint8), 5, pairs, is_min=True)
