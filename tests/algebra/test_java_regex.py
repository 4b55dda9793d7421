"""RLIKE means what Java's Pattern means; tests/spark/test_regex_as_spark.py asks Java itself."""

import time

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from regex_cases import FIXED, OTHER_PATTERNS, PATTERNS, SCRIBBLES, TEXTS
from scale import tries

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate, may_fail
from projseg.algebra.expressions.patterns import java_regex
from projseg.algebra.expressions.patterns.java_regex import JavaRegex
from projseg.errors import (
    EvaluationError,
    InvalidInputError,
    LimitExceededError,
    ProjsegError,
    UnsupportedFeatureError,
)

SCHEMA = pa.schema([("s", pa.string()), ("p", pa.string())])


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def rlike(pattern, texts):
    column = pa.array(texts, pa.string())
    bound = bind(f"s RLIKE {quoted(pattern)}", SCHEMA)
    return evaluate(bound, {"s": column}, len(texts)).to_pylist()


@pytest.mark.parametrize(("pattern", "found", "not_found"), FIXED)
def test_a_pattern_finds_what_java_finds(pattern, found, not_found):
    texts = [*found, None, *not_found]
    assert rlike(pattern, texts) == [True] * len(found) + [None] + [False] * len(not_found)


@given(PATTERNS, st.lists(TEXTS, max_size=6))
@settings(max_examples=tries(150))
def test_a_pattern_in_a_column_is_the_same_as_a_constant(pattern, texts):
    try:
        expected = rlike(pattern, texts)
    except ProjsegError:
        assume(False)
    columns = {
        "s": pa.array(texts, pa.string()),
        "p": pa.array([pattern] * len(texts), pa.string()),
    }
    assert evaluate(bind("s RLIKE p", SCHEMA), columns, len(texts)).to_pylist() == expected


@given(SCRIBBLES | st.text(max_size=8) | OTHER_PATTERNS, TEXTS)
@settings(max_examples=tries(300))
def test_any_text_is_a_pattern_or_refused(pattern, text):
    try:
        assert rlike(pattern, [text])[0] in (True, False)
    except (InvalidInputError, UnsupportedFeatureError) as error:
        assert "\n" not in str(error)  # noqa: PT017  # which error it is does not matter


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "group without its end"),
        (")", "closing bracket"),
        ("[a", "class without its end"),
        ("[b-a]", "ends before it begins"),
        ("[a-\\d]", "ends before it begins"),
        ("*a", "without anything to repeat"),
        ("a**", "without anything to repeat"),
        ("a{", "without a count"),
        ("a{2", "without }"),
        ("a{2,1}", "descend"),
        ("\\", "ends in a backslash"),
        ("\\y", "escape \\\\y"),
        ("\\xg1", "hexadecimal"),
        ("\\x{110000}", "U\\+10FFFF"),
        ("\\u12", "hexadecimal"),
        ("(?<n>a)(?<n>b)", "two groups are named 'n'"),
        ("(?<1>a)", "not letters and digits"),
        ("(?y)", "unknown letter"),
        ("\\p{", "without its end"),
        ("\\p{}", "without a name"),
    ],
)
def test_a_pattern_that_java_refuses_is_refused(pattern, words):
    with pytest.raises(InvalidInputError, match=words) as caught:
        rlike(pattern, [])
    assert caught.value.code == "PROJSEG_BAD_EXPRESSION"
    with pytest.raises(EvaluationError, match=words) as met:
        evaluate(bind("'a' RLIKE p", SCHEMA), {"p": pa.array([None, pattern])}, 2)
    assert met.value.code == "PROJSEG_EVALUATION_BAD_ARGUMENT"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(?x)a b", "flag x"),
        ("(?m)^a", "flag m"),
        ("(?iu)k", "flag u"),
        ("\\X", "grapheme cluster"),
        ("\\bfoo\\b", "a word boundary"),
        ("\\N{DIGIT ONE}", "name of a character"),
        ("a\\R", "line break"),
        ("\\p{IsGreek}", "IsGreek.*version of Unicode"),
        ("\\p{Lu}", "Lu.*version of Unicode"),
        ("\\uD83D", "half of a surrogate pair"),
        ("[^\U0001f600]", "half of a surrogate pair"),
        ("[\\x00-\uffff]", "half of a surrogate pair"),
        ("[a&&b]", "intersection"),
        ("[a[b]]", "class within a class"),
        ("^(?=.*a)", "look-ahead"),
        ("foo(?!bar)", "look-ahead"),
        ("(?<=a)b", "look-behind"),
        ("(?<!a)b", "look-behind"),
        ("(a)\\1", "back reference"),
        ("(?<n>a)\\k<n>", "back reference"),
        ("(?>a)", "atomic group"),
        ("a*+", "possessive"),
        ("a{2}{3}", "count after a quantifier"),
        ("{2}", "count without anything"),
        ("a$b", "before the end"),
        ("(a$)+", "in a repetition"),
        ("(?:\\A[^b]*?){2,}c", "in a repetition of what may be empty"),
        ("[^a]$", "set that has"),
        ("\\r?\\Z", "set that has"),
        ("a{1001}", "count beyond 1000"),
        ("a{99999999999}", "count beyond 1000"),
        ("(?:a{1000}){1000}", "more than 10,000 parts"),
        ("\\0141", "octal"),
        ("\\cA", "control character"),
    ],
)
def test_what_java_takes_and_projseg_does_not_is_named(pattern, words):
    with pytest.raises(UnsupportedFeatureError, match=words) as caught:
        rlike(pattern, [])
    assert caught.value.code == "PROJSEG_UNSUPPORTED_FUNCTION"


