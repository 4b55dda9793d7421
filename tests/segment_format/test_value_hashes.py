"""Hashes of dictionaries: equal values hash alike, whatever their type's width and bits."""

import decimal

import numpy as np
import pyarrow as pa
import pytest
import value_hash as oracle
from segment_bytes import build_segment, open_segment

from projseg.evaluation.arrow_vectors import encode_sorted, vector_of_array
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.dictionary_pages import dictionary_hashes, vector_hashes
from projseg.segment_format.vectors import Ids


def hashes(values, arrow_type):
    return dictionary_hashes(Dictionary(pa.array(values, arrow_type))).tolist()


def eight(number):
    return oracle.value_hash(number.to_bytes(8, "little", signed=True))


def test_each_type_hashes_its_stated_bytes():
    assert hashes([None, "", "é"], pa.string()) == [
        0,
        oracle.value_hash(b""),
        oracle.value_hash("é".encode()),
    ]
    assert hashes([False, True], pa.bool_()) == [eight(0), eight(1)]
    for arrow_type in (pa.int8(), pa.int32(), pa.int64()):
        assert hashes([None, -5, 7], arrow_type) == [0, eight(-5), eight(7)]
    assert hashes([3], pa.int32()) == hashes([decimal.Decimal(3)], pa.decimal128(38, 0))
    days = pa.array([16_690], pa.int32()).cast(pa.date32())
    assert dictionary_hashes(Dictionary(days)).tolist() == [eight(16_690)]


def test_only_decimals_that_pass_64_bits_hash_sixteen_bytes():
    wide = (10**30).to_bytes(16, "little", signed=True)
    values = [decimal.Decimal(-1), decimal.Decimal(10**30)]
    assert hashes(values, pa.decimal128(38, 0)) == [eight(-1), oracle.value_hash(wide)]


def test_equal_floats_hash_alike():
    other_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    assert hashes([-0.0], pa.float64()) == hashes([0.0], pa.float64()) == [eight(0)]
    assert hashes(other_nan, pa.float64()) == hashes([np.nan], pa.float64())
    assert hashes([1.5], pa.float32()) == hashes([1.5], pa.float64())


def test_hashes_are_computed_once_and_stored_ones_are_used():
    dictionary = Dictionary(pa.array(["a", "b"]))
    assert dictionary_hashes(dictionary) is dictionary_hashes(dictionary)
    content = build_segment({"x": Ids(np.array([0, 1], np.uint8), dictionary)})
    stored = open_segment(content).dictionary("x")
    assert dictionary_hashes(stored) is stored.stored_hashes
    np.testing.assert_array_equal(stored.stored_hashes, dictionary_hashes(dictionary))


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["b", None, "a", "b", ""]),
        pa.array([3, None, -(2**63), 3]),
        pa.array([0.0, -0.0, None, float("nan")]),
        pa.array([None, 10**30, 7], pa.decimal128(38, 0)),
        pa.array([True, None, False]),
    ],
)
def test_rows_have_the_hashes_of_their_dictionary(array):
    ids = encode_sorted(array)
    expected = [dictionary_hashes(ids.dictionary)[one] for one in ids.ids]
    assert vector_hashes(ids).tolist() == vector_hashes(vector_of_array(array)).tolist() == expected
    assert expected[array.is_null().index(True).as_py()] == 0
