"""Texts of SQL statements about projections, segments, versions and rows: right, and nearly right.

A form has `[...]` for what may be left out, `<a|b>` for a choice, and `{kind}` for a part that is
drawn by itself. What is drawn from a form is then hurt now and then: words are lost, doubled,
swapped or strange, quotes and brackets are left open, comments and spaces stand anywhere.
"""

from __future__ import annotations

import random
import re

STATEMENTS = """
ALTER TABLE {table} ADD PROJECTION [IF NOT EXISTS] {name} [AS] ({select}) [DEFERRED]
ALTER TABLE {table} DROP PROJECTION [IF EXISTS] {name}
ALTER TABLE {table} MATERIALIZE PROJECTION {name} [FOR INTERVAL {interval}]
SHOW PROJECTIONS [<FROM|IN> {table}]
SHOW SEGMENTS <FROM|IN> {table}
<DESCRIBE|DESC> PROJECTION {name} ON {table}
<DESCRIBE|DESC> HISTORY {table}
OPTIMIZE {table} [FOR INTERVAL {interval}] [PURGE] [DRY RUN]
VACUUM {table} [RETAIN {number} HOURS [FORCE]] [DRY RUN]
RESTORE [TABLE] {table} TO <VERSION AS OF {number}|TIMESTAMP AS OF {instant}>
CREATE {view} [IF NOT EXISTS] {name} ON TABLE {table} [USING {provider}] {later} AS {select}
CREATE DATAMAP {name} ON TABLE {table} AS {provider} [DMPROPERTIES ({properties})]
CREATE DATAMAP {name} ON TABLE {table} [USING {provider}] DMPROPERTIES ({properties}) AS {select}
<REFRESH|REBUILD> {view} {name} ON TABLE {table}
SHOW <{view}|MATERIALIZED VIEWS> [ON TABLE {table}] [LIKE {text}]
DROP {view} [IF EXISTS] {name} [ON TABLE {table}]
CREATE [OR REPLACE] {view} [IF NOT EXISTS] {name} {later} [TBLPROPERTIES ({properties})] AS {select}
<REFRESH|REBUILD> {view} {name} [FULL] [FOR INTERVAL {interval}] [DRY RUN]
ALTER {view} {name} <ENABLE|DISABLE|COMPACT {text}|RENAME TO {name}>
ALTER {view} {name} SET TBLPROPERTIES ({properties})
CREATE INDEX [IF NOT EXISTS] {name} ON {table} [USING bloom] ({term}) [OPTIONS ({properties})]
CREATE DATAMAP {name} ON TABLE {table} USING {provider} DMPROPERTIES ({properties})
<DROP|REFRESH|DESCRIBE> INDEX {name} ON [TABLE] {table}
SHOW INDEXES [<FROM|ON> {table}]
ALTER TABLE {table} MATERIALIZE INDEX {name} [FOR INTERVAL {interval}]
""".strip().split("\n")

SELECTS = """
SELECT {term}, {aggregate} AS a [FROM {table}] [WHERE {term} > {number}] GROUP BY <{term}|ALL|1>
SELECT [DISTINCT] {term}, {term} [FROM {table}] [WHERE {term} = {text}] [ORDER BY {term} [DESC]]
SELECT {aggregate}, {aggregate} FILTER (WHERE {term} < {number}) [FROM {table}]
SELECT * FROM {table} [WHERE {term} IN ({text}, {text})] [ORDER BY {term}] [LIMIT {number}]
SELECT {term}, {aggregate} FROM {table} GROUP BY <ROLLUP|CUBE> ({term}) HAVING {aggregate} > 1
""".strip().split("\n")

