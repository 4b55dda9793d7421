"""Kernels under the encodings against their twins in tests/oracle/page_encodings.py."""

import numpy as np
import page_encodings as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projseg.errors import InvalidInputError
from projseg.kernels.integer_codes import (
    accumulate,
    expand_runs,
    pack_bits,
    page_statistics,
    run_ends,
    unpack_bits,
)
from projseg.kernels.texts.text_bytes import first_disorder, join_texts, shared_prefixes, suffixes

INT64 = st.integers(-(2**63), 2**63 - 1)
OUT_DTYPES = [np.uint8, np.uint16, np.uint32, np.int64]
TEXTS = st.lists(st.binary(max_size=6) | st.sampled_from([b"x" * 254, b"x" * 300]), max_size=12)


def text_parts(texts):
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    return offsets, np.frombuffer(b"".join(texts), np.uint8)


@st.composite
def packable(draw):
    width = draw(st.integers(1, 64))
    count = draw(st.integers(0, 200))
    seed = draw(st.integers(0, 2**32))
    values = np.random.default_rng(seed).integers(0, 2**width, count, np.uint64, endpoint=False)
    return width, values


@given(packable())
def test_packing_is_its_oracle(case):
    width, values = case
    words = pack_bits(values, width)
    assert words.tolist() == oracle.pack_bits(values.tolist(), width)
    assert oracle.unpack_bits(words.tolist(), width, len(values)) == values.tolist()


@given(packable(), INT64, st.sampled_from(OUT_DTYPES))
def test_unpacking_is_its_oracle(case, addend, dtype):
    width, values = case
    dtype = np.int64 if width > 32 else dtype
    words = pack_bits(values, width)
    words.setflags(write=False)
    out = np.zeros(len(values), dtype)
    unpack_bits(words, width, addend, out)
    bits = 8 * out.dtype.itemsize
    unpacked = oracle.unpack_bits(words.tolist(), width, len(out))
    expected = [(value + addend) % 2**bits for value in unpacked]
    assert out.view(f"u{bits // 8}").tolist() == expected


def test_unpacking_refuses_words_that_do_not_fit():
    words = pack_bits(np.arange(8, dtype=np.uint64), 3)
    for width, count, dtype in [(3, 40, np.uint8), (4, 8, np.uint8), (0, 8, np.uint8)]:
        with pytest.raises(InvalidInputError):
            unpack_bits(words, width, 0, np.empty(count, dtype))
    with pytest.raises(InvalidInputError):
        unpack_bits(pack_bits(np.arange(8, dtype=np.uint64), 40), 40, 0, np.empty(8, np.uint8))


@given(st.lists(INT64, min_size=1, max_size=50))
def test_page_statistics_are_their_oracle(values):
    assert page_statistics(np.array(values, np.int64)) == oracle.page_statistics(values)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 9)), max_size=20), st.data())
def test_runs_are_their_oracle(runs, data):
    values = [value for value, _ in runs]
    ends = np.cumsum([length for _, length in runs]).astype(np.int64)
    out = np.zeros(int(ends[-1]) if runs else 0, data.draw(st.sampled_from(OUT_DTYPES)))
    expand_runs(ends, np.array(values, np.int64), out)
    assert out.tolist() == oracle.expand_runs(ends.tolist(), values)
    if runs:
        found = run_ends(out)
        assert oracle.expand_runs(found.tolist(), out[found - 1].tolist()) == out.tolist()


@pytest.mark.parametrize("ends", [[], [3], [5], [2, 2, 4], [0, 4], [3, 2, 4], [-1, 4]])
def test_runs_that_do_not_cover_the_rows_are_refused(ends):
    with pytest.raises(InvalidInputError):
        expand_runs(np.array(ends, np.int64), np.zeros(len(ends), np.int64), np.empty(4, np.uint8))


@given(st.lists(st.integers(0, 255), max_size=50), st.sampled_from(OUT_DTYPES))
def test_accumulating_is_its_oracle(values, dtype):
    array = np.array(values, dtype)
    accumulate(array)
    assert array.tolist() == oracle.accumulate(values, 8 * array.dtype.itemsize)


@given(TEXTS, st.booleans())
def test_order_of_texts_is_its_oracle(texts, is_sorted):
    texts = sorted(set(texts)) if is_sorted else texts
    assert first_disorder(*text_parts(texts)) == oracle.first_disorder(texts)


def joined(pages, nulls):
    """What `join_texts` makes of pages that are coded apart, with something before them."""
    rests, prefixes, lengths, starts = b"..", [], [], []
    for texts in pages:
        offsets, content = text_parts(texts)
        shared = shared_prefixes(offsets, content)
        starts.append(len(rests))
        rests += suffixes(offsets, content, shared).tobytes() + b"."
        prefixes += shared.tolist()
        lengths += (np.diff(offsets) - shared).tolist()
    rows = np.cumsum([0, *map(len, pages)])
    arrays = (np.array(part, np.int64) for part in (starts, rows, prefixes, lengths))
    return join_texts(np.frombuffer(rests, np.uint8), *arrays, np.array(nulls))


@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=4), st.data())
def test_pages_of_texts_are_joined_if_each_ascends(pages, data):
    pages = [sorted(set(texts)) if data.draw(st.booleans()) else texts for texts in pages]
    nulls = [data.draw(st.booleans()) for _ in pages]
    orders = [oracle.first_disorder(page[null:]) for page, null in zip(pages, nulls, strict=True)]
    found = joined(pages, nulls)
    assert (found is None) == any(order >= 0 for order in orders)
    if found is not None:
        offsets, content = text_parts([text for texts in pages for text in texts])
        assert found[0].tolist() == offsets.tolist()
        assert found[1].tobytes() == content.tobytes()


@given(TEXTS)
def test_front_coding_is_its_oracle(texts):
    offsets, content = text_parts(texts)
    prefixes = shared_prefixes(offsets, content)
    assert prefixes.tolist() == oracle.shared_prefixes(texts)
    left = suffixes(offsets, content, prefixes)
    assert left.tobytes() == oracle.suffixes(texts, prefixes.tolist())
    rests = [text[shared:] for text, shared in zip(texts, prefixes.tolist(), strict=True)]
    assert oracle.expand_prefixes(prefixes.tolist(), rests) == texts


@pytest.mark.parametrize(
    ("prefixes", "lengths"),
    [([1], [2]), ([0, 3], [2, 0]), ([0, -1], [2, 0]), ([0], [3]), ([], [2]), ([], []), ([0], [-1])],
)
def test_front_coded_parts_that_do_not_fit_are_refused(prefixes, lengths):
    arrays = [np.array(part, np.int64) for part in (prefixes, lengths)]
    with pytest.raises(InvalidInputError):
        join_texts(
            np.zeros(2, np.uint8),
            np.zeros(1, np.int64),
            np.array([0, len(prefixes)]),
            *arrays,
            np.zeros(1, np.bool_),
        )


@pytest.mark.parametrize("offsets", [[0, 4], [-1, 2], [2, 1], []])
@pytest.mark.parametrize("kernel", [first_disorder, shared_prefixes])
def test_offsets_outside_the_content_are_refused(kernel, offsets):
    with pytest.raises(InvalidInputError):
        kernel(np.array(offsets, np.int64), np.zeros(3, np.uint8))
