"""Comments and spaces, wherever they stand in a statement, change no answer at any door."""

import random

import pyarrow as pa
import pytest
from scale import tries

import projseg

STATEMENTS = [
    "SELECT k , sum ( v ) AS s FROM edits GROUP BY k ORDER BY k",
    "WITH few AS ( SELECT k , v FROM edits WHERE v > 1 ) SELECT count ( * ) AS n FROM few",
    "EXPLAIN SELECT count ( * ) AS n FROM edits",
    "DESCRIBE edits",
    "DESCRIBE TABLE edits",
    "SHOW COLUMNS FROM edits",
    "SHOW PROJECTIONS IN edits",
]
GAPS = [
    "/* one */",
    "/* SELECT 'it; */",
    "/* of /* a ; */ comment */",
    "-- EXPLAIN `it's; \n",
    "--\n",
    "/**/",
    "\t\r\n",
    "/*\n--*/",
]


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    place = tmp_path_factory.mktemp("comments")
    schema = pa.schema([("time", pa.timestamp("us", tz="UTC")), ("k", pa.string()), ("v", "int64")])
    table = projseg.Table.create(place / "edits", schema, time_column="time")
    times = pa.array([0, 1, 2], pa.timestamp("us", tz="UTC"))
    table.append(pa.table({"time": times, "k": ["a", "b", "a"], "v": [1, 2, 3]}, schema))
    pytest.importorskip("sqlalchemy")
    catalog = projseg.Catalog(place / "catalog.sqlite")
    catalog.register("edits", place / "edits")
    return {
        "a table": table.sql,
        "tables by name": lambda text: projseg.sql(text, {"edits": table}),
        "a catalog": catalog.sql,
    }


def commented(draw, statement):
    """Return a statement with comments and spaces around each of its words."""
    words = statement.split()
    gaps = ["".join(draw.choices(GAPS, k=draw.randint(0, 2))) or " " for _ in range(len(words) + 1)]
    return "".join(f"{gap} {word}" for gap, word in zip(gaps, words, strict=False)) + gaps[-1]


@pytest.mark.parametrize("seed", range(tries(300, 12)))
def test_comments_change_no_answer(doors, seed):
    draw = random.Random(seed)
    for statement in STATEMENTS:
        text = commented(draw, statement)
        for door, ask in doors.items():
            assert ask(text).to_pylist() == ask(statement).to_pylist(), (door, text)


@pytest.mark.parametrize(
    "text", ["-- only", "/* only */", "", " ;", "/* open", "-- c\nDELETE FROM edits"]
)
def test_what_is_no_statement_is_refused(doors, text):
    for ask in doors.values():
        with pytest.raises(projseg.errors.ProjsegError) as refused:
            ask(text)
        assert refused.value.code in (
            "PROJSEG_BAD_SQL",
            "PROJSEG_UNSUPPORTED_SQL",
            "PROJSEG_BAD_EXPRESSION",
        )
