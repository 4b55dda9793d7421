"""What `Table.sql` alone takes, and the sentence that refuses each thing it does not."""

import datetime

import pytest
from sql_statements import ROWS, statement_rows, statement_table

import projseg
from projseg.errors import InvalidInputError, ProjsegError, UnsupportedFeatureError


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return statement_table(tmp_path_factory.mktemp("sql") / "edits", statement_rows())


@pytest.mark.sampled(50)
@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("SELECT added FROM t JOIN u ON t.a = u.a", "a join at character 21, 'JOIN u ON"),
        ("SELECT added FROM t LEFT JOIN u", "a join at character 26"),
        ("SELECT added FROM t, u", "a join at character 20, ', u'"),
        ("SELECT added FROM t CROSS JOIN u", "a join"),
        ("SELECT added FROM (SELECT (SELECT 1) FROM t)", "a subquery at character 28"),
        ("SELECT a FROM (SELECT b FROM t) JOIN u", "a join at character 33"),
        ("SELECT added FROM (t)", "brackets in FROM at character 19"),
        ("SELECT added FROM t WHERE added IN (SELECT 1)", "a subquery"),
        ("SELECT added FROM t WHERE EXISTS (SELECT 1)", "a subquery"),
        ("SELECT (SELECT 1) FROM t", "a subquery"),
        ("WITH RECURSIVE a AS (FROM t SELECT 1) SELECT * FROM a", "WITH RECURSIVE at character 6"),
        ("WITH a (x) AS (SELECT 1) SELECT * FROM a", "something other than a SELECT after WITH"),
        ("WITH a AS (VALUES (1)) SELECT * FROM a", "something other than a SELECT after WITH"),
        (
            "SELECT sum(added) OVER (ORDER BY time) FROM t",
            "a window function (OVER) at character 19",
        ),
        ("SELECT added FROM t WINDOW w AS (ORDER BY time)", "a WINDOW clause"),
        ("SELECT added FROM t QUALIFY added > 1", "QUALIFY"),
        ("SELECT added FROM t UNION ALL SELECT 1", "UNION at character 21"),
        ("SELECT added FROM t INTERSECT SELECT 1", "INTERSECT"),
        ("SELECT added FROM t EXCEPT SELECT 1", "EXCEPT or MINUS between two queries"),
        ("SELECT added FROM t LATERAL VIEW explode(a) x", "LATERAL VIEW or a lateral join"),
        ("SELECT added FROM t PIVOT (sum(a) FOR b IN (1))", "PIVOT"),
        ("SELECT added FROM t TABLESAMPLE (5 ROWS)", "TABLESAMPLE"),
        ("SELECT added FROM t CLUSTER BY added", "CLUSTER BY"),
        ("SELECT added FROM t DISTRIBUTE BY added", "DISTRIBUTE BY"),
        ("SELECT added FROM t SORT BY added", "SORT BY"),
        ("SELECT added FROM t |> WHERE added > 1", "a pipe (|>)"),
        ("SELECT added FROM t; SELECT added FROM t", "a second statement at character 20"),
        ("SELECT added FROM range(5)", "a table function or VALUES"),
        ("SELECT added FROM VALUES (1)", "a table function or VALUES"),
        ("SELECT added FROM t TIMESTAMP AS OF now()", "a version that is no number and no text"),
        ("SELECT added FROM t AS x (a)", "brackets in FROM"),
        ("SELECT added FROM t AS x (b)", "brackets in FROM"),
        ("SELECT /*+ BROADCAST(t) */ added FROM t", "the hint BROADCAST at character 8"),
        ("SELECT * REPLACE (1 AS added) FROM t", "something other than EXCEPT (...) or EXCLUDE"),
        ("INSERT INTO t SELECT 1", "a statement that does not begin with SELECT at character 1"),
        ("DROP TABLE t", "a statement that does not begin with SELECT"),
    ],
)
def test_what_is_more_than_a_select_over_one_table_is_named(statement, what, table):
    with pytest.raises(UnsupportedFeatureError) as refused:
        table.sql(statement)
    assert refused.value.code == "PROJSEG_UNSUPPORTED_SQL"
    assert refused.value.message.startswith(f"SQL has {what}")
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    ("statement", "code", "problem"),
    [
        ("", "BAD_SQL", "there is no statement"),
        ("SELECT 1", "BAD_SQL", "no FROM stands outside brackets"),
        ("SELECT (added FROM t", "BAD_SQL", ") is missing before 'FROM', at character 15"),
        ("SELECT FROM t", "BAD_SQL", "nothing follows SELECT, at character 1"),
        ("SELECT added, FROM t", "BAD_SQL", "a part of a list is empty"),
        ("SELECT added FROM t WHERE", "BAD_SQL", "nothing follows WHERE, at character 21"),
        ("SELECT added AS, channel FROM t", "BAD_SQL", "no name follows AS; write one, `as` in"),
        ("SELECT added AS FROM t", "BAD_SQL", "no name follows AS"),
        ("SELECT added FROM t AS", "BAD_SQL", "no name follows AS"),
        ("SELECT added FROM t AS WHERE robot", "BAD_SQL", "that, at character 21"),
        ("SELECT added FROM (SELECT added FROM t) AS", "BAD_SQL", "no name follows AS"),
        ("SELECT added FROM (SELECT added AS FROM t)", "BAD_SQL", "no name follows AS"),
        ("SELECT added FROM t LIMIT x", "BAD_SQL", "LIMIT 'x' is not a count of rows"),
        ("SELECT added FROM t FROM u", "BAD_SQL", "FROM stands twice, at character 21"),
        ("SELECT added FROM t LIMIT 1 WHERE robot", "BAD_SQL", "WHERE stands after a clause"),
        ("SELECT added FROM t ORDER BY 2", "BAD_SQL", "ORDER BY 2 is no place in the select list"),
        ("SELECT count(*) FROM t GROUP BY 1", "BAD_SQL", "GROUP BY '1' means the aggregate"),
        ("SELECT u.* FROM t", "BAD_SQL", "u.* names no table of FROM"),
        ("SELECT min(added) AS channel FROM t GROUP BY upper(channel) HAVING upper(channel) = 'A'",
         "BAD_SQL", "means a column that has the name of another output"),
        ("SELECT min(added) AS channel FROM t GROUP BY robot ORDER BY t.channel",
         "BAD_SQL", "'t.channel' means a column that has the name of another output"),
        ("SELECT 'x FROM t", "BAD_EXPRESSION", "has no end; close it"),
        ("SELECT added FROM t WHERE text_match('+')", "BAD_TEXT_QUERY", "+"),
        ("FROM t", "BAD_SQL", "a statement without SELECT"),
        ("WITH", "BAD_SQL", "a statement is not Spark SQL"),
        ("WITH a AS SELECT", "BAD_SQL", "nothing follows SELECT, at character 11"),
        ("SELECT a FROM (SELECT b FROM t", "BAD_SQL", "not Spark SQL: ) is missing after 't'"),
        ("SELECT x FROM (SELECT 1)", "BAD_SQL", "no FROM stands outside brackets"),
        ("SELECT x FROM (SELECT added AS x, price AS x FROM t)", "BAD_SQL", "two columns 'x'"),
        ("SELECT added AS x, price AS x FROM t ORDER BY x", "BAD_SQL", "any of the outputs"),
        ("SELECT price FROM (SELECT added FROM t)", "UNKNOWN_COLUMN", "'price'"),
        ("SHOW TABLES", "BAD_SQL", "is no statement that projseg knows; write EXPLAIN"),
        ("EXPLAIN DELETE FROM t", "BAD_SQL", "is no statement that projseg knows"),
        ("DESCRIBE HISTORY t", "BAD_SQL", "is no statement that projseg knows"),
        ("SELECT x.chanel FROM t AS x", "UNKNOWN_COLUMN", "did you mean 'channel'?"),
        ("SELECT * EXCEPT (chanel) FROM t", "UNKNOWN_COLUMN", "did you mean 'channel'?"),
        ("SELECT edits.added FROM edits AS x", "UNKNOWN_COLUMN", "column 'edits'"),
        ("SELECT added FROM t VERSION AS OF 9", "UNKNOWN_VERSION", "9"),
        ("SELECT added FROM t VERSION AS OF 'x'", "UNKNOWN_TAG", "'x'"),
    ],
)  # fmt: skip
def test_what_is_no_sql_is_refused(statement, code, problem, table):
    with pytest.raises(InvalidInputError) as refused:
        table.sql(statement)
    assert refused.value.code == f"PROJSEG_{code}"
    assert problem in refused.value.message


