"""Tables in DuckDB: which statements are answered from groups, at which version, and why not."""

from __future__ import annotations

import datetime
import decimal
import re
import threading

import pyarrow as pa
import pytest

import projseg
from projseg.errors import InvalidInputError

duckdb = pytest.importorskip("duckdb")
UTC = datetime.UTC
NOON = datetime.datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def edits(tmp_path):
    return projseg.Table.create(
        tmp_path / "edits",
        {"time": "timestamp", "channel": "string", "added": "bigint", "price": "decimal(9,2)"},
        time_column="time",
        projections=[projseg.Projection("by_channel", ["channel"], ["sum(added)", "count(*)"])],
        data={
            "time": [NOON, NOON, NOON + datetime.timedelta(days=1)],
            "channel": ["#en", "#de", "#en"],
            "added": [1, 2, 4],
            "price": [decimal.Decimal("1.50"), None, decimal.Decimal(2)],
        },
    )


def answered(tables, text, args=None):
    return tables.explain(text, args).to_pylist()


def test_a_question_is_answered_from_projections_with_types_of_duckdb(edits):
    tables = projseg.duckdb(edits)
    text = "SELECT channel, sum(added) AS added FROM edits GROUP BY channel ORDER BY added DESC"
    found = tables.sql(text)
    assert found.to_pylist() == [{"channel": "#en", "added": 5}, {"channel": "#de", "added": 2}]
    assert found.schema.field("added").type == pa.decimal128(38, 0)
    (row,) = answered(tables, text)
    assert (row["table"], row["answered"], row["sources"]) == (
        "edits", "groups", [("by_channel", 1)],
    )  # fmt: skip
    assert tables.connection.sql("SELECT count(*) FROM edits").fetchall() == [(3,)]
    assert tables.execute("SELECT count(*) FROM edits").fetchall() == [(3,)]


@pytest.mark.parametrize(
    ("text", "args", "total"),
    [
        ("SELECT sum(added) AS s FROM edits WHERE channel = ?", ["#en"], 5),
        ("SELECT sum(added) AS s FROM edits WHERE channel = $c", {"c": "#en"}, 5),
        ("SELECT sum(added) AS s FROM edits WHERE $2 = channel AND added < $1", [3, "#en"], 1),
        ("SELECT sum(added) AS s FROM edits WHERE time > ?", [NOON], 4),
        ("SELECT sum(added) + ? AS s FROM edits WHERE channel = ?", [1, "#en"], 6),
        ("SELECT sum(added) AS s FROM edits WHERE price > ?", [decimal.Decimal("1.5")], 4),
        ("SELECT s FROM (SELECT sum(added) AS s FROM edits WHERE added > ?), (SELECT ?)", [1, 0],
         6),
    ],
)  # fmt: skip
def test_parameters_are_values_of_the_question(edits, text, args, total):
    tables = projseg.duckdb({"edits": edits})
    for _ in range(2):
        assert tables.sql(text, args).column("s").to_pylist() == [total]
    assert [row["answered"] for row in answered(tables, text, args)] == ["groups"]


@pytest.mark.parametrize(
    ("text", "args", "reason"),
    [
        ("SELECT channel FROM edits", None, "neither grouped by nor an aggregate"),
        ("SELECT upper(channel) AS u, count(*) FROM edits GROUP BY ALL", None, "UPPER.*equal"),
        ("SELECT sum(added) FROM edits WHERE channel = 'a\\b'", None, "backslash"),
        ("SELECT sum(added) FROM edits WHERE channel = ?", [7], "compared with text"),
        ("SELECT sum(added) FROM edits WHERE channel = ?", [None], "is a NoneType"),
        ("SELECT sum(added) OVER () FROM edits", None, "a window"),
        ("WITH edits AS (SELECT 1 AS added) SELECT sum(added) FROM edits", None, "may hide"),
        ("WITH edits(added) AS (SELECT 1) SELECT sum(added) FROM edits", None, "may hide"),
        ("SELECT sum(added) FROM edits /* a comment */", None, "a comment"),
        ("CREATE TABLE copied AS SELECT sum(added) FROM edits", None, "another word"),
        ("SELECT sum(added) FROM edits JOIN edits AS e USING (added)", None, "several of its rows"),
    ],
)
def test_what_is_left_to_duckdb_says_why(edits, text, args, reason):
    edits.append({"time": [NOON], "channel": ["#fr"], "added": [2], "price": [None]})
    tables = projseg.duckdb({"edits": edits})
    rows = answered(tables, text, args)
    assert {row["answered"] for row in rows} == {"rows"}
    assert re.search(reason, rows[0]["reason"]), rows[0]["reason"]