@pytest.mark.parametrize("opening", ["(", "(?:"])
def test_what_nests_without_end_is_refused(opening):
    with pytest.raises((LimitExceededError, InvalidInputError)):
        rlike(opening * 5000, [])
    columns = {"p": pa.array([opening * 5000] * 2)}
    with pytest.raises(EvaluationError) as caught:
        evaluate(bind("'a' RLIKE p", SCHEMA), columns, 2)
    assert caught.value.code == "PROJSEG_EVALUATION_BAD_ARGUMENT"


def test_groups_nested_too_deeply_are_refused():
    assert rlike("(" * 100 + "a" + ")" * 100, ["a", "b"]) == [True, False]
    with pytest.raises(LimitExceededError, match="deeper than 100"):
        rlike("(" * 5000 + "a" + ")" * 5000, ["a"])


@pytest.mark.parametrize(
    "pattern",
    ["^(a+)+$", "^(a|aa)*$", "(a*)*(a*)*(a*)*$", "(a?){30}a{30}$"],
)
def test_patterns_that_explode_in_java_do_not_explode_here(pattern):
    text = "a" * 2000 + "!"
    assert rlike(pattern, [text, text + "\n"])[0] in (True, False)


def test_only_a_pattern_that_may_be_given_up_may_fail():
    assert not may_fail(bind("s RLIKE 'a$|foo'", SCHEMA))
    assert may_fail(bind("s RLIKE '(a{1,30}){1,30}c'", SCHEMA))
    assert may_fail(bind("s RLIKE p", SCHEMA))


@given(st.lists(st.text("ab%_\\\n", max_size=6), max_size=6), st.text("ab%_\n", max_size=6))
@settings(max_examples=tries(200))
def test_like_of_a_pattern_in_a_column_is_like_of_a_constant(texts, pattern):
    columns = {
        "s": pa.array(texts, pa.string()),
        "p": pa.array([pattern] * len(texts), pa.string()),
    }
    expected = evaluate(bind(f"s LIKE {quoted(pattern)}", SCHEMA), columns, len(texts))
    assert evaluate(bind("s LIKE p", SCHEMA), columns, len(texts)).equals(expected)


def test_like_of_many_wildcards_in_a_column_takes_no_more_than_the_text_is_long():
    texts = pa.array(["a" * 3000])
    columns = {"s": texts, "p": pa.array(["%a" * 20 + "%b"])}
    assert evaluate(bind("s LIKE p", SCHEMA), columns, 1).to_pylist() == [False]


def test_like_of_a_pattern_that_is_too_large_for_re2():
    texts = pa.array(["b" * 90_000 + "a", "b" * 90_000, None])
    bound = bind(f"s LIKE '{'_' * 90_000}a'", SCHEMA)
    assert evaluate(bound, {"s": texts}, 3).to_pylist() == [True, False, None]


def test_ilike_reads_an_escape():
    texts = pa.array(["A%", "ab", "xA%"])
    bound = bind("s ILIKE 'a/%' ESCAPE '/'", SCHEMA)
    assert evaluate(bound, {"s": texts}, 3).to_pylist() == [True, False, False]


SLOW = ["((a{1,9}){1,9}){1,9}c", "(a{1,30}){1,30}c", "((a?){1,30}){1,30}c"]


@pytest.mark.parametrize("pattern", SLOW)
def test_repetitions_in_repetitions_end_in_time_or_with_a_code(pattern, monkeypatch):
    monkeypatch.setattr(java_regex, "SECONDS_MAX", 0.05)
    texts = pa.array(["a" * length for length in range(500, 700)])
    regex = JavaRegex(pattern)
    assert regex.may_fail
    start = time.thread_time()
    try:
        assert not any(regex.search(texts).to_pylist())
    except EvaluationError as error:
        assert error.code == "PROJSEG_EVALUATION_TOO_LONG"  # noqa: PT017 - either way is right
    assert time.thread_time() - start < 10


def test_a_large_pattern_finds_the_same_in_slices():
    texts = pa.array([None, *("x" * (i % 40) + "ab" * (i % 7) for i in range(9_000)), ""])
    regex = JavaRegex("(?:ab){3,6}x{0,200}$")
    assert regex.may_fail
    wanted = [None if t is None else "ababab" in t for t in texts.to_pylist()]
    assert regex.search(texts).to_pylist() == wanted
    assert regex.search(texts.slice(0, 0)).to_pylist() == []