def test_as_where_a_column_stands_is_one(table):
    within = "FROM (SELECT added AS `as` FROM t)"
    found = table.sql(f"SELECT as {within}")
    assert found.column_names == ["as"]
    assert found.equals(table.sql(f"SELECT `as` {within}"))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT DISTINCT channel, count(*) FROM t",
        "SELECT DISTINCT count(*) AS n FROM t GROUP BY channel",
        "SELECT DISTINCT channel, count(*) FROM t GROUP BY ROLLUP (channel)",
        "SELECT channel, count(*) FROM t",
        "SELECT added FROM t GROUP BY channel",
        "SELECT channel FROM t HAVING added > 3",
        "SELECT channel FROM t WHERE count(*) > 1",
        "SELECT DISTINCT channel FROM t ORDER BY added",
        "SELECT added AS lo FROM t WHERE lo > 1",
    ],
)
def test_what_spark_refuses_is_refused(statement, table):
    with pytest.raises(ProjsegError):
        table.sql(statement)


def test_names_of_outputs_are_as_written_or_as_spark_makes_them(table):
    statement = "SELECT CHANNEL, x.Added, added + 1, count(*), sum(x.added) AS S FROM edits AS x "
    names = table.sql(statement + "GROUP BY ALL LIMIT 1").column_names
    assert names == ["CHANNEL", "Added", "(added + 1)", "count(1)", "S"]


