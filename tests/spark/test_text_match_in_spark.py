"""text_match in Spark: words, answers and errors are the engine's, byte for byte."""

from __future__ import annotations

import random
import re

import pyarrow as pa
import pytest
import text_cases as cases
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import words as oracle
from pyspark.errors import IllegalArgumentException
from scale import IS_NIGHTLY, tries
from spark_sql import using

import projseg
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.patterns.text_query import read_query_of_columns, read_text_query
from projseg.errors import InvalidInputError
from projseg.segment_format.indexes.text_keys import Words

PACKAGE = "org.apache.spark.sql.projseg"


def drawn_texts(count):
    """Texts of characters of every class, of those that fold, and of any."""
    draw = random.Random(20_28)
    of_words, singles, folds = oracle.table()
    kinds = [sorted(of_words), sorted(singles), [ord(one) for one in folds]]
    kinds += [[0x307, 0x130, 0x131, 0x17F, 0x212A, 0x3C2], [ord(one) for one in "aA1_ -.\t"]]
    kinds.append([code for code in range(0x110000) if not 0xD800 <= code < 0xE000])
    texts = []
    for number in range(count):
        size = 400 if number % 50 == 0 else draw.randrange(12)  # words of more than 255 bytes
        kind = draw.choice(kinds) if number % 3 == 0 else None
        texts.append("".join(chr(draw.choice(kind or draw.choice(kinds))) for _ in range(size)))
    return texts


def texts_of(spark, texts):
    return spark.createDataFrame(pa.table({"s": pa.array(texts, pa.string())}))


def words_in_spark(spark, texts):
    """The words of each text, split by Spark's tasks in one job."""
    split = f"reflect('{PACKAGE}.TextWords', 'of', s)"
    found = texts_of(spark, texts).selectExpr(f"{split} AS words").toArrow()
    return [text[len("List(") : -1] for text in found["words"].to_pylist()]


def test_words_are_those_of_python_and_of_the_twin(spark):
    texts = drawn_texts(tries(20_000))
    split = Words(pa.array(texts, pa.string()))
    rows = [[] for _ in texts]
    for row, word in zip(split.texts.tolist(), split.values.to_pylist(), strict=True):
        rows[row].append(word)
    assert rows == [oracle.words(text) for text in texts]
    assert words_in_spark(spark, texts) == [", ".join(row) for row in rows]
    assert max(len(word.encode()) for row in rows for word in row) > 250
    assert sum(map(len, rows)) > len(texts)


@pytest.mark.parametrize("codegen", ["CODEGEN_ONLY", "NO_CODEGEN"])
def test_answers_are_those_of_lists_of_words(spark, codegen):
    texts, trees = [None], []

    @settings(max_examples=40)
    @given(st.lists(cases.TEXTS, min_size=5, max_size=5), cases.QUERIES)
    def drawn(more, tree):
        texts.extend(more)
        trees.append(tree)

    drawn()
    calls = [f"text_match(s, {cases.quoted(cases.written(tree))})" for tree in trees]
    named = [f"{call} AS c{number}" for number, call in enumerate(calls)]
    with using(spark, **{"spark.sql.codegen.factoryMode": codegen}):
        rows = texts_of(spark, texts).repartition(1).selectExpr("s", *named).collect()
    assert len(rows) == len(texts)
    found = set()
    for row in rows:
        expected = [None if row.s is None else cases.matches(row.s, tree) for tree in trees]
        assert list(row)[1:] == expected, row.s
        found.update(expected)
    assert found == {None, True, False}


def outcome(read, query, error):
    """The code and the position of the error that reading a query raises, or None."""
    try:
        read(query)
    except error as refused:
        code, position = re.search(
            r"\[(PROJSEG_\w+)\].* at position (\d+);", str(refused), re.DOTALL
        ).groups()
        return code, int(position)
    return None


