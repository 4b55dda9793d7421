"""Dictionaries made of arrays and of other dictionaries: in order, null first, NaN last."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from segment_columns import TYPES, arrays

from projseg.aggregation.groups import group_rows
from projseg.aggregation.keys import make_key
from projseg.algebra.expressions.functions.datum import plain_floats
from projseg.evaluation.arrow_vectors import (
    concat_vectors,
    encode_sorted,
    grouping_vector,
    merge_values,
)
from projseg.segment_format.dictionary import Dictionary, order_problem
from projseg.segment_format.logical_types import is_nested
from projseg.segment_format.vectors import Ids, Numbers, Opaque

FLAT = [arrow_type for arrow_type in TYPES if not is_nested(arrow_type)]


def texts(array):
    """Values that can be compared, NaN with itself too."""
    return [repr(value) for value in array.to_pylist()]


@pytest.mark.parametrize("arrow_type", FLAT, ids=str)
@given(data=st.data(), with_null=st.booleans())
def test_a_dictionary_of_lists_is_in_order_and_gives_them_back(arrow_type, data, with_null):
    lists = data.draw(st.lists(arrays(arrow_type, 12), min_size=1, max_size=3))
    dictionary, ids = merge_values(lists, with_null=with_null)
    assert order_problem(dictionary.values) is None
    assert dictionary.has_null == (with_null or any(values.null_count for values in lists))
    for values, positions in zip(lists, ids, strict=True):
        assert texts(Ids(positions, dictionary).to_arrow()) == texts(plain_floats(values))


@pytest.mark.parametrize("arrow_type", TYPES, ids=str)
def test_only_text_and_void_are_grouped_by_ids_made_for_it(arrow_type):
    is_ids = pa.types.is_null(arrow_type) or arrow_type in (pa.string(), pa.binary())
    expected = Ids if is_ids else Opaque if is_nested(arrow_type) else Numbers
    for array in (pa.nulls(2, arrow_type), pa.chunked_array([pa.nulls(2, arrow_type)])):
        assert type(grouping_vector(array)) is expected


def test_chunks_are_encoded_as_one_array():
    chunks = [["b", None], [], ["a", "b"]]
    found = encode_sorted(pa.chunked_array(chunks, pa.string()))
    assert found.ids.tolist() == [2, 0, 1, 2]
    assert found.dictionary.values.to_pylist() == [None, "a", "b"]


def test_dictionaries_of_floats_of_several_segments_group_nan_last():
    """A writer need not make such columns, and a reader reads them."""
    nan = math.nan
    parts = [[None, 1.0, nan], [-5.0, 1.0, math.inf, nan]]
    vectors = [
        Ids(np.arange(len(values), dtype=np.uint8), Dictionary(pa.array(values, pa.float64())))
        for values in parts
    ]
    together = concat_vectors(vectors)
    assert texts(together.to_arrow()) == texts(pa.array([*parts[0], *parts[1]], pa.float64()))
    grouped = group_rows([make_key(together)], len(together), in_order=True)
    (keys,) = grouped.key_vectors(grouped.occupied())
    assert texts(keys.to_arrow()) == texts(pa.array([None, -5.0, 1.0, math.inf, nan]))
