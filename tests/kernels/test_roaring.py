"""Roaring bitmaps: ours and pyroaring's are the same bytes, and nothing else is accepted."""

import struct

import numpy as np
import pytest
import roaring as oracle
from hypothesis import given
from hypothesis import strategies as st

from projseg.errors import InvalidInputError
from projseg.kernels.roaring_build import bitmap_sizes, postings, write_bitmaps
from projseg.kernels.roaring_check import BitmapCheck
from projseg.kernels.roaring_read import MALFORMED, bitmap_count, read_bitmap


def build(ids, cardinality):
    rows = postings(np.asarray(ids), cardinality)
    sizes = bitmap_sizes(rows)
    content = write_bitmaps(rows, sizes)
    ends = np.cumsum(sizes)
    pieces = [content[end - size : end].tobytes() for end, size in zip(ends, sizes, strict=True)]
    return rows, pieces


def frozen(content):
    return np.frombuffer(bytes(content), np.uint8)


def decoded(content, row_count):
    found = read_bitmap(frozen(content), row_count)
    assert found is not None
    assert len(found) == bitmap_count(frozen(content), row_count)
    return found


@given(st.lists(st.integers(0, 9), max_size=300))
def test_postings_are_their_oracle(ids):
    rows, _ = build(np.array(ids, np.uint8), 10)
    found = [rows.row_ids[rows.starts[i] : rows.starts[i + 1]].tolist() for i in range(10)]
    assert found == oracle.postings(ids, 10)


def test_postings_refuse_an_id_out_of_range():
    with pytest.raises(InvalidInputError):
        postings(np.array([0, 3], np.uint8), 3)


def column(pattern, row_count, seed=0):
    rng = np.random.default_rng(seed)
    match pattern:
        case "random":
            return rng.integers(0, 5, row_count)
        case "sparse":
            return (rng.random(row_count) < 0.001).astype(np.int64)
        case "sorted":
            return np.sort(rng.integers(0, 40, row_count))
        case "one":
            return np.zeros(row_count, np.int64)
        case "runs":
            return np.repeat(rng.integers(0, 3, row_count // 50 + 1), 50)[:row_count]
    return np.arange(row_count) // 65_536 % 2


@pytest.mark.parametrize("pattern", ["random", "sparse", "sorted", "one", "runs", "containers"])
@pytest.mark.parametrize("row_count", [0, 1, 4096, 4097, 65_535, 65_536, 65_537, 400_000])
def test_bitmaps_are_the_bytes_pyroaring_writes(pattern, row_count):
    ids = column(pattern, row_count).astype(np.uint32)
    _, pieces = build(ids, 41)
    for value, content in enumerate(pieces):
        row_ids = np.flatnonzero(ids == value)
        assert content == oracle.bitmap(row_ids)
        np.testing.assert_array_equal(decoded(content, row_count), row_ids)


row_sets = st.one_of(
    st.sets(st.integers(0, 2**18), max_size=50),
    st.builds(
        lambda start, length, step: set(range(start, start + length * step, step)),
        st.integers(0, 70_000),
        st.integers(0, 10_000),
        st.integers(1, 9),
    ),
)


@given(row_sets)
def test_bitmaps_of_pyroaring_are_read(row_ids):
    expected = sorted(row_ids)
    assert decoded(oracle.bitmap(expected), 2**20).tolist() == expected


@given(row_sets.filter(bool))
def test_a_row_id_at_the_row_count_is_refused(row_ids):
    content = frozen(oracle.bitmap(sorted(row_ids)))
    assert bitmap_count(content, max(row_ids)) == MALFORMED
    assert bitmap_count(content, max(row_ids) + 1) == len(row_ids)


@given(row_sets, st.data())
def test_any_changed_byte_is_another_set_or_refused(row_ids, data):
    content = bytearray(oracle.bitmap(sorted(row_ids)))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    count = bitmap_count(frozen(content), 2**32)
    if count != MALFORMED:
        found = decoded(content, 2**32)
        assert found.tolist() != sorted(row_ids)
        assert (np.diff(found.astype(np.int64)) > 0).all()
        assert oracle.bitmap(found) == bytes(content), "only one form of a set is accepted"


@given(row_sets, st.data())
def test_truncated_and_lengthened_bitmaps_are_refused(row_ids, data):
    content = oracle.bitmap(sorted(row_ids))
    kept = data.draw(st.integers(0, len(content) - 1))
    assert bitmap_count(frozen(content[:kept]), 2**32) == MALFORMED
    assert bitmap_count(frozen(content + b"\0"), 2**32) == MALFORMED


@pytest.mark.parametrize(("keys", "is_read"), [([0, 1], True), ([1, 1], False), ([2, 1], False)])
def test_containers_ascend_strictly(keys, is_read):
    header = struct.pack("<II", 12346, 2)
    described = b"".join(struct.pack("<HH", key, 0) for key in keys)
    offsets = struct.pack("<II", 24, 26)
    content = header + described + offsets + struct.pack("<HH", 5, 6)
    assert (bitmap_count(frozen(content), 2**20) == 2) == is_read


def test_runs_that_should_be_an_array_are_refused():
    one_run_of_one_value = bytes.fromhex("3b30 0000 01 0000 0000 0100 0500 0000".replace(" ", ""))
    assert bitmap_count(frozen(one_run_of_one_value), 100) == MALFORMED


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_a_set(content):
    count = bitmap_count(frozen(content), 2**32)
    assert count == MALFORMED or oracle.bitmap(decoded(content, 2**32)) == content


def check_of(pieces, row_count):
    starts = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])])
    return BitmapCheck(frozen(b"".join(pieces)), starts.astype(np.int64), row_count)


