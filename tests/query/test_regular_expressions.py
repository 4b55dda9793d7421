"""Filters with RLIKE over a table: the same rows from projections and from base rows."""

import pyarrow as pa
import pytest

import projseg
from projseg.algebra.expressions.patterns import all_patterns_accepted

TEXTS = ["b", "b\n", "b\r\n", "bc", "\u00e9b", "B", None, "xb"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rows = pa.table({"text": TEXTS * 50, "n": range(50 * len(TEXTS))})
    made = projseg.Table.create(
        str(tmp_path_factory.mktemp("regex") / "table"),
        rows.schema,
        projections=[
            projseg.Projection("by_text", ["text"], ["count(*) AS n"]),
            projseg.Projection("ends", ["text"], ["sum(n) AS s"], where="text RLIKE 'b$'"),
        ],
    )
    made.append(rows)
    return made


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("b$", ["b", "b\n", "b\r\n", "\u00e9b", "xb"]),
        ("(^|x)b$", ["b", "b\n", "b\r\n", "xb"]),
        ("(?i)^b", ["b", "b\n", "b\r\n", "bc", "B"]),
        ("^[^x]*b([^c]|$)", ["b", "b\n", "b\r\n", "\u00e9b"]),
    ],
)
def test_a_pattern_finds_the_same_from_every_source(table, pattern, found):
    condition = f"text RLIKE '{pattern}'"
    question = {"group_by": "text", "aggregators": "count(*) AS n", "filter": condition}
    expected = dict.fromkeys(found, 50)
    for context, source in (({}, "by_text"), ({"noProjections": True}, "base")):
        answer = table.query(**question, context=context)
        assert dict(zip(*answer.to_pydict().values(), strict=True)) == expected
        assert list(table.explain(**question, context=context).sources) == [source]


def test_a_projection_filtered_by_a_pattern_keeps_what_the_pattern_finds(table):
    question = {"group_by": "text", "aggregators": "sum(n) AS s", "filter": "text RLIKE 'b$'"}
    answer = table.query(**question)
    assert list(table.explain(**question).sources) == ["ends"]
    assert answer.sort_by("text") == table.query(
        **question, context={"noProjections": True}
    ).sort_by("text")
    assert set(answer["text"].to_pylist()) == {"b", "b\n", "b\r\n", "\u00e9b", "xb"}


def test_a_table_that_declares_a_refused_pattern_is_read_and_written(tmp_path):
    """Earlier releases read more patterns; such a projection is left out of segments."""
    found = projseg.Projection("words", ["text"], ["sum(n) AS s"], where="text RLIKE '\\\\bfoo'")
    with all_patterns_accepted():
        made = projseg.Table.create(
            str(tmp_path / "table"), {"text": "string", "n": "bigint"}, projections=[found]
        )
    made.append([{"text": "a foo", "n": 1}, {"text": "b", "n": 2}])
    table = projseg.Table(str(tmp_path / "table"))
    answer = table.query(aggregators="sum(n) AS s")
    assert answer.to_pylist() == [{"s": 3}]
    assert table.verify(deep=True) == []
    with pytest.raises(projseg.errors.UnsupportedFeatureError, match="word boundary"):
        table.query(aggregators="sum(n) AS s", filter="text RLIKE '\\\\bfoo'")