_PARTS = {
    "table": ["t", "t", "t", "`t`", "default.t", "spark_catalog.default.t", "absent", "foreign_t",
     "projseg.`/nowhere/at/all`", "a.b.c.t", "spark_catalog.default.a.t", "v", "``", "tä", "1t",
     "projseg.`s3://u:p@host/x`", "projseg.`/\0`", "'t'", "t.t", "projseg.t", "delta.`/x`"],
    "name": ["p", "p", "by_k", "`a b`", "absent", "1p", "p.q", "`", "``", "äö", "`😀`", "'p'",
     "x" * 300, "`" + "y" * 3_000 + "`", "`__base`", "`a``b`", "`/`", "`\u202e`"],
    "view": ["MATERIALIZED VIEW", "DATAMAP", "MATERIALIZED VIEWS", "VIEW", "INDEX"],
    "later": ["", "", "WITH DEFERRED REBUILD", "WITH DEFERRED REFRESH", "WITH DEFERRED"],
    "provider": ["'mv'", "'timeseries'", "'preaggregate'", "'lucene'", "'bloomfilter'", '"MV"'],
    "properties": ["'event_time' = 't', 'hour_granularity' = '1'", "'index_columns' = 'k'", "",
     "'event_time'='absent','day_granularity'='1'", "'a' = ", "'event_time' = '$1', 'x' = '\\'"],
    "interval": ["'2024-01-01/2024-02-01'", "'2024-01-01/P1M'", "''", "'/'", "'a/b'", "'P1D/P1D'",
     "'2024-02-30/2024-03-01'", "'99999-01-01/P9999999Y'", '"2024/2025"', "2024", "'\\u0000/'",
     "'2024-02-01/2024-01-01'", "'-9999-01-01/2024'", "'2024-01-01T00:00+99:99/P1D'"],
    "number": ["0", "1", "7", "168", "-1", "1.5", "1e3", "9223372036854775807", "9" * 30, "'1'",
     "NULL", "٣", "0x10", ":n", "10000000000", "1L", "999999999999999"],
    "instant": ["'2024-01-01'", "'2024-13-01'", "''", "'now'", "'0001-01-01'", "'99999-01-01'", "1",
     "now()", "'2024-01-01T00:00:00+25:00'", "'2999-01-01'", "TIMESTAMP '2024-01-01'"],
    "text": ["'a'", "''", "'o''clock'", "'\\'", '"b"', "X'4142'", "r'\\d'", "'\\uD800'", "NULL",
     "'😀'", "'" + "z" * 5_000 + "'", "DATE '2024-02-31'", "INTERVAL '1' DAY", "'a"],
    "term": ["k", "n", "t", "k", "n", "upper(k)", "absent", "date_trunc('hour', t)", "n + 1", "1",
     "CAST(k AS INT)", "n / 0", "`k`", "t.k", "CASE WHEN n > 1 THEN k END", "nosuch(k)", "*", "",
     "k -- ?\n", "(SELECT 1)", "sum(n) OVER ()", "k[0]", "n::int", "-(-n)", "k LIKE 'a%'", "()",
     "(" * 60 + "n" + ")" * 60, "count(*)", "date_trunc(k, t)", "timeseries(t, 'hour')", ":n"],
    "aggregate": ["sum(n)", "count(*)", "max(t)", "min(k)", "avg(n)", "sum(k)", "sum(sum(n))", "n",
     "count(DISTINCT k)", "percentile_approx(n, 0.5)", "approx_count_distinct(k)", "sum()", "sum",
     "first(k)", "count(absent)", "sum(n) FILTER (WHERE k > 'a')", "nosuch(n)"],
}  # fmt: skip
_STRANGE = [";", ";;", ",", "(", ")", "'", '"', "`", "--", "/*", "/* a /* b */", "*/", "\\", "\0"]
_STRANGE += ["\u00a0", "\u2028", "😀", "=", ".", "..", "?", ":x", "@v1", "$$", "AS", "FROM", "NULL"]
_STRANGE += ["SELECT", "{", "}", "[", "]", "TABLE", "ON", "1", "'x'", "/*+ NO_PROJECTIONS */", "%"]
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_CHOICE = re.compile(r"<([^<>|]+(?:\|[^<>|]+)+)>")
_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|\w+|\s+|.", re.DOTALL)


def drawn(seed: int, forms: list[str]) -> str:
    """Return a text of one of the forms, whole or hurt."""
    chance = random.Random(seed)
    text = _filled(chance, chance.choice(forms))
    for _ in range(chance.choice([0, 0, 1, 1, 2, 4])):
        text = _hurt(chance, text)
    return text


def drawn_part(chance: random.Random, kind: str) -> str:
    """Return a part of a kind; most are right, so that a text gets far."""
    known = _PARTS[kind]
    return chance.choice(known[:3] if chance.random() < 0.6 else known)


def selects(seed: int) -> str:
    """Return a SELECT, whole or hurt."""
    return drawn(seed, SELECTS)


def statements(seed: int) -> str:
    """Return a statement of any kind, whole or hurt."""
    return drawn(seed, STATEMENTS + SELECTS)


def _filled(chance: random.Random, form: str) -> str:
    while re.search(_OPTIONAL, form):
        form = re.sub(_OPTIONAL, lambda found: chance.choice([found[1], ""]), form)
    form = re.sub(_CHOICE, lambda found: chance.choice(found[1].split("|")), form)

    def part(found: re.Match[str]) -> str:
        if found[1] == "select":
            return _filled(chance, chance.choice(SELECTS))
        return drawn_part(chance, found[1])

    return re.sub(r"\{(\w+)\}", part, form)


def _hurt(chance: random.Random, text: str) -> str:
    tokens = _TOKEN.findall(text) or [""]
    at, other = chance.randrange(len(tokens)), chance.randrange(len(tokens))
    match chance.randrange(9):
        case 0:
            del tokens[at]
        case 1:
            tokens.insert(at, tokens[other])
        case 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case 3:
            tokens.insert(at, f" {chance.choice(_STRANGE)} ")
        case 4:
            tokens[at] = chance.choice(_STRANGE)
        case 5:
            tokens = tokens[:at]
        case 6:
            tokens[at] = chance.choice([tokens[at].upper(), tokens[at].lower(), tokens[at][1:]])
        case 7:
            tokens.append(
                chance.choice([";", " ;;", " --", " /* x */", " extra", ")", " AS", "\n"])
            )
        case _:
            tokens.insert(at, chance.choice(["/* a */", "\n", "\t", " -- b\n", "/* /* */ */"]))
    return "".join(tokens)