def test_rows_that_duckdb_reads_are_shown_with_what_it_hands_over(edits):
    tables = projseg.duckdb({"edits": edits})
    (row,) = answered(tables, "SELECT channel FROM edits WHERE added > 1")
    assert row["columns"] == "channel"
    assert "added" in row["filter"]


def test_an_overflow_of_ours_is_duckdbs_answer(tmp_path):
    big = projseg.Table.create(tmp_path / "big", {"n": "bigint"}, data={"n": [2**63 - 1, 2]})
    assert projseg.duckdb(big).sql("SELECT sum(n) AS s FROM big").to_pylist() == [{"s": 2**63 + 1}]


def test_settings_of_the_session_are_its_own(edits):
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")
    tables = projseg.duckdb({"edits": edits}, connection)
    by_day = "SELECT date_trunc('day', time) AS d, count(*) AS c FROM edits GROUP BY d ORDER BY d"
    (row,) = answered(tables, by_day)
    assert "TimeZone" in row["reason"]
    latest = "SELECT max(time) AS t FROM edits WHERE time > '2024-05-01 12:00:00+00'"
    assert [row["answered"] for row in answered(tables, latest)] == ["groups"]
    assert tables.sql(latest).schema.field("t").type.tz == "America/New_York"
    connection.execute("SET TimeZone = 'UTC'")
    assert [row["answered"] for row in answered(tables, by_day)] == ["groups"]
    by_price = "SELECT price, count(*) AS c FROM edits GROUP BY price ORDER BY price"
    assert tables.sql(by_price).column("price").to_pylist()[-1] is None
    connection.execute("SET default_null_order = 'nulls_first'")
    assert tables.sql(by_price).column("price").to_pylist()[0] is None
    connection.execute("SET default_collation = 'nocase'")
    assert [row["answered"] for row in answered(tables, by_price)] == ["rows"]


def test_a_setting_that_a_statement_changes_is_seen(edits):
    tables = projseg.duckdb({"edits": edits})
    by_price = "SELECT price, count(*) AS c FROM edits GROUP BY price ORDER BY price"
    assert tables.sql(by_price).column("price").to_pylist()[-1] is None
    tables.sql("SET default_null_order = 'nulls_first'")
    assert tables.sql(by_price).column("price").to_pylist()[0] is None
    tables.execute("SET default_null_order = 'nulls_last'")
    assert tables.sql(by_price).column("price").to_pylist()[-1] is None


def test_a_statement_is_of_one_version_of_each_table(edits):
    tables = projseg.duckdb({"edits": edits}, max_age=0)
    still = projseg.duckdb({"edits": projseg.Table(edits.location)})
    both = "SELECT (SELECT count(*) FROM edits) AS c, count(*) AS r FROM (SELECT added FROM edits)"
    assert tables.sql(both).to_pylist() == [{"c": 3, "r": 3}]
    projseg.Table(edits.location).append(
        {"time": [NOON], "channel": ["#fr"], "added": [8], "price": [None]}
    )
    assert tables.sql(both).to_pylist() == [{"c": 4, "r": 4}]
    assert still.sql(both).to_pylist() == [{"c": 3, "r": 3}]


def test_threads_ask_one_connection(edits):
    tables = projseg.duckdb({"edits": edits})
    texts = [
        "SELECT channel, sum(added) AS s FROM edits GROUP BY channel ORDER BY s",
        "SELECT sum(added) / count(*) AS s FROM edits",
        "SELECT added AS s FROM edits WHERE added > 1 ORDER BY s",
    ]
    wanted, found = [tables.sql(text) for text in texts], []

    def ask(place):
        for turn in range(5):
            text = (place + turn) % len(texts)
            found.append(tables.sql(texts[text]).equals(wanted[text]))

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 20


def test_names_with_a_schema_and_names_that_are_none(edits):
    tables = projseg.duckdb({"sales.edits": edits})
    assert tables.sql("SELECT sum(added) AS s FROM sales.edits").to_pylist() == [{"s": 7}]
    assert [row["table"] for row in answered(tables, "SELECT count(*) FROM SALES.Edits")] == [
        "sales.edits"
    ]
    with pytest.raises(InvalidInputError, match="differ only in case"):
        projseg.duckdb({"a": edits, "A": edits})
    with pytest.raises(InvalidInputError, match="give a projseg Table"):
        projseg.duckdb({"a": 1})
    with pytest.raises(InvalidInputError, match="max_age is a number of seconds"):
        projseg.duckdb({"a": edits}, max_age="soon")
    with pytest.raises(duckdb.Error):
        tables.sql("SELECT nothing FROM sales.edits")
