"""Statements that are cut short, or in which words are lost, doubled or swapped.

Each is refused in words of SQL, with the place, or is a statement still: DuckDB answers it alike.
"""

import random
import re

import duckdb
import pyarrow as pa
import pytest
from answers_agree import same
from scale import tries
from sql_statements import (
    OF_ALL,
    OF_SPARK,
    duckdb_over,
    in_duckdb,
    statement_rows,
    statement_table,
    values_of,
)

import projseg
from projseg.algebra.expressions.dialect import parse_sql, sql_tokens
from projseg.errors import CODES, ProjsegError

OF_STARS = [
    "SELECT p.region, count(*) AS n, sum(e.added) FROM edits AS e JOIN places AS p "
    "ON e.channel = p.code WHERE e.robot GROUP BY p.region ORDER BY n DESC",
    "SELECT channel, region FROM edits LEFT JOIN places ON edits.channel = places.code "
    "AND region <> 'r1' WHERE added > 90",
    "SELECT count(*) FROM edits e, places p WHERE e.channel = p.code AND p.region = 'r0'",
    "SELECT max(price) FROM edits LEFT SEMI JOIN places ON channel = code",
    "SELECT min(price) FROM edits WHERE channel IN (SELECT code FROM places WHERE region = 'r1')",
    "SELECT region, count(*) FROM edits JOIN places USING (channel) GROUP BY ALL",
]
EXPRESSIONS = [
    "CASE WHEN added > 3 THEN upper(channel) ELSE 'x' END",
    "CAST(price AS decimal(9, 2)) + added * -2",
    "channel IN ('a', 'b') AND NOT (robot OR added BETWEEN 1 AND 3)",
    "date_trunc('HOUR', time) + INTERVAL '3' HOURS",
    "extract(YEAR FROM time) = 2024 AND channel LIKE '#%' ESCAPE '!'",
    "added IS NOT NULL OR channel <=> NULL AND price IS NOT DISTINCT FROM 1.5",
    "array(1, added)[0] + struct(1 AS a).a + ceil(price, 1)",
    "TIMESTAMP '2024-05-01 00:00:00' < time AND day >= DATE '2024-05-01'",
    "time AT TIME ZONE 'UTC' AS local",
    "added::bigint | 4 & 2 ^ 1",
]
INSIDE = re.compile(
    r"sqlglot|[Ee]xpression type|[Kk]eyword|<class|<\w+ |Token|\bexp\.|object at 0x|Expect|"
    r"Invalid|\bNone\b|_parse|Parse|Failed|Line \d|\\x1b|\bVAR\b|L_PAREN|\[\]|\{\}|__"
)
NOT_SQL = re.compile(r" is not (?:a )?Spark SQL(?: expression)?(: .*, at character \d+.*)?")
BETWEEN_WORDS = re.compile(
    r": |, at character | cannot stand | cannot begin |after |before |follows "
)


def mangled(text):
    """Yield a text with one change at each of its words."""
    words = [text[token.start : token.end + 1] for token in sql_tokens(text)]
    for place in range(len(words)):
        before, after = words[:place], words[place:]
        yield before
        yield [*before, *after[1:]]
        yield [*before, after[0], *after]
        yield [*before, *after[1::-1], *after[2:]]
        yield [*after, *before]


def drawn(texts, count, seed):
    """Return some of all mangled texts, spread over all of them."""
    every = sorted({" ".join(words) for text in texts for words in mangled(text) if words})
    return random.Random(seed).sample(every, min(count, len(every)))


def check_refusal(error, text):
    assert error.code in CODES, text
    assert error.code != "PROJSEG_INTERNAL", (text, error)
    shown = error.message.removeprefix(f"'{text}'")
    assert not INSIDE.search(shown), (text, error)
    if found := NOT_SQL.search(shown):
        assert found[1], (text, error)
        place = int(re.search(r"at character (\d+)", found[1])[1]) - 1
        words = BETWEEN_WORDS.split(found[1])
        words = [end.removesuffix("...") for one in words for end in (one, one[1:-1])]
        assert any(one and text.startswith(one, place) for one in words), (text, error, words)


@pytest.fixture(scope="module")
def rows():
    return statement_rows()


@pytest.fixture(scope="module")
def places():
    return pa.table({"code": ["#a", "#b", "#c"], "region": ["r0", "r0", "r1"]})


@pytest.fixture(scope="module")
def table(rows, tmp_path_factory):
    return statement_table(tmp_path_factory.mktemp("mangled") / "edits", rows)


@pytest.fixture(scope="module")
def others(places, tmp_path_factory):
    location = tmp_path_factory.mktemp("mangled") / "places"
    return {"places": projseg.Table.create(location, data=places)}


@pytest.fixture(scope="module")
def peer(rows, places):
    with duckdb_over(rows) as connection:
        connection.register("places", places)
        yield connection


def peer_answer(peer, text):
    """Return DuckDB's rows; None if they are not to be compared."""
    if re.search(r"(?i)\b(limit|offset)\b", text):
        return None
    try:
        return values_of(peer.sql(in_duckdb(text)).to_arrow_table())
    except duckdb.Error:
        return None


