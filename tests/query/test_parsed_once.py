"""A statement is parsed once: its expressions are bound from the tree, whatever clause has them."""

from collections import Counter
from datetime import UTC, datetime
from random import Random

import pyarrow as pa
import pytest
from scale import tries
from sqlglot.parser import Parser
from sqlglot.tokens import Tokenizer

import projseg
from projseg.errors import InvalidInputError, UnsupportedFeatureError

COLUMNS = ("channel", "page")
KINDS = {
    "rows": "SELECT {c}, upper({c}) AS u FROM t WHERE {w} ORDER BY added + {n}, t.time DESC "
    "LIMIT 5",
    "all columns": "SELECT * EXCEPT (time) FROM t WHERE {w} LIMIT 3",
    "distinct": "SELECT DISTINCT {c}, t.{c} AS again FROM t WHERE {w} ORDER BY 1",
    "groups": "SELECT {c}, sum(added) AS s, count(*) FILTER (WHERE robot) AS n FROM t WHERE {w} "
    "GROUP BY {c} HAVING sum(added) > {n} ORDER BY s DESC NULLS LAST, max(deleted)",
    "computed": "SELECT date_trunc('hour', time) AS h, sum(added) / count(*) FROM t WHERE {w} "
    "AND time < TIMESTAMP '2030-01-01 00:00:00' - INTERVAL {n} SECONDS GROUP BY h ORDER BY h",
    "sets": "SELECT {c}, robot, grouping_id() AS g, max(added) FROM t WHERE {w} "
    "GROUP BY {sets} ORDER BY g, {c}",
    "subquery": "SELECT {c}, max(m) AS m FROM (SELECT {c}, added + {n} AS m FROM t WHERE {w}) "
    "WHERE m > {n} GROUP BY {c}",
    "groups of groups": "WITH g AS (SELECT {c}, sum(added) AS m FROM t WHERE {w} GROUP BY {c}) "
    "SELECT sum(m) AS total FROM g WHERE m > {n}",
    "join": "SELECT d.region, {c}, sum(added) FROM t JOIN places d ON t.channel = d.code "
    "WHERE {w} AND d.region <> 'x{n}' GROUP BY d.region, {c} ORDER BY d.region",
    "semi join": "SELECT count(*) FROM t WHERE {w} AND channel IN "
    "(SELECT code FROM places WHERE region > 'a{n}')",
    "names": "SELECT {c}, sum(added) AS s FROM t WHERE {w} AND page <> :p GROUP BY {c} ORDER BY s",
    "positions": "SELECT {c} FROM t WHERE {w} AND page <> ? AND deleted < ? LIMIT ?",
}
SETS = ("ROLLUP({c}, robot)", "CUBE({c}, robot)", "GROUPING SETS (({c}, robot), ({c}), ())")
CONDITIONS = (
    "deleted > {n}",
    "page <> 'q{n}'",
    "added BETWEEN {n} AND 9{n}",
    "page IN ('p{n}', 'p2')",
    "time >= '2024-05-01 00:00:{n}'",
    "NOT (robot OR added * 2 = {n})",
    "concat(page, '{n}') LIKE 'p%'",
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parsed_once")
    rows = pa.table(
        {
            "time": pa.array([datetime(2024, 5, 1, n, tzinfo=UTC) for n in range(20)]),
            "channel": [f"c{n % 3}" for n in range(20)],
            "page": [f"p{n}" for n in range(20)],
            "added": list(range(20)),
            "deleted": [n % 7 for n in range(20)],
            "robot": [n % 2 == 0 for n in range(20)],
        }
    )
    places = pa.table({"code": ["c0", "c1", "c2"], "region": ["a", "b", "b"]})
    made = []
    for name, content, time in (("edits", rows, "time"), ("places", places, None)):
        made.append(projseg.Table.create(folder / name, content.schema, time_column=time))
        made[-1].append(content)
    return made


def asked(kind, text, tables):
    edits, places = tables
    given = {"names": {"p": "p3"}, "positions": ["p3", 5, 2]}.get(kind)
    others = {"places": places} if "join" in kind else None
    return edits.sql(text, args=given, tables=others)


@pytest.fixture
def counts(monkeypatch):
    """How often a text was parsed, and taken apart into tokens."""
    found = Counter()

    def count(owner, name):
        called = getattr(owner, name)

        def counting(*args, **named):
            found[name] += 1
            return called(*args, **named)

        monkeypatch.setattr(owner, name, counting)

    count(Parser, "parse")
    count(Tokenizer, "tokenize")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_statement_is_parsed_once(kind, tables, counts):
    draw = Random(kind)
    for _ in range(tries(4)):
        column = draw.choice(COLUMNS)
        where = " AND ".join(draw.sample(CONDITIONS, 2))
        text = KINDS[kind].replace("{w}", where).replace("{sets}", draw.choice(SETS))
        numbers = draw.sample(range(10, 60), 2)
        # How constants stand in a filter is found out once for all statements that differ in them.
        first, second = (text.replace("{c}", column).replace("{n}", str(n)) for n in numbers)
        asked(kind, first, tables)
        counts.clear()
        asked(kind, second, tables)
        assert counts == {"parse": 1, "tokenize": 1}, second
        asked(kind, second, tables)
        assert counts == {"parse": 1, "tokenize": 1}, second


def test_a_new_statement_without_constants_is_parsed_once(tables, counts):
    asked("groups", "SELECT robot, sum(added) AS s FROM t WHERE page > channel GROUP BY 1", tables)
    assert counts == {"parse": 1, "tokenize": 1}


def test_a_column_may_be_named_all_in_every_clause(tmp_path):
    table = projseg.Table.create(tmp_path, pa.schema({"all": pa.int64(), "b": pa.int64()}))
    table.append(pa.table({"all": [1, None, 7], "b": [1, 2, 3]}))
    assert table.sql("SELECT b FROM t WHERE all IS NULL").to_pydict() == {"b": [2]}
    found = table.sql("SELECT all + 1 AS n FROM t WHERE all IN (1, 7) ORDER BY all DESC")
    assert found.to_pydict() == {"n": [8, 2]}


def test_an_error_counts_the_characters_of_the_text_that_was_given(tables):
    text = "SELECT page FROM t WHERE added > ? AND AND robot"
    with pytest.raises(InvalidInputError, match="at character 40"):
        tables[0].sql(text, args=[3])
    assert text[39:42] == "AND"


def test_a_tree_means_in_a_statement_what_it_means_in_a_query(tables):
    edits, _ = tables
    written = {
        "time AT TIME ZONE 'America/New_York'": datetime(2024, 4, 30, 20),
        "array_contains([1, added], 0)": True,
        "[added, 7][1]": 7,
        "page = r'p0'": True,
        "CAST(page AS VARCHAR(1))": "p0",
    }
    for text, value in written.items():
        asked_for = edits.query(columns=[text], filter="page = 'p0'")
        found = edits.sql(f"SELECT {text} FROM t WHERE page = 'p0'")
        assert found.column_names == asked_for.column_names
        assert found.to_pylist() == asked_for.to_pylist()
        assert found.column(0)[0].as_py() == value, text


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("use_view(...)", "use_view(...)"),
        ("broadcast(Edits)", "BROADCAST"),
        ("no_views, Merge(Edits, p)", "MERGE"),
        ("repartition(3)", "REPARTITION"),
        ("no_views(p)", "NO_VIEWS"),
        ("'Edits'", "'Edits'"),
    ],
)
def test_a_hint_that_is_refused_is_named_as_it_is_written(written, named, tables):
    with pytest.raises(UnsupportedFeatureError) as refused:
        tables[0].sql(f"SELECT /*+ {written} */ page FROM t")
    assert refused.value.message.startswith(
        f"SQL has the hint {named} at character 8, '/*+ {written}"
    )