def test_what_is_no_query_is_refused_as_in_python(spark):
    draw = random.Random(2028)
    queries = ["", "a " * 64, "a " * 65, "x" * 4097, "中*", 'a "b', "(" * 70 + "a" + ")" * 70]
    queries += [f"ab{sign}" for sign in "~^?[]{}+:"]
    pieces = [*'*()~:"', " -", " AND ", " OR ", " NOT ", "\x1c", "\u0307"]
    pieces += 2 * ["war", " b1", " 中", "\u00a0a", " peace-b", "(a b)", '"a b"', "😀c"]
    queries += ["".join(draw.choices(pieces, k=draw.randrange(6))) for _ in range(tries(240))]
    java = getattr(spark._jvm, PACKAGE).TextQuery
    pieces = [*"()-:", " AND ", " OR ", " NOT -", "war", " n:*", "n:(a)"]
    pieces += 3 * ["n:war", " OR n:b1", ' AND -m:"a b"', " -😀:x*y", " AND (n:x)"]
    named = ["".join(draw.choices(pieces, k=draw.randrange(5))) for _ in queries]
    for read, known, tried in [
        (java.read, read_text_query, queries),
        (java.ofColumns, read_query_of_columns, named),
    ]:
        expected = [outcome(known, query, InvalidInputError) for query in tried]
        for query, wanted in zip(tried, expected, strict=True):
            assert outcome(read, query, IllegalArgumentException) == wanted, query
        assert 0.05 < expected.count(None) / len(expected) < 0.9


def test_white_space_is_pythons(spark):
    is_space = getattr(spark._jvm, PACKAGE).TextQuery.isSpace
    codes = range(0x110000) if IS_NIGHTLY else range(0x300)
    known = [code for code in range(0x110000) if chr(code).isspace()]
    near = {code + step for code in known for step in (-1, 0, 1)}
    assert [code for code in sorted({*codes, *near}) if is_space(code)] == known


def drawn_characters():
    """All characters at night, else those of the first scripts and some of each other."""
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    return every if IS_NIGHTLY else every[:0x600] + every[0x600::37]


@pytest.mark.parametrize("icu", ["true", "false"])
def test_a_character_folds_as_its_lower_case_in_spark(spark, icu):
    """So an index of `s` serves lower(s) and ILIKE."""
    with using(spark, **{"spark.sql.icu.caseMappings.enabled": icu}):
        rows = texts_of(spark, drawn_characters()).selectExpr("s", "lower(s) AS low")
        changed = rows.where("s <> low").toArrow().to_pylist()
    assert len(changed) > (1_300 if IS_NIGHTLY else 300)
    assert [row for row in changed if oracle.folded(row["s"]) != oracle.folded(row["low"])] == []


@pytest.mark.parametrize("flags", ["i", pytest.param("iu", marks=pytest.mark.slow)])
def test_characters_that_java_takes_for_each_other_fold_alike(spark, flags):
    """Of all characters with a case, by the patterns themselves; others match only themselves."""
    steps = ["toLowerCase", "toUpperCase", "toTitleCase"]
    numbers = spark.range(0x110000).selectExpr("CAST(id AS int) AS code")
    images = numbers.selectExpr(
        "code", *(f"CAST(reflect('java.lang.Character', '{step}', code) AS int)" for step in steps)
    )
    cased = set()
    for code, *found in (
        images.toDF("code", *steps)
        .where(" OR ".join(f"{step} <> code" for step in steps))
        .collect()
    ):
        cased.update([code, *found])
    cased.update(map(ord, oracle.table()[2]))
    characters = "".join(map(chr, sorted(cased)))
    tried = sorted(cased)[:: 1 if IS_NIGHTLY else 8]
    patterns = spark.createDataFrame([(chr(code), code) for code in tried], "s string, code int")
    pattern = f"concat('(?{flags})[\\\\x{{', hex(code), '}}]')"
    matched = f"regexp_extract_all('{characters}', {pattern}, 0) AS found"
    alike = patterns.selectExpr("s", matched).collect()
    several = sum(len(row.found) > 1 for row in alike)
    assert several >= 52 if flags == "i" and IS_NIGHTLY else several > 5
    folds = [(row.s, other) for row in alike for other in row.found]
    assert [pair for pair in folds if oracle.folded(pair[0]) != oracle.folded(pair[1])] == []


