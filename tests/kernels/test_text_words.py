from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import words as oracle

from projseg.errors import InvalidInputError
from projseg.kernels.texts.text_words import split_words, text_grams
from projseg.segment_format.indexes.text_keys import character_table

CHARACTERS = st.one_of(
    st.sampled_from(
        "aB1_ -'\u0307\u0130\u0131\u212a\u017f\u03c2\u03a3\u00df中文かカไทยﾊ😀\u0345\u023a"
    ),
    st.characters(exclude_categories=["Cs"]),
)
TEXTS = st.lists(st.text(CHARACTERS, max_size=20), max_size=12)


def stored(texts):
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([3, *map(len, encoded)]).astype(np.int32)
    return offsets, np.frombuffer(b"aba" + b"".join(encoded) + b"aba", np.uint8)


def split(texts):
    offsets, content, rows = split_words(*stored(texts), character_table())
    words = [bytes(content[a:b]).decode() for a, b in pairwise(offsets)]
    return [[w for w, row in zip(words, rows, strict=True) if row == i] for i in range(len(texts))]


@given(TEXTS)
def test_words_are_their_oracle(texts):
    assert split(texts) == [oracle.words(text) for text in texts]


@pytest.mark.parametrize("length", [254, 255, 256, 510, 511, 700])
@pytest.mark.parametrize("character", ["a", "é", "ẞ", "Ⱥ", "中", "😀", "𐐀"])
def test_long_runs_are_cut(length, character):
    texts = [character * length, "x" * 254 + character * 3, " b " + character * length + " c"]
    assert split(texts) == [oracle.words(text) for text in texts]


@given(TEXTS)
def test_grams_are_their_oracle(texts):
    grams, rows = text_grams(*stored(texts), character_table())
    found = [grams[rows == i].tolist() for i in range(len(texts))]
    assert found == [oracle.grams(text) for text in texts]


@pytest.mark.parametrize("kernel", [split_words, text_grams])
@pytest.mark.parametrize("content", [b"\xff\xff", b"a\xf0", b"\xc3", b"\xf7\xbf\xbf\xbfa", b"\x80"])
def test_bytes_that_are_no_text_stay_inside_their_arrays(kernel, content):
    offsets = np.array([0, len(content)], np.int32)
    kernel(offsets, np.frombuffer(content, np.uint8), character_table())


@pytest.mark.parametrize("kernel", [split_words, text_grams])
@pytest.mark.parametrize("offsets", [[0, 4], [-1, 2], [2, 1, 3], []])
def test_texts_outside_their_content_are_refused(kernel, offsets):
    with pytest.raises(InvalidInputError, match="outside their content"):
        kernel(np.array(offsets, np.int32), np.zeros(3, np.uint8), character_table())


def test_a_table_of_another_size_is_refused():
    with pytest.raises(InvalidInputError, match="table of 3 characters"):
        split_words(*stored(["a"]), np.zeros(3, np.uint32))
