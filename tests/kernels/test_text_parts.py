"""Kernels of texts against Python's own functions, a row at a time."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import texts as oracle

from projseg.algebra.expressions.functions.text_cases import _tables
from projseg.errors import InvalidInputError
from projseg.kernels.texts import text_changes, text_parts, text_sets
from projseg.kernels.texts.like_texts import like_pairs

# One or two letters of each size, letters that become several in another case, sigmas, what is
# ignored beside them, spaces, digits, signs of patterns.
LETTERS = "aabAé€中😀𐐀ßŉΐﬃİΣσ'\u0301🏻\U000e0020 \t,%_\\09F"
TEXT = st.text(
    st.one_of(st.sampled_from(LETTERS), st.characters(exclude_categories=["Cs"])), max_size=9
)
SHORT = st.text(st.sampled_from("ab,é€😀%_\\"), max_size=3)
NUMBER = st.one_of(st.integers(-7, 12), st.sampled_from([-(2**31), 2**31 - 1]))
MOST = 1 << 20


@st.composite
def columns(draw, *values):
    """A column for each strategy: of one length, or of one value for all rows."""
    count = draw(st.integers(1, 7))
    sizes = [draw(st.sampled_from([1, count])) for _ in values]
    if count not in sizes:
        sizes[0] = count
    return [
        draw(st.lists(value, min_size=size, max_size=size))
        for value, size in zip(values, sizes, strict=True)
    ]


def stored(texts):
    """Texts as a slice of an array holds them: others lie before and after them."""
    encoded = [text if isinstance(text, bytes) else text.encode() for text in texts]
    offsets = np.cumsum([3, *map(len, encoded)]).astype(np.int32)
    return offsets, np.frombuffer(b"\xf0ba" + b"".join(encoded) + b"\x80ba", np.uint8)


def rows(*given):
    """The rows of columns of which some have one value for all."""
    count = max(map(len, given))
    return [*zip(*(one * count if len(one) == 1 else one for one in given), strict=True)]


def cut(texts, spans):
    content = stored(texts)[1].tobytes()
    return [
        content[a : a + size].decode() for a, size in zip(*(s.tolist() for s in spans), strict=True)
    ]


def written(found):
    offsets, content = found
    return [content[a:b].tobytes() for a, b in pairwise(offsets.tolist())]


def numbers(values):
    return np.array(values, np.int64)


def checked(texts, valid, expected, write):
    """What a kernel writes is what is expected, however little room it has at first."""
    found = write(np.array(valid), MOST)
    encoded = [one.encode() if isinstance(one, str) else one for one in expected]
    wanted = [one if ok else b"" for one, ok in zip(encoded, valid, strict=True)]
    assert written(found) == wanted
    size = sum(map(len, wanted))
    assert size == 0 or write(np.array(valid), size - 1) is None


@given(columns(TEXT, NUMBER, NUMBER))
def test_substrings_are_their_oracle(given):
    texts, positions, lengths = given
    spans = text_parts.substring_rows(
        stored(texts), numbers(positions), numbers(lengths), text_parts.CHARACTERS
    )
    assert cut(texts, spans) == [oracle.substring(*row) for row in rows(*given)]
    of_bytes = text_parts.substring_rows(
        stored(texts), numbers(positions), numbers(lengths), text_parts.BYTES
    )
    content = stored(texts)[1].tobytes()
    found = [content[a : a + size] for a, size in zip(*of_bytes, strict=True)]
    assert found == [oracle.substring(text.encode(), *rest) for text, *rest in rows(*given)]


@given(columns(TEXT, SHORT), st.integers(1, 3))
def test_trimmed_texts_are_their_oracle(given, sides):
    texts, letters = given
    spans = text_parts.trimmed_rows(stored(texts), stored(letters), sides)
    assert cut(texts, spans) == [oracle.trimmed(*row, sides) for row in rows(*given)]


@given(columns(st.text("ab,é", max_size=12), SHORT, NUMBER.filter(bool)))
def test_parts_between_delimiters_are_their_oracle(given):
    texts, delimiters, indexes = given
    spans = text_parts.split_rows(stored(texts), stored(delimiters), numbers(indexes))
    assert cut(texts, spans) == [oracle.split_part(*row) for row in rows(*given)]


@given(columns(st.text("aabé😀", max_size=12), st.text("aabé😀", max_size=5), NUMBER))
def test_positions_are_their_oracle(given):
    texts, parts, starts = given
    found = text_parts.found_rows(stored(texts), stored(parts), numbers(starts))
    assert found.tolist() == [oracle.position(*row) for row in rows(*given)]


@given(columns(st.text("aabé😀", max_size=12), st.text("aabé😀", max_size=5)), st.integers(0, 2))
def test_texts_that_hold_a_part_are_their_oracle(given, place):
    texts, parts = given
    found = text_parts.holding_rows(stored(texts), stored(parts), place)
    assert found.tolist() == [oracle.holds(*row, place) for row in rows(*given)]


@given(st.lists(TEXT, max_size=7))
def test_first_codes_are_their_oracle(texts):
    assert text_parts.first_codes(stored(texts)).tolist() == [*map(oracle.first_code, texts)]


@given(columns(TEXT, SHORT | TEXT, TEXT), st.data())
def test_replaced_texts_are_their_oracle(given, data):
    texts, searched, instead = given
    expected = [oracle.replaced(*row) for row in rows(*given)]
    valid = data.draw(masks(len(expected)))
    arguments = stored(texts), stored(searched), stored(instead)
    checked(texts, valid, expected, lambda v, m: text_changes.replaced_rows(*arguments, v, m))


@given(columns(TEXT, SHORT | TEXT, TEXT), st.data())
def test_translated_texts_are_their_oracle(given, data):
    texts, letters, instead = given
    expected = [oracle.translated(*row) for row in rows(*given)]
    valid = data.draw(masks(len(expected)))
    arguments = stored(texts), stored(letters), stored(instead)
    found = text_changes.translated_rows(*arguments, np.array(valid), MOST)
    wanted = [one.encode() if ok else b"" for one, ok in zip(expected, valid, strict=True)]
    assert written(found) == wanted


def masks(count):
    return st.lists(st.sampled_from([True, True, True, False]), min_size=count, max_size=count)


@given(columns(TEXT, st.integers(-3, 40), SHORT), st.data(), st.booleans())
def test_padded_texts_are_their_oracle(given, data, is_left):
    texts, lengths, pads = given
    expected = [oracle.padded(*row, is_left) for row in rows(*given)]
    valid = data.draw(masks(len(expected)))

    def write(unit):
        return lambda v, m: text_changes.padded_rows(
            stored(texts), numbers(lengths), stored(pads), v, unit=unit, is_left=is_left, most=m
        )

    checked(texts, valid, expected, write(text_parts.CHARACTERS))
    encoded = [(a.encode(), n, b.encode()) for a, n, b in rows(*given)]
    of_bytes = [oracle.padded(*row, is_left) for row in encoded]
    checked(texts, valid, of_bytes, write(text_parts.BYTES))


BOUNDS = st.lists(
    st.sampled_from([0, 44, 45, 97, 98, 128, 233, 234, 8364, 0x10000, 0x110000]),
    max_size=5,
    unique=True,
).map(sorted)


@given(st.lists(TEXT, min_size=1, max_size=5), BOUNDS, SHORT, st.booleans(), st.data())
def test_replaced_runs_are_their_oracle(texts, bounds, instead, is_run, data):
    valid = data.draw(masks(len(texts)))
    expected = [oracle.replaced_runs(text, bounds, instead, is_run) for text in texts]
    members = text_sets.character_set(bounds)
    content = np.frombuffer(instead.encode(), np.uint8)

    def write(v, m):
        return text_sets.replaced_runs(stored(texts), members, content, v, is_run=is_run, most=m)

    checked(texts, valid, expected, write)


@given(st.lists(TEXT, max_size=5), BOUNDS, st.integers(-1, 4), st.booleans())
def test_parts_between_runs_are_their_oracle(texts, bounds, limit, is_run):
    members = text_sets.character_set(bounds)
    ends, spans = text_sets.split_runs(stored(texts), members, limit, is_run=is_run)
    parts = cut(texts, spans)
    found = [parts[a:b] for a, b in pairwise(ends.tolist())]
    assert found == [oracle.split_runs(text, bounds, limit, is_run) for text in texts]


CASES = [("lower", "lower"), ("upper", "upper"), ("title", "lower")]


@pytest.mark.parametrize(("first", "others"), CASES)
@given(st.lists(TEXT, min_size=1, max_size=5), st.data())
def test_cases_of_letters_are_their_oracle(first, others, texts, data):
    known = _tables()
    tables = getattr(known, first), getattr(known, others)
    expected = [oracle.cased(text, first, others) for text in texts]
    valid = data.draw(masks(len(texts)))
    found = text_changes.cased_rows(stored(texts), tables, known.several, np.array(valid), MOST)
    wanted = [one.encode() if ok else b"" for one, ok in zip(expected, valid, strict=True)]
    assert written(found) == wanted


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5), st.data())
def test_letters_for_bytes_are_their_oracle(contents, data):
    valid = data.draw(masks(len(contents)))
    expected = [*map(oracle.in_base64, contents)]
    found = text_changes.base64_rows(stored(contents), np.array(valid), MOST)
    assert written(found) == [one if ok else b"" for one, ok in zip(expected, valid, strict=True)]


@given(st.lists(st.text("09afAF", max_size=9) | TEXT, min_size=1, max_size=5), st.data())
def test_bytes_of_digits_are_their_oracle(texts, data):
    valid = data.draw(masks(len(texts)))
    *found, is_hex = text_changes.unhexed_rows(stored(texts), np.array(valid))
    expected = [oracle.from_hex(t) if ok else None for t, ok in zip(texts, valid, strict=True)]
    assert [o if ok else None for o, ok in zip(written(found), is_hex, strict=True)] == expected


PATTERN = st.lists(
    st.sampled_from(["a", "b", "é", "😀", "%", "%", "_", "\\%", "\\_", "\\\\", "\\a"]), max_size=6
).map("".join)


@given(columns(st.text("aabé😀%_\\", max_size=8), PATTERN | SHORT), st.data())
def test_patterns_of_rows_are_their_oracle(given, data):
    expected = [oracle.like(*row) for row in rows(*given)]
    valid = data.draw(masks(len(expected)))
    found, wrong = like_pairs(stored(given[0]), stored(given[1]), np.array(valid))
    wanted = [one if ok else False for one, ok in zip(expected, valid, strict=True)]
    assert wrong == (wanted.index(None) if None in wanted else -1)
    if wrong < 0:
        assert found.tolist() == wanted


ODD_BYTES = [b"\xff\xff", b"a\xf0", b"\xc3", b"\xf7\xbf\xbf\xbfa", b"\x80", b"\xef"]


@pytest.mark.parametrize("content", ODD_BYTES)
@pytest.mark.parametrize("other", [*ODD_BYTES, b"", b"a"])
def test_bytes_that_are_no_text_stay_inside_their_arrays(content, other):
    valid, known, other_bytes = np.ones(1, np.bool_), _tables(), np.zeros(1, np.uint8)
    texts, others, one = stored([content]), stored([other]), numbers([1])
    text_parts.substring_rows(texts, numbers([-1]), one, text_parts.CHARACTERS)
    text_parts.trimmed_rows(texts, others, 3)
    text_parts.split_rows(texts, others, one)
    text_parts.found_rows(texts, others, one)
    text_parts.holding_rows(texts, others, 2)
    text_parts.first_codes(texts)
    text_changes.replaced_rows(texts, others, texts, valid, MOST)
    text_changes.translated_rows(texts, others, others, valid, MOST)
    text_changes.translated_rows(texts, texts, others, valid, MOST)
    text_changes.padded_rows(
        texts, numbers([9]), others, valid, unit=text_parts.CHARACTERS, is_left=True, most=MOST
    )
    text_changes.cased_rows(texts, (known.title, known.lower), known.several, valid, MOST)
    text_changes.unhexed_rows(texts, valid)
    members = text_sets.character_set([97, 128, 8364])
    text_sets.replaced_runs(texts, members, other_bytes, valid, is_run=True, most=MOST)
    text_sets.split_runs(texts, members, 0, is_run=True)
    like_pairs(texts, others, valid)


@pytest.mark.parametrize("offsets", [[0, 9], [-1, 2], [2, 1, 3], []])
def test_texts_outside_their_content_are_refused(offsets):
    wrong = np.array(offsets, np.int32), np.zeros(3, np.uint8)
    right = stored(["a"])
    valid = np.ones(1, np.bool_)
    for call in (
        lambda: text_parts.trimmed_rows(wrong, right, 3),
        lambda: text_parts.trimmed_rows(right, wrong, 3),
        lambda: text_parts.first_codes(wrong),
        lambda: text_changes.replaced_rows(right, right, wrong, valid, MOST),
        lambda: text_changes.translated_rows(right, wrong, right, valid, MOST),
        lambda: like_pairs(right, wrong, valid),
    ):
        with pytest.raises(InvalidInputError, match="outside their content"):
            call()


def test_long_repetitions_take_linear_time():
    many = 100_000
    texts = stored(["a" * many])
    parts = stored(["a" * (many // 2) + "b"])
    assert text_parts.found_rows(texts, parts, numbers([1])).tolist() == [0]
    letters = stored(["".join(map(chr, range(256, 40_000)))])
    assert text_parts.trimmed_rows(letters, letters, 3)[1].tolist() == [0]