def test_a_query_is_a_constant_and_a_text_any_value(spark):
    rows = spark.createDataFrame([("War and Peace", 5), (None, 7)], "s string, n int")
    rows.createOrReplaceTempView("written")
    try:
        for call, expected in [
            ("text_match(s, concat('wa', 'r'))", [True, None]),
            ("text_match(s, NULL)", [None, None]),
            ("text_match(n, '5')", [True, False]),
            ("text_match(n, 5)", [True, False]),
            ("text_match(collate(s, 'UTF8_LCASE'), 'WAR')", [True, None]),
        ]:
            assert [
                row[0] for row in spark.sql(f"SELECT {call} FROM written").collect()
            ] == expected
        asked = spark.sql("SELECT s FROM written WHERE TEXT_MATCH(s, :q)", {"q": "pea*"})
        assert [row.s for row in asked.collect()] == ["War and Peace"]
        for call, words in [
            ("text_match(s, s)", "must be a constant"),
            ("text_match()", "takes 2 arguments, not 0"),
            ("TEXT_MATCH('war')", r"BAD_TEXT_QUERY.*of which column.*at position 1;"),
            ("TEXT_MATCH_WITH_LIMIT('s:war', 10)", "LIMIT at the query's end"),
            ("text_match(s, 'a:b')", r"BAD_TEXT_QUERY.*at position 2;"),
        ]:
            with pytest.raises(IllegalArgumentException, match=words):
                spark.sql(f"SELECT {call} FROM written")
    finally:
        spark.catalog.dropTempView("written")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("name:n10 -name:*n*", []),
        ("name:*10 -name:*x*", ["n10"]),
        ('city:"de brugge" OR name:N10', ["n10", "x11"]),
        ("-name:n10", ["x11", "x10"]),
        ("(name:x* AND city:brugge) OR (NOT name:x* city:-none)", None),
        ("name:x* AND NOT (city:brugge OR name:absent)", ["x10"]),
    ],
)
def test_a_query_of_carbondata_names_its_columns(spark, query, found):
    rows = [("n10", "Gent"), ("x11", "de Brugge"), ("x10", "Gent"), (None, None)]
    spark.createDataFrame(rows, "name string, city string").createOrReplaceTempView("named")
    table = pa.table({"name": [row[0] for row in rows], "city": [row[1] for row in rows]})
    asked = f"TEXT_MATCH('{query}')"
    try:
        if found is None:
            with pytest.raises(IllegalArgumentException, match="BAD_TEXT_QUERY"):
                spark.sql(f"SELECT name FROM named WHERE {asked}")
            return
        rows = spark.sql(f"SELECT name FROM named WHERE {asked}").collect()
        assert [row.name for row in rows] == found
        bound = bind(asked, table.schema)
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        matches = evaluate(bound, columns, len(table)).to_pylist()
        assert [name for name, is_found in zip(table["name"].to_pylist(), matches, strict=True)
                if is_found] == found  # fmt: skip
    finally:
        spark.catalog.dropTempView("named")


@pytest.mark.parametrize("local", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_the_engine_and_its_index_are_asked(spark, tmp_path, local):
    days = "timestamp_seconds(1704067200 + id * 86400) AS t"
    rows = spark.range(0, 12, 1, 1).selectExpr(days, "concat('page ', id, ' of Many') AS page")
    projseg.write(rows, tmp_path / "table", timeColumn="t", segmentGranularity="day")
    rows.createOrReplaceTempView("plain_pages")
    with using(spark, enabled="true", local_enabled=local):
        spark.sql(f"CREATE TABLE pages USING projseg LOCATION '{tmp_path / 'table'}'")
        try:
            spark.sql("CREATE INDEX words ON pages USING token (page)")
            for where in ("'\"page 7 of\"'", "'many 1* -11'", "'absent OR 3'"):
                text = f"SELECT page FROM pages WHERE text_match(page, {where}) ORDER BY page"
                found = spark.sql(text).collect()
                assert found == spark.sql(text.replace("pages", "plain_pages")).collect()
            text = "SELECT page, count(*) FROM pages WHERE text_match(page, 'page 7') GROUP BY page"
            assert len(spark.sql(text).collect()) == 1
            plan = spark.sql(text)._jdf.queryExecution().executedPlan().toString()
            assert "11 pruned (11 by index words)" in plan
        finally:
            spark.sql("DROP TABLE pages")
            spark.catalog.dropTempView("plain_pages")
