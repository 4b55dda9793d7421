"""What regexp_extract finds and where split cuts, against Python's own regular expressions."""

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.patterns import read_finder, read_replacer, read_splitter
from projseg.errors import InvalidInputError, UnsupportedFeatureError

# Of these Python and Java mean the same, in the same order of search.
ATOMS = st.sampled_from(["a", "b", "[ab]", "[^a]", "(?:ab|a)", "\\d", ",", "(?i:B)", "x?"])
PARTS = st.builds(lambda atom, count: atom + count, ATOMS, st.sampled_from(["", "", "", "{1,2}"]))
CHAINS = st.lists(PARTS, min_size=1, max_size=4).map("".join)
LOOPS = st.builds(lambda a, b: f"{a}[ab]*?{b}|[a,]+", CHAINS, CHAINS)
PATTERNS = (CHAINS | LOOPS).filter(lambda text: "?{" not in text)
TEXTS = st.lists(st.text("aabb1,é", max_size=9), min_size=1, max_size=6)


def known(read, *arguments):
    try:
        return read(*arguments)
    except (InvalidInputError, UnsupportedFeatureError):
        return None


@given(PATTERNS, PATTERNS, TEXTS, st.integers(0, 2))
@settings(deadline=None, max_examples=tries(150))
def test_a_group_holds_what_python_finds(first, second, texts, group):
    pattern = f"({first})({second})?"
    finder = known(read_finder, pattern, group)
    if finder is None:
        return
    found = [re.search(pattern, text) for text in texts]
    expected = [(match and match.group(group)) or "" for match in found]
    assert finder.extract(pa.array(texts)).to_pylist() == expected


@given(PATTERNS, TEXTS, st.integers(-1, 4))
@settings(deadline=None, max_examples=tries(150))
def test_parts_lie_between_what_python_finds(pattern, texts, limit):
    splitter = known(read_splitter, pattern)
    if splitter is None:
        return
    assert splitter.split(pa.array(texts), limit).to_pylist() == [
        cut(pattern, text, limit) for text in texts
    ]


def cut(pattern, text, limit):
    """Return the parts by Java's rule; unlike Python it never finds "" right after a match."""
    parts, begin, position = [], 0, 0
    compiled = re.compile(pattern)
    while position <= len(text) and len(parts) != limit - 1:
        match = compiled.search(text, position)
        if match is None:
            break
        if match.end() > 0:
            parts.append(text[begin : match.start()])
            begin = match.end()
        position = match.end() + (match.start() == match.end())
    return [*parts, text[begin:]]


SETS = st.sampled_from(
    ["a", "[ab]", "[^a]", ".", "(?s).", "[é-€]", "(?i)[A-Z]", "(b)", "\\D", "[^é]"]
)
WIDE = st.lists(st.none() | st.text("aAb1,é€😀\n\r ", max_size=9), min_size=1, max_size=6)


@given(SETS, st.booleans(), st.sampled_from(["", "x", "é😀"]), st.integers(-1, 4), WIDE)
@settings(deadline=None, max_examples=tries(500))
def test_sets_and_their_runs_are_found_as_by_re2(members, is_run, instead, limit, texts):
    pattern = members + "+" * is_run
    array = pa.array(["ab", *texts, "ab"], pa.string()).slice(1, len(texts))
    schema = pa.schema([("s", pa.string())])
    written = pattern.replace("\\", "\\\\")
    replaced = bind(f"regexp_replace(s, '{written}', '{instead}')", schema)
    expected = read_replacer(pattern, instead).replaced(array)
    assert evaluate(replaced, {"s": array}, len(array)).to_pylist() == expected.to_pylist()
    split = bind(f"split(s, '{written}', {limit})", schema)
    expected = read_splitter(pattern).split(array, limit)
    found = evaluate(split, {"s": array}, len(array))
    found.validate(full=True)
    assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize(
    ("pattern", "group", "words"),
    [
        ("(a", 0, "not a regular expression"),
        ("(a)", 2, "no group 2"),
        ("(a)", -1, "no group -1"),
        ("(a)+", 1, "group 1 inside a repetition"),
        ("(a|b$)", 1, "inside group 1"),
        ("a|b$", 0, "inside group 0"),
        ("(?:a?)*b", 0, "may be empty"),
    ],
)
def test_what_is_not_known_exactly_is_refused(pattern, group, words):
    with pytest.raises((InvalidInputError, UnsupportedFeatureError), match=words):
        read_finder(pattern, group)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("a*", "the empty text"), ("^a", "texts are split"), ("a$", "texts are split")],
)
def test_where_java_splits_in_its_own_way_is_refused(pattern, words):
    with pytest.raises(UnsupportedFeatureError, match=words):
        read_splitter(pattern)


@pytest.mark.parametrize("text", ["split(s, s)", "regexp_extract(s, s)", "split(s, NULL)"])
def test_patterns_are_constants(text):
    with pytest.raises(InvalidInputError, match="must be a constant"):
        bind(text, pa.schema([("s", pa.string())]))


def test_long_texts_take_linear_time():
    texts = pa.array(["a" * 20_000 + "é😀"])
    text = "regexp_extract(s, '(a*)(a*)(a*)x', 1)"
    assert evaluate(bind(text, pa.schema([("s", pa.string())])), {"s": texts}, 1)[0].as_py() == ""
