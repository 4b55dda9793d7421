"""text_match: its words against slow twins and tantivy, its queries, and the fold they rest on."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import text_cases as cases
from hypothesis import given
from hypothesis import strategies as st
from oracle import words as oracle
from oracle.value_hash import value_hash
from spec_tables import section_text

import projseg
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.errors import CODES, InvalidInputError, ProjsegError, UnsupportedFeatureError
from projseg.segment_format.indexes import text_keys

SCHEMA = pa.schema([("s", pa.string())])


def matched(texts, query):
    bound = bind(f"text_match(s, {cases.quoted(query)})", SCHEMA)
    return evaluate(bound, {"s": pa.array(texts, pa.string())}, len(texts)).to_pylist()


@given(st.lists(st.none() | cases.TEXTS, max_size=12), cases.QUERIES)
def test_answers_are_those_of_lists_of_words(texts, tree):
    expected = [None if text is None else cases.matches(text, tree) for text in texts]
    assert matched(texts, cases.written(tree)) == expected


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("war peace", "01"),
        ("war AND peace", "01"),
        ('"war and peace"', "0"),
        ("war OR peace", "012"),
        ("war OR peace treaty", "012"),
        ("(war OR peace) treaty", "1"),
        ("war -treaty", "02"),
        ("war NOT treaty", "02"),
        ("- war", "34"),
        ("pea*", "014"),
        ("*ce", "01"),
        ("p*e", "01"),
        ("foo-bar", "3"),
        ("foo-b*", "3"),
        ("f*-bar", "3"),
        ("foo -bar", ""),
        ("*a*r*", "0123"),
        ('"OR"', ""),
        ("or", ""),
        ("WAR", "012"),
    ],
)
def test_the_grammar(query, found):
    texts = ["War and Peace", "peace, war: a treaty", "the war of words", "foo-bar", "Pea soup"]
    expected = [str(number) in found for number in range(len(texts))]
    assert matched([*texts, None], query) == [*expected, None]


@pytest.mark.parametrize(
    ("query", "position"),
    [
        ("", 1),
        ("  ", 3),
        ("*", 1),
        ("war 中*", 5),
        ('a "war', 3),
        ("(war", 1),
        ("war)", 4),
        ("a:b", 2),
        ("a OR", 5),
        ("OR a", 1),
        ("a & b", 3),
        ("NOT", 4),
        ('""', 1),
        ("x" * 4097, 1),
        ("a " * 65, 129),
        ("(" * 70 + "a" + ")" * 70, 65),
        *((f"ab{sign}", 3) for sign in "~^?[]{}+:"),
    ],
)
def test_what_is_no_query_is_refused_with_its_position(query, position):
    with pytest.raises(InvalidInputError, match=rf"at position {position};") as refused:
        matched(["a"], query)
    assert refused.value.code == "PROJSEG_BAD_TEXT_QUERY"
    assert refused.value.code in CODES


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("name:n10 -name:*n*", []),
        ("name:*10 -name:*x*", ["n10"]),
        ('city:"de brugge" OR name:N10', ["n10", "x11"]),
        ("-name:n10", ["x11", "x10"]),
        ("-name:n10 NAME:x11", ["x11"]),
        ("name:x* AND NOT (city:brugge OR name:absent)", ["x10"]),
    ],
)
def test_a_query_of_carbondata_names_its_columns(tmp_path, query, found):
    rows = {"name": ["n10", "x11", "x10", None], "city": ["Gent", "de Brugge", "Gent", None]}
    schema = {"name": "string", "city": "string"}
    table = projseg.Table.create(tmp_path / "t", schema, data=rows)
    answer = table.query(columns=["name"], filter=f"TEXT_MATCH('{query}')")
    assert sorted(answer["name"].to_pylist()) == sorted(found)


@pytest.mark.parametrize(
    ("query", "position", "problem"),
    [
        ("war", 1, "of which column"),
        ("name:war peace", 10, "of which column"),
        ("name:war name:peace", 10, "side by side"),
        ("name:war (city:a OR name:b)", 10, "side by side"),
        ("name: war", 5, "has :"),
        ("name:a:b", 7, "has :"),
        ("name:AND", 6, "nothing to search for"),
        ("name:-a", 6, "nothing to search for"),
        ('name:"a', 6, "not closed"),
        ("name:*", 6, "nothing to search for"),
        ("", 1, "nothing to search for"),
    ],
)
def test_what_is_no_query_of_columns_is_refused(query, position, problem):
    with pytest.raises(InvalidInputError, match=rf"{problem}.*at position {position};") as refused:
        bind(f"text_match('{query}')", SCHEMA)
    assert refused.value.code == "PROJSEG_BAD_TEXT_QUERY"


def test_a_limit_is_said_by_limit():
    with pytest.raises(UnsupportedFeatureError, match="LIMIT at the query's end"):
        bind("TEXT_MATCH_WITH_LIMIT('s:a', 10)", SCHEMA)


def test_limits_are_reached_and_nothing_is_known_of_nulls():
    assert matched(["a"], "a " * 64) == [True]
    assert matched(["x" * 4096], "x" * 4096) == [True]
    assert matched(["a"], "(" * 63 + "a" + ")" * 63) == [True]
    assert matched(["a"], '"a: b~"') == [False]
    null = bind("text_match(s, NULL)", SCHEMA)
    assert evaluate(null, {"s": pa.array(["a"])}, 1).to_pylist() == [None]
    with pytest.raises(ProjsegError, match="must be a constant"):
        bind("text_match(s, s)", SCHEMA)


def test_the_fold_is_closed_under_everything_that_ignores_case():
    """As lower of this Python, Arrow's and Java's of one character, whatever their Unicode."""
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    folds = oracle.table()[2]
    assert not any(character in folds for fold in folds.values() for character in fold)
    lowered = pc.utf8_lower(pa.array(every)).to_pylist()
    changed = [(x, y) for x, y in zip(every, lowered, strict=True) if x != y]
    changed += [(x, x.lower()) for x in every if x != x.lower()]
    changed += [(x, x.upper().lower()) for x in every if len(x.upper().lower()) == 1]
    assert len(changed) > len(folds)
    assert [x for x, y in changed if oracle.folded(x) != oracle.folded(y)] == []


def test_the_table_is_the_one_of_the_specification():
    text = section_text("16")
    content = Path(text_keys.__file__).with_name("characters.json").read_bytes()
    assert text_keys._HASH in text
    assert f"{len(content):,} bytes" in text
    assert f"`{text_keys.UNICODE}`" in text
    assert json.loads(content)["unicode"] == text_keys.UNICODE
    (sentence,) = re.findall(r"`(Foo-bar[^`]*)` has the words (.*?)\. A key", text)
    assert list(text_keys.words_of(sentence[0])) == re.findall("`(.*?)`", sentence[1])


def test_another_table_is_refused(monkeypatch, tmp_path):
    other = tmp_path / "characters.json"
    other.write_text("{}")
    monkeypatch.setattr(text_keys, "_FILE", other)
    with pytest.raises(ProjsegError, match="install projseg anew"):
        text_keys.character_table.__wrapped__()


@given(st.lists(cases.TEXTS, max_size=20), st.integers(1, 40))
def test_keys_are_those_of_the_twin_in_whatever_slices(texts, size):
    array, kept = pa.array(["xyz", *texts], pa.string())[1:], text_keys._BYTES_AT_ONCE
    text_keys._BYTES_AT_ONCE = size
    try:
        words, grams = text_keys.word_hashes(array), text_keys.gram_hashes(array)
    finally:
        text_keys._BYTES_AT_ONCE = kept
    every = {word for text in texts for word in oracle.words(text)}
    assert set(words.tolist()) == {value_hash(word.encode()) for word in every}
    runs = {gram for text in texts for gram in oracle.grams(text)}
    assert set(grams.tolist()) == {value_hash(run.to_bytes(8, "little")) for run in runs}
    assert len(set(words.tolist())) == len(words)


@given(st.text(st.characters(max_codepoint=0x7F), max_size=60))
def test_words_of_ascii_are_those_of_tantivy(text):
    """Not among the packages of the tests: run it with tantivy on the path."""
    tantivy = pytest.importorskip("tantivy", exc_type=ImportError)
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    analyzer = builder.filter(tantivy.Filter.lowercase()).build()
    assert list(text_keys.words_of(text)) == analyzer.analyze(text)