def test_a_mangled_statement_is_refused_in_words_of_sql_or_answered_as_duckdb_does(
    table, others, peer
):
    refused = answered = compared = 0
    texts = drawn([*OF_ALL, *OF_STARS], tries(6_000, by_day=500), seed=5)
    for text in [*texts, *drawn(OF_SPARK, tries(3_000, by_day=200), seed=7)]:
        try:
            found = values_of(table.sql(text, tables=others))
        except ProjsegError as error:
            check_refusal(error, text)
            refused += 1
            continue
        answered += 1
        expected = peer_answer(peer, text) if text in texts else None
        if expected is None:
            continue
        compared += 1
        assert len(found) == len(expected), text
        for row, other in zip(sorted(found, key=repr), sorted(expected, key=repr), strict=True):
            assert all(map(same, row, other)), (text, row, other)
    assert min(refused, answered, compared) > 20


def test_a_mangled_expression_is_refused_in_words_of_sql():
    refused = 0
    for text in drawn(EXPRESSIONS, tries(2_000, by_day=500), seed=6):
        try:
            parse_sql(text)
        except ProjsegError as error:
            check_refusal(error, text)
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT added FROM edits JOIN ", " 'JOIN', at character 25"),
        ("FROM edits, places SELECT", "nothing follows SELECT, at character 20"),
        ("SELECT (added FROM edits", ") is missing before 'FROM', at character 15"),
        ("SELECT (added", ") is missing after 'added', at character 9"),
        ("SELECT CAST(added) FROM edits", "AS is missing before ')', at character 18"),
        ("SELECT a AND FROM edits", "'FROM' cannot stand after 'AND', at character 14"),
        ("SELECT a FORM edits x",
         "'edits' cannot stand after 'FORM', at character 15; did you mean 'FROM'?"),
        ("SELECT , added FROM edits", "a part of a list is empty before ',', at character 8"),
        ("SELECT sum(added AS) x FROM edits", "a name is missing before ')', at character 20"),
        ("SELECT added AS, day FROM edits", "no name follows AS"),
        ("SELECT added FROM edits AS WHERE robot", "in backticks if it is that, at character 25"),
        ("SELECT /*+ */ added FROM edits", "a hint cannot be read, at character 8"),
        ("SELECT /*+ 'x */ added FROM edits", "a hint cannot be read, at character 8"),
        ("SELECT CAST(added AS foo) FROM edits", "a type is missing before 'foo'"),
        ("SELECT DISTINCT AS channel c FROM edits", "'c' cannot stand after 'channel'"),
        ("WITH AS g (SELECT 1 FROM edits) SELECT * FROM g", "a name is missing before 'AS'"),
    ],
)  # fmt: skip
def test_the_place_and_the_word_there_are_named(table, others, text, problem):
    with pytest.raises(ProjsegError, match="PROJSEG_BAD_SQL") as refused:
        table.sql(text, tables=others)
    assert problem in refused.value.message


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT added FROM edits LIMIT 1 BY added", "LIMIT ... BY"),
        ("SELECT added FROM edits FETCH FIRST 5 ROWS ONLY", "FETCH"),
        ("SELECT added FROM edits FOR UPDATE", "FOR UPDATE or FOR SHARE"),
        ("SELECT added FROM edits AT (TIMESTAMP => 'x')", "AT or BEFORE behind a table's name"),
        ("SELECT convert(added, int) FROM edits", "function 'convert' is not supported"),
        ("SELECT max(added ORDER BY day) FROM edits", "'added ORDER BY day' is not supported"),
        ("SELECT (added, day) FROM edits", "'(added, day)' is not supported in expressions"),
    ],
)
def test_clauses_of_other_dialects_are_named_in_words_of_sql(table, text, what):
    with pytest.raises(ProjsegError, match="PROJSEG_UNSUPPORTED") as refused:
        table.sql(text)
    assert what in refused.value.message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sum(added", ") is missing after 'added', at character 5"),
        (") added", "')' cannot begin it, at character 1"),
        ("added +", "nothing follows '+', at character 7"),
        ("added x 'y'", "'y' cannot stand after 'x', at character 9"),
        ("added BETWEEN 1 2", "AND is missing before '2', at character 17"),
        ("added BETWEEN 1 2 AND 3", "AND is missing before '2', at character 17"),
        ("CASE WHEN robot 1 ELSE 2 END", "THEN is missing before '1', at character 17"),
        ("CASE WHEN robot THEN 1 ELSE 2", "END is missing after '2', at character 29"),
        ("extract(YEAR FROM time = 2024", ") is missing before '=', at character 24"),
        ("ceil(price, 1", ") is missing after '1', at character 13"),
        ("CAST(price AS decimal(9, 2)", ") is missing after ')', at character 27"),
        ("CAST(price AS decimal(9 9, 2))",
         "a type has something else than numbers in brackets before ')', at character 30"),
        ("added NOT IS NULL", "'NOT' cannot stand after 'added', at character 7"),
        ("added NOT NULL", "'NOT' cannot stand after 'added', at character 7"),
        ("added NOT", "'NOT' cannot stand after 'added', at character 7"),
        ("added IN", "a list is missing after 'IN', at character 7"),
    ],
)  # fmt: skip
def test_an_expression_is_refused_at_its_own_place(text, problem):
    with pytest.raises(ProjsegError, match="PROJSEG_BAD_EXPRESSION") as refused:
        parse_sql(text)
    assert refused.value.message.endswith(f"is not a Spark SQL expression: {problem}")
