"""Patterns that differ from row to row, by automata, against Python's own regular expressions."""

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import texts as oracle
from scale import tries

from projseg.errors import InvalidInputError
from projseg.kernels.texts.pattern_texts import matching_pairs
from projseg.segment_format.arrow_arrays import text_buffers

LETTERS = "aabbc1 _-é中😀\n\r\x85\u2028"
SETS = ["[a-c]", "[^a]", "[ab_]", "[é-中1]", r"[\d.]", r"[^\s😀]", r"[\w]", r"[\]a]"]
ESCAPES = [r"\.", r"\\", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"]
ONES = st.sampled_from([*"aabbcé中😀1 ", ".", ".", *ESCAPES])
SIGNS = st.sampled_from(["*", "+", "?", "*?", "??"])
PARTS = st.recursive(
    ONES | st.sampled_from(SETS),
    lambda part: (
        st.lists(part, min_size=1, max_size=4).map("".join)
        | st.lists(part, min_size=1, max_size=3).map(lambda some: f"({'|'.join(some)})")
        | part.map(lambda one: f"(?:{one})*")
        | st.tuples(ONES | st.sampled_from(SETS), SIGNS).map("".join)
    ),
    max_leaves=8,
)
BEGINS, ENDS = st.sampled_from(["", "", "^"]), st.sampled_from(["", "", "$"])
PATTERNS = st.tuples(BEGINS, PARTS, ENDS).map("".join)
TEXTS = st.text(st.sampled_from(LETTERS), max_size=9)


def matched(rows):
    texts, patterns = (
        text_buffers(pa.array(["before", *column, "after"], pa.string())[1 : len(rows) + 1])
        for column in zip(*rows, strict=True)
    )
    return matching_pairs(texts, patterns, np.ones(len(rows), np.bool_))


@given(st.lists(st.tuples(TEXTS, PATTERNS), min_size=1, max_size=20))
@settings(max_examples=tries(2000), deadline=None)
def test_matches_are_their_twins(rows):
    found, left = matched(rows)
    for row, (text, pattern) in enumerate(rows):
        if left[row]:
            assert pattern.count("|") or len(pattern) > 40 or "*?" in pattern or "??" in pattern, (
                pattern
            )
        else:
            assert found[row] == oracle.rlike(text, pattern), (text, pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        *[("a$", "ba" + end, True) for end in ("", "\n", "\r\n", "\r", "\x85", "\u2028")],
        *[("a$", "ba" + end, False) for end in ("\n\n", "\n\r", "x", "\u2027")],
        *[(r"a\$", "a$", True), (r"a\\$", "a\\", True), ("\r$", "\r\n", False), ("^$", "\n", True)],
        *[("^", "", True), ("$", "x", True), ("^a", "ba", False), ("^(a|b)c", "bc", True)],
        *[
            ("(a|)b", "b", True),
            ("()x", "x", True),
            ("a.c", "a\nc", False),
            ("a[^b]c", "a\nc", True),
        ],
        *[("(ab)+c", "ababc", True), ("^(ab)*$", "abab", True), ("^(ab)*$", "aba", False)],
    ],
)
def test_anchors_and_line_ends_are_those_of_java(pattern, text, expected):
    found, left = matched([(text, pattern)])
    assert (found.tolist(), left.tolist()) == ([expected], [False])


@pytest.mark.parametrize(
    "pattern",
    [
        *("a{2}", "(?i)a", "(?=a)", "a*+", "a++", "a?+", "*a", "a**", "(", ")", "a)", "(a", "["),
        *("[]", "[]a]", "[a", "[b-a]", "[a-]", "[-a]", "[a&&b]", "[[a]]", "^a|b", "a|b$", "a^"),
        *("a$b", r"\b", r"\1", r"\Qa\E", "\\", r"\x41", "a]", "{", "}", r"[\D]", "a" * 64, "(|*)"),
        *("(" * 17 + ")" * 17, "[" + "abcdefgh" * 40 + "]", "[^", "(?:a", "(?", "a{", "(?<n>a)"),
        *("(^a)", "(a$)b"),
    ],
)
def test_other_patterns_are_left(pattern):
    found, left = matched([("a", "a"), ("a", pattern), ("b", "[ab]")])
    assert left.tolist() == [False, True, False]
    assert found.tolist() == [True, False, True]


def test_one_pattern_or_text_is_for_all_rows():
    some, one = text_buffers(pa.array(["ab", "cb", "b"])), text_buffers(pa.array(["[ac]b"]))
    rows = np.array([True, True, False])
    assert matching_pairs(some, one, rows)[0].tolist() == [True, True, False]
    texts, patterns = text_buffers(pa.array(["ab"])), text_buffers(pa.array(["a.", "c.", "b$"]))
    assert matching_pairs(texts, patterns, np.ones(3, np.bool_))[0].tolist() == [True, False, True]


def test_what_does_not_fit_is_refused():
    wrong = np.array([0, 4], np.int32), np.zeros(3, np.uint8)
    right = text_buffers(pa.array(["a"]))
    for texts, patterns in ((wrong, right), (right, wrong)):
        with pytest.raises(InvalidInputError, match="outside their content"):
            matching_pairs(texts, patterns, np.ones(1, np.bool_))


def test_the_twin_reads_what_python_reads():
    assert oracle.rlike("x\x85", "x.") is False
    assert re.search("x.", "x\x85")
