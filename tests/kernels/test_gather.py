import numpy as np
import pytest
import selecting as oracle
from hypothesis import given
from hypothesis import strategies as st

from projseg.errors import InvalidInputError
from projseg.kernels.row_selection import gather, gather_text

DTYPES = [np.bool_, np.uint8, np.uint16, np.uint32, np.int64, np.float32, np.float64, object]
TEXTS = st.lists(
    st.one_of(st.binary(max_size=40), st.integers(0, 70).map(lambda n: b"x" * n)), min_size=1
)


@pytest.mark.parametrize("dtype", DTYPES)
@given(st.lists(st.integers(0, 1), min_size=1), st.data())
def test_gathering_is_numpys_take(dtype, values, data):
    row_ids = data.draw(st.lists(st.integers(0, min(len(values), 256) - 1)))
    array = np.array(values, dtype)
    for ids in (
        np.array(row_ids, ids_type) for ids_type in (np.uint8, np.uint16, np.uint32, np.int64)
    ):
        found = gather(array, ids)
        assert found.dtype == array.dtype
        assert found.tolist() == array.take(ids).tolist()


def test_a_row_id_past_the_end_is_refused():
    with pytest.raises(InvalidInputError, match="id 2 is not below 2"):
        gather(np.zeros(2, np.int64), np.array([2], np.uint32))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@given(TEXTS, st.data())
def test_gathered_texts_are_their_oracle(dtype, texts, data):
    ids = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=60))
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    content = np.frombuffer(b"".join(texts), np.uint8)
    found_offsets, found = gather_text(offsets, content, np.array(ids, dtype))
    assert found.tobytes() == oracle.gather_text(texts, ids)
    assert np.diff(found_offsets).tolist() == [len(texts[one]) for one in ids]


def test_texts_outside_are_refused():
    offsets, content = np.array([0, 3], np.int32), np.zeros(3, np.uint8)
    with pytest.raises(InvalidInputError, match="id 1 is not below 1"):
        gather_text(offsets, content, np.array([1], np.uint32))
    with pytest.raises(InvalidInputError, match="texts end after 2 bytes"):
        gather_text(offsets, content[:2], np.array([0], np.uint32))


def test_texts_that_pass_32_bit_offsets_are_left_to_the_caller():
    offsets, content = np.array([0, 1 << 20], np.int32), np.zeros(1 << 20, np.uint8)
    assert gather_text(offsets, content, np.zeros(1 << 11, np.uint8)) is None