def test_comments_quotes_and_keywords_within_them_change_nothing(table):
    found = table.sql(
        "SELECT /* SELECT */ 'FROM; t' AS `order by`, \"it's\" AS é -- GROUP BY\n"
        "FROM db.`a table` -- WHERE\n WHERE added /* LIMIT 0 */ IS NOT NULL "
        "AND '\U0001f600' <> 'é' AND `a table`.added IS NOT DISTINCT FROM db.`a table`.added "
        "LIMIT 1 -- the end"
    )
    assert found.to_pylist() == [{"order by": "FROM; t", "é": "it's"}]


def test_other_versions_are_read(table):
    version = "SELECT count(*) AS n FROM t VERSION AS OF"
    assert table.sql(f"{version} 1").to_pylist() == [{"n": ROWS // 3}]
    assert table.sql(f"{version} '1'").to_pylist() == [{"n": ROWS // 3}]
    first = table.history()["timestamp"].to_pylist()[-1].isoformat()
    at = f"SELECT count(*) AS n FROM t FOR TIMESTAMP AS OF '{first}' AS old WHERE old.added >= 0"
    assert table.sql(at).to_pylist() == [{"n": 0}]
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_VERSION"):
        table.sql("SELECT * FROM t TIMESTAMP AS OF '2001-01-01'")


def test_a_tag_names_a_version(tmp_path):
    table = projseg.Table.create(tmp_path / "t", {"a": "int"}, data={"a": [1]})
    table.tag("first", version=0)
    table.append({"a": [2]})
    assert len(table.sql("SELECT a FROM t VERSION AS OF 'first' AS x WHERE x.a > 0")) == 1


def test_hints_win_over_the_context(table):
    grouped = "channel, sum(added) FROM t GROUP BY channel"
    plan = table.sql(f"SELECT {grouped}", explain=True)
    assert set(plan.sources) == {"base", "by_channel"}
    base = table.sql(f"SELECT /*+ NO_PROJECTIONS */ {grouped}", explain=True)
    assert set(base.sources) == {"base"}
    hinted = f"SELECT /*+ use_projection(hourly) */ {grouped}"
    refused = {"useProjection": "by_channel", "timezone": "Asia/Kolkata"}
    with pytest.raises(ProjsegError, match="hourly"):
        table.sql(hinted, context=refused)
    assert table.explain("SELECT count(*) FROM t", context=refused | {"useProjection": None})


def test_a_query_and_explain_take_either_form(table):
    query = projseg.Query("channel", "sum(added) AS s", order_by="channel")
    statement = "SELECT channel, sum(added) AS s FROM t GROUP BY channel ORDER BY channel"
    assert table.sql(query).equals(table.query(query))
    assert table.sql(statement).equals(table.query(query))
    plans = [
        table.sql(query, explain=True),
        table.sql(statement, explain=True),
        table.explain(statement),
        table.explain(statement, analyze=True),
    ]
    assert {plan.query for plan in plans} == {query}
    assert plans[-1].total_milliseconds is not None
    with pytest.raises(InvalidInputError, match="limit is given beside a whole statement"):
        table.explain(statement, limit=3)


def test_times_are_in_the_zone_of_the_context(table):
    statement = "SELECT date_trunc('DAY', time) AS d, count(*) AS n FROM t GROUP BY d ORDER BY d"
    utc, india = table.sql(statement), table.sql(statement, context={"timezone": "Asia/Kolkata"})
    assert sum(utc["n"].to_pylist()) == sum(india["n"].to_pylist()) == ROWS
    assert not utc.equals(india)


def test_rows_past_an_offset_are_the_rest(table):
    whole = table.sql("SELECT time, added FROM t ORDER BY time DESC")
    for offset, limit in [(0, 5), (590, 20), (600, 1), (10**17, 10**17)]:
        found = table.sql(
            f"SELECT time, added FROM t ORDER BY time DESC LIMIT {limit} OFFSET {offset}"
        )
        assert found.equals(whole.slice(min(offset, ROWS), limit))


def test_outputs_may_have_one_name(table):
    found = table.sql("SELECT channel, channel, added AS x, price AS x, count(*) OVERALL FROM t "
                      "GROUP BY ALL ORDER BY channel LIMIT 3")  # fmt: skip
    assert found.column_names == ["channel", "channel", "x", "x", "OVERALL"]
    assert found.column(0) == found.column(1)
    assert found.column(2).type != found.column(3).type
    counts = table.sql("SELECT count(*), sum(added), count(*) FROM t")
    assert counts.column_names == ["count(1)", "sum(added)", "count(1)"]
    assert counts.column(2).to_pylist() == [ROWS]


def test_a_filter_within_is_applied_before_expressions_without(table):
    kept = "SELECT added AS a FROM t WHERE added <> 0"
    assert table.sql(f"SELECT count(*) AS n FROM ({kept}) WHERE 1 / a > 0").num_rows == 1
    assert table.sql(f"SELECT min(1 / a) FROM ({kept})").num_rows == 1


def test_a_subquery_that_keeps_rows_is_answered_from_projections(tmp_path):
    table = projseg.Table.create(
        tmp_path / "t",
        {"time": "timestamp", "channel": "string", "added": "int"},
        time_column="time",
        projections=[projseg.Projection("p", ["channel"], ["sum(added)", "count(*)"])],
    )
    noon = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
    table.append({"time": [noon, noon], "channel": ["a", "a"], "added": [1, 2]})
    within = "SELECT channel AS c, added AS a, time FROM t WHERE channel > 'A'"
    forced = {"forceProjections": True}
    statement = f"SELECT c, sum(a) AS s FROM ({within}) q GROUP BY q.c"
    assert table.sql(statement, context=forced).to_pylist() == [{"c": "a", "s": 3}]
    assert table.explain(statement).sources == {"p": 1}
    groups = "WITH g AS (SELECT channel, sum(added) AS s FROM t GROUP BY 1) SELECT max(s) FROM g"
    assert table.sql(groups, context=forced).column(0).to_pylist() == [3]
    assert table.explain(groups).sources == {"p": 1}
    hinted = groups.replace("SELECT max", "SELECT /*+ NO_PROJECTIONS */ max")
    assert table.explain(hinted).sources == {"base": 1}


def test_names_that_with_gives_hide_no_table(table):
    found = table.sql(
        "WITH edits AS (SELECT added + 1 AS a FROM edits), b AS (SELECT a + 1 AS a FROM Edits) "
        "SELECT max(a) AS a FROM b"
    )
    (most,) = table.sql("SELECT max(added) AS a FROM t").column("a").to_pylist()
    assert found.column("a").to_pylist() == [most + 2]
    assert table.sql("SELECT count(*) AS n FROM (SELECT * FROM t VERSION AS OF 0)")["n"][
        0
    ].as_py() == len(table.sql("SELECT * FROM t VERSION AS OF 0"))


def test_statements_tell_of_the_table(table):
    plan = table.sql("EXPLAIN SELECT count(*) FROM t").column("plan").to_pylist()
    assert plan == [str(table.explain("SELECT count(*) FROM t"))]
    (analyzed,) = table.sql("explain analyze select count(*) from t")["plan"].to_pylist()
    assert "ms" in analyzed
    described = table.sql("DESCRIBE TABLE t").to_pylist()
    assert [row["col_name"] for row in described] == table.schema.names
    assert described[0] == {"col_name": "time", "data_type": "timestamp", "comment": None}
    assert table.sql("SHOW PROJECTIONS FROM t") == table.projections()
    assert table.sql("SHOW SEGMENTS") == table.segments()
    assert table.sql("SHOW COLUMNS IN t").to_pylist()[0] == {"col_name": "time"}


@pytest.mark.parametrize(
    "statement",
    ["EXPLAIN SELECT count(*) FROM t", "DESCRIBE T", "desc table `t`", "SHOW PROJECTIONS FROM t"],
)
def test_statements_over_named_tables_tell_of_one(table, statement):
    found = projseg.sql(statement, {"other": table, "t": table})
    assert found == table.sql(statement)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DESCRIBE nosuch", "'nosuch' is none of the tables given"),
        ("SHOW PROJECTIONS", "names none of several tables"),
        ("EXPLAIN DELETE FROM t", "is no statement that projseg knows"),
        ("SHOW TABLES", "'SHOW TABLES' is no statement that projseg knows"),
        ("DROP TABLE t", "is a SELECT, EXPLAIN, DESCRIBE or SHOW"),
    ],
)
def test_what_tells_of_no_table_is_refused(table, statement, message):
    with pytest.raises(projseg.ProjsegError, match=message) as caught:
        projseg.sql(statement, {"other": table, "t": table})
    assert caught.value.code == "PROJSEG_BAD_SQL"


def test_a_text_that_is_the_name_of_a_column_warns_over_named_tables(table):
    with pytest.warns(UserWarning, match="write `channel` for the column") as caught:
        projseg.sql('SELECT count(*) AS n FROM t WHERE "channel" = 1 OR TRUE', {"t": table})
    assert caught[0].filename == __file__


def test_a_text_that_is_the_name_of_a_column_warns(table):
    with pytest.warns(UserWarning, match="write `channel` for the column, or 'Channel' for the"):
        found = table.sql(
            "SELECT count(*) AS n FROM (SELECT added FROM t WHERE \"Channel\" = '#a')"
        )
    assert found["n"].to_pylist() == [0]
    table.sql("SELECT count(*) FROM t WHERE channel <> \"no column\" AND 'channel' <> 'added'")
