"""The smallest hashes of each group, of rows and of parts, are those of sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from oracle.theta import THETA_MAX, smallest

from projseg.kernels.sketches.sketch_rows import bucket_hashes, merge_smallest

GROUPS = 3
ROWS = st.lists(st.tuples(st.integers(0, GROUPS - 1), st.integers(1, 30)), max_size=40)


@given(ROWS, ROWS, st.integers(1, 12))
def test_merged_buckets_are_the_smallest_hashes_of_both_sides(left, right, size_max):
    thetas = np.full(GROUPS, THETA_MAX, np.uint64)
    sides = []
    for rows in (left, right):
        groups = np.array([group for group, _ in rows], np.uint32)
        hashes = np.array([value for _, value in rows], np.uint64)
        sides.append(bucket_hashes(thetas, groups, None, hashes))
    starts, merged = merge_smallest(thetas, *sides, size_max)
    for group in range(GROUPS):
        kept, theta = smallest({value for at, value in left + right if at == group}, size_max)
        assert merged[starts[group] : starts[group + 1]].tolist() == kept
        assert int(thetas[group]) == theta


@given(ROWS, st.integers(1, 30))
def test_buckets_hold_what_is_below_theta(rows, theta):
    thetas = np.full(1, theta, np.uint64)
    ids = np.array([value for _, value in rows], np.uint8)
    hashes = np.arange(31, dtype=np.uint64)
    starts, buckets = bucket_hashes(thetas, None, ids, hashes)
    expected = sorted(value for _, value in rows if value < theta)
    assert buckets[: starts[1]].tolist() == expected
