"""RLIKE and Spark's: the same answer for every pattern and text, or a refusal."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import IllegalArgumentException
from regex_cases import FIXED, OTHER_PATTERNS, PATTERNS, SCRIBBLES, TEXTS
from scale import tries

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.patterns import read_finder, read_replacer, read_splitter
from projseg.errors import EvaluationError, InvalidInputError, UnsupportedFeatureError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("pattern", pa.string()), ("text", pa.string())])
ANY = st.one_of(PATTERNS, PATTERNS, PATTERNS, OTHER_PATTERNS, SCRIBBLES)
CHARACTERS = [*range(0x250), *range(0x370, 0x590), *range(0x1E00, 0x20C0), 0xA640, 0x10400]
REFUSALS = (InvalidInputError, UnsupportedFeatureError, EvaluationError)


def is_pattern(spark, text):
    """Whether Java compiles a text; Spark raises what Java raises."""
    try:
        spark._jvm.java.util.regex.Pattern.compile(text)
    except IllegalArgumentException:
        return False
    return True


def ask_spark(spark, pairs):
    rows = pa.table([pa.array(column) for column in zip(*pairs, strict=True)], schema=SCHEMA)
    spark.createDataFrame(rows).createOrReplaceTempView("pairs")
    return spark.sql("SELECT pattern, text, text RLIKE pattern AS found FROM pairs").toArrow()


def ask_projseg(pattern, texts):
    """Return the answers, or None where the pattern is refused."""
    bound = bind("text RLIKE '" + pattern.replace("\\", "\\\\").replace("'", "\\'") + "'", SCHEMA)
    return evaluate(bound, {"text": pa.array(texts, pa.string())}, len(texts)).to_pylist()


def differences(spark, cases):
    """Return (pattern, text, Spark's answer, ours) where they differ, and how many were asked."""
    pairs, ours = [], []
    for pattern, texts in cases:
        try:
            found = ask_projseg(pattern, texts)
        except InvalidInputError:
            assert not is_pattern(spark, pattern), pattern
        except (UnsupportedFeatureError, EvaluationError):
            continue
        else:
            assert is_pattern(spark, pattern), pattern
            pairs += [(pattern, text) for text in texts]
            ours += found
    if not pairs:
        return [], 0
    rows = ask_spark(spark, pairs).to_pylist()
    expected = {(row["pattern"], row["text"]): row["found"] for row in rows}
    different = [
        (*pair, expected[pair], found)
        for pair, found in zip(pairs, ours, strict=True)
        if expected[pair] != found
    ]
    return different, len(pairs)


def test_the_fixed_patterns_are_sparks(spark):
    cases = [(pattern, [*found, *others]) for pattern, found, others in FIXED]
    assert differences(spark, cases)[0] == []
    for pattern, found, others in FIXED:
        assert ask_projseg(pattern, [*found, *others]) == [True] * len(found) + [False] * len(
            others
        )


def drawn(count):
    """Return patterns, each with texts; drawn first, so that one query asks Spark about all."""
    cases = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(ANY, st.lists(TEXTS, min_size=8, max_size=8))
    def collect(pattern, texts):
        cases.append((pattern, texts))

    collect()
    return cases


def test_any_pattern_is_sparks(spark):
    different, pair_count = differences(spark, drawn(300))
    assert different == []
    assert pair_count > 500


@pytest.mark.slow
def test_many_patterns_are_sparks(spark):
    for _ in range(20):
        assert differences(spark, drawn(2000))[0] == []


REPLACEMENTS = ["", "x", "<$0>", "$1-", "$2$1", "\\$\\\\", "é$0$0"]
PARTS = {
    "regexp_replace(text, pattern, replacement)": lambda pattern, number: (
        read_replacer(pattern, REPLACEMENTS[number % len(REPLACEMENTS)]).replaced
    ),
    "regexp_extract(text, pattern, number % 3)": lambda pattern, number: (
        read_finder(pattern, number % 3).extract
    ),
    "to_json(split(text, pattern, number % 4 - 1))": lambda pattern, number: (
        lambda texts: in_json(read_splitter(pattern).split(texts, number % 4 - 1))
    ),
}


def in_json(arrays):
    return pa.array([json.dumps(row) for row in arrays.to_pylist()])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", PARTS)
def test_what_patterns_find_is_what_spark_finds(spark, text):
    rows = []
    for number, (pattern, texts) in enumerate(drawn(tries(1_000))):
        try:
            ours = PARTS[text](pattern, number)(pa.array(texts, pa.string())).to_pylist()
        except REFUSALS:
            continue
        replacement = REPLACEMENTS[number % len(REPLACEMENTS)]
        rows += [(number, pattern, replacement, *pair) for pair in zip(texts, ours, strict=True)]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    names = ["number", "pattern", "replacement", "text", "ours"]
    spark.createDataFrame(pa.table(columns, names)).createOrReplaceTempView("found")
    answer = spark.sql(f"SELECT * FROM (SELECT *, {text} AS theirs FROM found)").toArrow()
    found = answer.to_pylist()
    if "json" in text:  # which writes some characters in its own way
        for row in found:
            row["ours"], row["theirs"] = json.loads(row["ours"]), json.loads(row["theirs"])
    assert [row for row in found if row["ours"] != row["theirs"]] == []
    assert len(rows) > tries(1_000) / 4


@pytest.mark.slow
@pytest.mark.parametrize("flags", ["", "(?i)"])
def test_sets_have_sparks_characters(spark, flags):
    """Each set against every character of the alphabets that have cases, marks and odd spaces."""
    names = "ASCII Alnum Alpha Blank Cntrl Digit Graph Lower Print Punct Space Upper XDigit"
    texts = [chr(point) for point in CHARACTERS]
    sets = [f"\\{p}{{{name}}}" for p in "pP" for name in names.split()]
    sets += ["\\d", "\\s", "\\w", "\\h", "[à-ö]", "."]
    singles = [*"kKsSiI\u00df\u1e9e\u00e5\u00c5\u03c3\u03c2\u00b5\u01c5"]
    cases = [(f"{flags}{one}", texts) for one in [*sets, *singles, *(f"[{s}]" for s in singles)]]
    assert differences(spark, cases)[0] == []
