"""Which texts get a dictionary, and how many texts are brought into another order."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projseg.segment_format import vectors
from projseg.segment_format.vectors import Ids, Opaque
from projseg.writer import column_vectors
from projseg.writer.column_vectors import text_vector

ROWS = 20_000


def shuffled(values):
    return np.random.default_rng(7).permutation(np.array(values, object)).tolist()


@pytest.mark.parametrize("share", [0.05, 0.69, 0.71, 1.0])
@pytest.mark.parametrize("are_sorted", [True, False])
@pytest.mark.parametrize("nulls", [0, 100])
def test_texts_that_repeat_get_a_dictionary(share, are_sorted, nulls):
    distinct = int(share * ROWS)
    texts = [f"text {number % distinct:06}" for number in range(ROWS - nulls)]
    texts = sorted(texts) if are_sorted else shuffled(texts)
    rows = pa.chunked_array([texts[:5000], [None] * nulls, texts[5000:]], pa.string())
    found = text_vector(rows, wants_dictionary=False)
    assert type(found) is (Ids if share <= 0.7 else Opaque)
    assert found.to_arrow().to_pylist() == rows.to_pylist()


def test_texts_that_hardly_repeat_are_never_put_into_a_dictionary(monkeypatch):
    monkeypatch.setattr(column_vectors, "encode_sorted", None)
    rows = pa.chunked_array([[f"text {number % 16_000}" for number in range(ROWS)]])
    assert isinstance(text_vector(rows, wants_dictionary=False), Opaque)


def test_texts_to_sort_or_group_by_get_a_dictionary():
    rows = pa.chunked_array([[str(number) for number in range(ROWS)]])
    assert isinstance(text_vector(rows, wants_dictionary=True), Ids)


@given(
    st.lists(st.one_of(st.none(), st.binary(max_size=20)), min_size=1),
    st.integers(0, 3),
    st.data(),
)
def test_many_texts_are_taken_as_arrow_takes_them(texts, start, data):
    array = pa.array(texts, pa.binary())[start:]
    limit = max(len(array) - 1, 0)
    row_ids = data.draw(st.lists(st.integers(0, limit), max_size=30 if len(array) else 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "_MANY_TEXTS", 0)
        taken = Opaque(array).take(np.array(row_ids, np.uint32)).to_arrow()
    taken.validate(full=True)
    assert taken.to_pylist() == [array[one].as_py() for one in row_ids]