def all_pages_agree(pieces, ids):
    check = check_of(pieces, len(ids))
    assert check.malformed_id() is None
    starts = range(0, len(ids), 65_536)
    return all(check.agrees(at, ids[s : s + 65_536]) for at, s in enumerate(starts))


PATTERNS = ["random", "sparse", "sorted", "one", "runs"]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("row_count", [0, 1, 65_536, 150_000])
def test_bitmaps_agree_with_the_ids_they_were_built_from(pattern, row_count):
    ids = column(pattern, row_count).astype(np.uint32)
    _, pieces = build(ids, 41)
    assert all_pages_agree(pieces, ids)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("row", [0, 65_535, 65_536, 149_999])
def test_bitmaps_disagree_with_ids_that_differ_in_one_row(pattern, row):
    """The oracle: the row ids of each bitmap, against the postings of the other ids."""
    ids = column(pattern, 150_000).astype(np.uint32)
    _, pieces = build(ids, 41)
    other = ids.copy()
    other[row] = (ids[row] + 1) % 41
    assert not all_pages_agree(pieces, other)
    for changed in (int(ids[row]), int(other[row])):
        wanted = np.flatnonzero(other == changed)
        assert oracle.row_ids(pieces[changed]).tolist() != wanted.tolist()


def test_bitmaps_that_lack_a_row_or_share_one_disagree():
    ids = np.repeat([0, 1], 40_000).astype(np.uint32)
    _, (zeros, ones) = build(ids, 2)
    lacking = oracle.bitmap(range(1, 40_000))
    sharing = oracle.bitmap(range(39_999, 80_000))
    assert all_pages_agree([zeros, ones], ids)
    assert not all_pages_agree([lacking, ones], ids)
    assert not all_pages_agree([zeros, sharing], ids)
    assert not all_pages_agree([ones, zeros], ids)


def test_a_malformed_bitmap_is_named():
    _, pieces = build(np.array([0, 1, 2, 1], np.uint32), 3)
    assert check_of(pieces, 4).malformed_id() is None
    assert check_of(pieces, 3).malformed_id() == 1
    assert check_of([pieces[0], pieces[1][:-1], pieces[2]], 4).malformed_id() == 1


def test_bitmaps_that_do_not_fill_their_bytes_are_refused():
    for starts in ([0, 9], [1, 8], [0, 9, 8]):
        with pytest.raises(InvalidInputError):
            BitmapCheck(frozen(bytes(8)), np.array(starts, np.int64), 1)
