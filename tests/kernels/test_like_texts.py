import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import selecting as oracle

from projseg.errors import InvalidInputError
from projseg.kernels.texts.like_texts import ANY, ONE, like_rows

CHARACTERS = st.sampled_from("abé€😀")
PATTERNS = st.lists(st.one_of(CHARACTERS, CHARACTERS, st.sampled_from([ONE, ANY])), max_size=7)
TEXTS = st.lists(st.text(CHARACTERS, max_size=12), max_size=20)


def matched(texts, pattern):
    stored = [text.encode() for text in texts]
    offsets = np.cumsum([3, *map(len, stored)]).astype(np.int32)
    content = np.frombuffer(b"aba" + b"".join(stored) + b"aba", np.uint8)
    codes = []
    for part in pattern:
        codes.extend([part] if isinstance(part, int) else part.encode())
    return like_rows(offsets, content, codes).tolist()


@given(TEXTS, PATTERNS)
def test_matches_are_their_oracle(texts, pattern):
    assert matched(texts, pattern) == [oracle.like(text, pattern) for text in texts]


@given(TEXTS, st.text(CHARACTERS, min_size=1, max_size=3), st.integers(0, 4_000))
def test_texts_that_hold_a_part_are_found_wherever_they_lie(texts, part, shift):
    texts = ["b" * shift, *texts, "a" * 200, part] * 3
    assert matched(texts, [ANY, *part, ANY]) == [part in text for text in texts]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))), st.integers(0, 20))
def test_one_text_is_told_from_those_of_its_size_and_ending(places, size):
    wanted = "abcdefghijklmnopqrst"[:size]
    texts = [wanted, wanted[1:], "a" + wanted, *(wanted[:a] + "é" + wanted[b:] for a, b in places)]
    texts += [wanted[:a] + "-" + wanted[a + 1 :] for a, _ in places]
    assert matched(texts, wanted) == [text == wanted for text in texts]


@pytest.mark.parametrize("offsets", [[0, 4], [-1, 2], [2, 1, 3], []])
def test_texts_outside_their_content_are_refused(offsets):
    with pytest.raises(InvalidInputError, match="outside their content"):
        like_rows(np.array(offsets, np.int32), np.zeros(3, np.uint8), [97])
