"""Value hashes: equal to their definition, and what Apache DataSketches would store."""

import numpy as np
import pytest
import value_hash as oracle
from hypothesis import given
from hypothesis import strategies as st

from projseg.errors import InvalidInputError
from projseg.kernels.sketches.value_hash import hash_bytes, hash_int64

datasketches = pytest.importorskip("datasketches")

INT64 = st.integers(-(2**63), 2**63 - 1)


def text_parts(texts):
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    return offsets, np.frombuffer(b"".join(texts), np.uint8)


def coupon_of_datasketches(value):
    """The coupon a sketch of one value stores, from its list form."""
    sketch = datasketches.hll_sketch(21)
    sketch.update(value)
    return int.from_bytes(sketch.serialize_compact()[8:12], "little")


@given(st.lists(st.binary(max_size=70), max_size=8))
def test_hash_of_bytes_is_its_oracle(texts):
    assert hash_bytes(*text_parts(texts)).tolist() == [oracle.value_hash(text) for text in texts]


@given(st.lists(INT64, max_size=20))
def test_hash_of_integers_is_its_oracle(values):
    expected = [oracle.value_hash(value.to_bytes(8, "little", signed=True)) for value in values]
    assert hash_int64(np.array(values, np.int64)).tolist() == expected


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=40), INT64)
def test_upper_half_is_the_coupon_of_datasketches(text, number):
    text_hash = int(hash_bytes(*text_parts([text.encode()]))[0])
    assert text_hash >> 32 == coupon_of_datasketches(text)
    assert int(hash_int64(np.array([number]))[0]) >> 32 == coupon_of_datasketches(number)


def test_golden_values():
    texts = hash_bytes(*text_parts([b"", b"a", "zażółć".encode()]))
    assert texts.tolist() == [741154097681975449, 304980540308832937, 728346576300449622]
    integers = hash_int64(np.array([0, 1, -1]))
    assert integers.tolist() == [343073789086557303, 503262053381922533, 857765138246656774]


def test_offsets_outside_the_content_are_refused():
    for offsets in ([0, 4], [-1, 2], [2, 1], []):
        with pytest.raises(InvalidInputError):
            hash_bytes(np.array(offsets, np.int64), np.zeros(3, np.uint8))
