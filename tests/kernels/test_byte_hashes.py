"""Hashes of byte strings, and digits of base 2 and 16, against their twins."""

import hashlib
import zlib
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import byte_hashes as oracle
from scale import tries

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.errors import InvalidInputError
from projseg.kernels.byte_hashes import (
    crc32,
    digit_counts,
    java_bytes,
    murmur3,
    number_digits,
    xxhash64,
)
from projseg.kernels.digests import digests
from projseg.segment_format.arrow_arrays import as_wide, halves, text_buffers

CONTENTS = st.lists(st.binary(max_size=40) | st.binary(max_size=200), max_size=20)
SEEDS = st.integers(0, 2**64 - 1) | st.sampled_from([0, 42, 2**64 - 1])
LONGS = st.integers(0, 2**64 - 1) | st.integers(0, 64).flatmap(
    lambda bits: st.integers(max(2**bits - 2, 0), min(2**bits + 1, 2**64 - 1))
)


NEAR_BYTES = st.tuples(st.integers(0, 126), st.integers(-2, 2), st.sampled_from([1, -1])).map(
    lambda parts: parts[2] * (2 ** parts[0] + parts[1])
)


def buffers(contents, kind):
    """The buffers of a slice, with bytes before and after it."""
    return text_buffers(
        pa.array([*contents[:1], *contents, *contents[:1]], kind)[len(contents[:1]) :][
            : len(contents)
        ]
    )


@given(st.lists(st.tuples(st.binary(max_size=90), SEEDS), max_size=20))
@settings(max_examples=tries(500), deadline=None)
def test_hashes_are_their_twins(rows):
    texts = buffers([content for content, _ in rows], pa.binary())
    seeds = np.array([seed for _, seed in rows], np.uint64)
    assert xxhash64(*texts, seeds).tolist() == [oracle.xxhash64(*row) for row in rows]
    low = seeds & np.uint64(0xFFFFFFFF)
    expected = [oracle.murmur3(content, seed & 0xFFFFFFFF) for content, seed in rows]
    assert murmur3(*texts, low).tolist() == expected
    assert crc32(*texts).tolist() == [zlib.crc32(content) for content, _ in rows]


DIGESTS = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"]


@given(st.lists(st.binary(max_size=40) | st.binary(max_size=300), max_size=8))
@settings(max_examples=tries(200), deadline=None)
def test_digests_are_those_of_hashlib(contents):
    texts = buffers(contents, pa.binary())
    for algorithm in DIGESTS:
        expected = [hashlib.new(algorithm, one).digest() for one in contents]
        assert [one.tobytes() for one in digests(*texts, algorithm)] == expected


@pytest.mark.parametrize("algorithm", DIGESTS)
def test_digests_of_every_size_around_the_blocks(algorithm):
    contents = [bytes(range(256))[:size] for size in range(256)]
    found = digests(*text_buffers(pa.array(contents, pa.binary())), algorithm)
    assert [one.tobytes() for one in found] == [
        hashlib.new(algorithm, one).digest() for one in contents
    ]


@given(st.lists(st.tuples(LONGS, st.booleans()), max_size=20), st.sampled_from([1, 4]))
@settings(max_examples=tries(300), deadline=None)
def test_digits_are_their_twins(rows, bits):
    values = np.array([value for value, _ in rows], np.uint64)
    expected = [oracle.digits(value, bits) if is_kept else "" for value, is_kept in rows]
    counts = np.where([is_kept for _, is_kept in rows], digit_counts(values, bits), 0)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    content = number_digits(values, bits, offsets).tobytes().decode()
    assert [content[a:b] for a, b in pairwise(offsets)] == expected


@given(st.lists(st.integers(-(2**127), 2**127 - 1) | NEAR_BYTES, max_size=20))
@settings(max_examples=tries(500), deadline=None)
def test_bytes_of_numbers_are_their_twins(numbers):
    offsets, content = java_bytes(halves(as_wide(np.array(numbers, object))))
    pieces = [content[a:b].tobytes() for a, b in pairwise(offsets)]
    assert pieces == [oracle.java_bytes(number) for number in numbers]


@given(st.lists(st.none() | st.integers(-(2**126), 2**126) | st.integers(-300, 300), max_size=20))
@settings(max_examples=tries(200), deadline=None)
def test_a_great_decimal_is_hashed_as_the_bytes_of_its_digits(values):
    array = pa.array([None if v is None else f"{v % 10**38}" for v in values], pa.string())
    array = array.cast(pa.decimal128(38, 0))
    schema = pa.schema([("w", array.type)])
    numbers = [None if v is None else int(v) for v in array.to_pylist()]
    hashes = evaluate(bind("hash(w)", schema), {"w": array}, len(array))
    longs = evaluate(bind("xxhash64(w)", schema), {"w": array}, len(array))
    for number, of_int, of_long in zip(numbers, hashes.to_pylist(), longs.to_pylist(), strict=True):
        content = b"" if number is None else oracle.java_bytes(number)
        by_murmur = 42 if number is None else oracle.murmur3(content, 42)
        by_xxhash = 42 if number is None else oracle.xxhash64(content, 42)
        assert (of_int % 2**32, of_long % 2**64) == (by_murmur, by_xxhash)


def test_what_does_not_fit_is_refused():
    with pytest.raises(InvalidInputError, match="outside their content"):
        crc32(np.array([0, 4], np.int32), np.zeros(3, np.uint8))
    with pytest.raises(InvalidInputError, match="not a seed"):
        murmur3(np.array([0, 1], np.int32), np.zeros(3, np.uint8), np.zeros(2, np.uint64))
    with pytest.raises(InvalidInputError, match="no halves"):
        java_bytes(np.zeros((2, 3), np.int64))
    with pytest.raises(InvalidInputError, match="do not fit"):
        number_digits(np.zeros(2, np.uint64), 1, np.array([0, 1], np.int32))
