"""RLIKE and Spark's: the same answer for every pattern and text, or a refusal."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import IllegalArgumentException
from regex_cases import FIXED, PATTERNS, SCRIBBLES, TEXTS
from scale import tries

from projseg.algebra.expressions.binding.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.patterns import read_replacer
from projseg.errors import EvaluationError, InvalidInputError, UnsupportedFeatureError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("pattern", pa.string()), ("text", pa.string())])
ANY = st.one_of(PATTERNS, PATTERNS, PATTERNS, SCRIBBLES)
CHARACTERS = [*range(0x250), *range(0x370, 0x590), *range(0x1E00, 0x20C0), 0xA640, 0x10400]


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


def replacements(spark, cases):
    """Return (pattern, replacement, text, Spark's, ours) where they differ, and how many agree."""
    rows = []
    for number, (pattern, texts) in enumerate(cases):
        replacement = REPLACEMENTS[number % len(REPLACEMENTS)]
        try:
            replacer = read_replacer(pattern, replacement)
            found = replacer.replaced(pa.array(texts, pa.string())).to_pylist()
        except (InvalidInputError, UnsupportedFeatureError, EvaluationError):
            continue
        rows += [(pattern, replacement, *pair) for pair in zip(texts, found, strict=True)]
    names = ["pattern", "replacement", "text", "ours"]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    spark.createDataFrame(pa.table(columns, names)).createOrReplaceTempView("replaced")
    answer = spark.sql(
        "SELECT *, regexp_replace(text, pattern, replacement) AS theirs FROM replaced"
    ).toArrow()
    different = [row for row in answer.to_pylist() if row["ours"] != row["theirs"]]
    return different, len(rows)


def test_what_patterns_match_is_replaced_as_in_spark(spark):
    different, count = replacements(spark, drawn(tries(1_000)))
    assert different == []
    assert count > 400


@pytest.mark.slow
@pytest.mark.parametrize("flags", ["", "(?i)", "(?iu)", "(?U)"])
def test_sets_have_sparks_characters(spark, flags):
    """Each set against every character of the alphabets that have cases, marks and odd spaces."""
    names = "Lower Upper Punct Space Graph Print XDigit Lu Ll Lt L M N P S Z C LC LD IsLowercase"
    names += " IsUppercase IsPunctuation IsControl javaWhitespace javaSpaceChar javaLetterOrDigit"
    texts = [chr(point) for point in CHARACTERS]
    sets = [*(f"\\p{{{name}}}" for name in names.split()), "\\d", "\\s", "\\h", "\\v", "[à-ö]", "."]
    singles = [*"kKsSiI\u00df\u1e9e\u00e5\u00c5\u03c3\u03c2\u00b5\u01c5"]
    cases = [(f"{flags}{one}", texts) for one in [*sets, *singles, *(f"[{s}]" for s in singles)]]
    assert differences(spark, cases)[0] == []
