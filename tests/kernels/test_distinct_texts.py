import numpy as np
import pytest
import selecting as oracle
from hypothesis import given
from hypothesis import strategies as st

from projseg.errors import InvalidInputError
from projseg.kernels.texts.text_groups import KEPT_MAX, DistinctTexts

TEXT = st.one_of(st.binary(max_size=40), st.integers(0, 40).map(lambda n: b"x" * n))


def counted(*pieces):
    found = DistinctTexts()
    for texts in pieces:
        offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
        found.add(offsets, np.frombuffer(b"".join(texts), np.uint8))
    return found.count


@given(st.lists(st.lists(TEXT, max_size=30), max_size=3))
def test_few_texts_are_counted_exactly(pieces):
    assert counted(*pieces) == oracle.distinct_texts([text for piece in pieces for text in piece])


@pytest.mark.parametrize("spread", [1, 3, 40])
def test_many_texts_are_estimated_closely(spread):
    texts = [b"%d and more" % (number // spread) for number in range(100_000)]
    exact = oracle.distinct_texts(texts)
    found = counted(texts[:1000], texts[1000:])
    assert found == exact if exact <= KEPT_MAX else abs(found - exact) < 0.05 * exact


def test_one_text_of_half_the_rows_does_not_sway_the_estimate():
    texts = [b"" if number % 2 else b"%d" % number for number in range(100_000)]
    assert abs(counted(texts) - 50_001) < 2_500


@pytest.mark.parametrize("offsets", [[], [0, 4], [2, 1, 3], [-1, 2]])
def test_offsets_outside_are_refused(offsets):
    with pytest.raises(InvalidInputError, match="outside their content"):
        DistinctTexts().add(np.array(offsets, np.int64), np.zeros(3, np.uint8))
