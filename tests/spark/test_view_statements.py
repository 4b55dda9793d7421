"""SQL statements about materialized views, in Spark's grammar and in CarbonData's words."""

from __future__ import annotations

import shutil

import pytest
from pyspark.errors import IllegalArgumentException
from spark_sql import plan_of, using

import projseg


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A table of a segment for each of twenty hours, to be copied."""
    place = tmp_path_factory.mktemp("sold") / "table"
    rows = spark.range(0, 400, 1, 1).selectExpr(
        "timestamp_seconds(1704067200 + (id % 20) * 3600 + id) AS order_time",
        "concat('user ', id) AS user_id",
        "IF(id % 3 = 0, 'f', 'm') AS sex",
        "concat('country ', id % 5) AS country",
        "CAST(id % 7 AS int) AS quantity",
        "id * 3 AS price",
    )
    projseg.write(rows, place, timeColumn="order_time", segmentGranularity="hour")
    return place


@pytest.fixture
def sql(spark, template, tmp_path):
    shutil.copytree(template, tmp_path / "sales")
    with using(spark, enabled="true"):
        spark.sql(f"CREATE TABLE sales USING projseg LOCATION '{tmp_path / 'sales'}'")
        try:
            yield spark.sql
        finally:
            for view in spark.sql("SHOW VIEWS").collect():
                if not view.isTemporary:
                    spark.sql(f"DROP VIEW {view.viewName}")
            spark.sql("DROP TABLE sales")


SELECT = "SELECT country, date_trunc('HOUR', order_time) AS hour, sum(price) AS p FROM sales"
GROUPED = f"{SELECT} GROUP BY country, hour"
CREATED = (
    "CREATE MATERIALIZED VIEW by_country CLUSTER BY (hour, country) COMMENT 'of countries' "
    f"TBLPROPERTIES ('chunk' = 'day', 'retain' = '9000 days') AS {GROUPED}"
)


def shown(sql, words="SHOW MATERIALIZED VIEWS ON TABLE sales"):
    return [(one.name, one.provider, one.status, one.state) for one in sql(words).collect()]


@pytest.mark.parametrize("clauses", ["OR REPLACE", pytest.param("", marks=pytest.mark.slow)])
def test_a_view_lives_by_statements(sql, clauses):
    made = sql(CREATED.replace("CREATE", f"CREATE {clauses}")).first()
    assert (made.view, made.parts, made.segments) == ("by_country", 1, 20)
    assert shown(sql) == [("by_country", "mv", "ENABLED", "fresh")]
    assert "view by_country: 1 parts for 20 segments" in plan_of(
        sql("SELECT country, sum(price) FROM sales GROUP BY country")
    )
    sql("INSERT INTO sales SELECT TIMESTAMP'2024-01-05', 'u', 'f', 'new', 1, 2L")
    assert shown(sql) == [("by_country", "mv", "ENABLED", "fresh")]
    assert sql("REFRESH MATERIALIZED VIEW by_country").first().added == 0
    assert sql("REFRESH MATERIALIZED VIEW by_country FULL").first().segments == 21
    assert sql("ALTER MATERIALIZED VIEW by_country DISABLE").first().status == "DISABLED"
    sql("ALTER MATERIALIZED VIEW by_country ON TABLE sales ENABLE")
    sql("ALTER MATERIALIZED VIEW by_country RENAME TO countries")
    sql("ALTER MATERIALIZED VIEW default.countries SET TBLPROPERTIES ('refresh' = 'deferred')")
    sql("ALTER MATERIALIZED VIEW countries UNSET TBLPROPERTIES ('retain')")
    told = {row.property: row.value for row in sql("DESC MATERIALIZED VIEW countries").collect()}
    assert (told["comment"], told["refresh"], told["state"]) == (
        "of countries",
        "deferred",
        "fresh",
    )
    assert "retain" not in told["options"]
    statement = sql("SHOW CREATE MATERIALIZED VIEW countries").first().createtab_stmt
    sql("INSERT INTO sales SELECT TIMESTAMP'2024-01-06', 'u', 'f', 'new', 1, 2L")
    assert shown(sql, "SHOW MATERIALIZED VIEWS LIKE 'count*'")[0][3] == "behind"
    done = sql("REFRESH MATERIALIZED VIEW countries FOR INTERVAL '2024-01-06/P1D' DRY RUN").first()
    assert (done.added, done.version) == (1, None)
    assert sql("ALTER MATERIALIZED VIEW countries COMPACT").first().segments == 22
    sql("DROP MATERIALIZED VIEW countries")
    sql("DROP MATERIALIZED VIEW IF EXISTS countries")
    assert shown(sql) == []
    sql(statement)
    assert shown(sql) == [("countries", "mv", "ENABLED", "fresh")]


def test_a_view_is_explained_before_it_is_made_and_built_later(sql):
    told = {row.property: row.value for row in sql(f"EXPLAIN {CREATED}").collect()}
    assert (told["grade"], told["rows_read"]) == ("grouped", "400")
    assert told["append"] == "folds the new segments alone"
    assert shown(sql) == []
    words = "WITH DEFERRED REFRESH PARTITIONED BY (date_trunc('MONTH', order_time))"
    create = f"CREATE MATERIALIZED VIEW IF NOT EXISTS v {words} AS {GROUPED}"
    assert sql(create).first().parts == 0
    sql(create)
    (row,) = sql("SHOW MATERIALIZED VIEWS FROM default").collect()
    assert (row.table, row.state, row.chunk, row.refresh) == ("sales", "empty", "P1M", "deferred")
    assert sql("REFRESH MATERIALIZED VIEW v").first().added == 1


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("REFRESH MATERIALIZED VIEW absent", "UNKNOWN_VIEW"),
        ("DROP MATERIALIZED VIEW absent ON TABLE sales", "UNKNOWN_VIEW"),
        ("DESCRIBE MATERIALIZED VIEW absent", "UNKNOWN_VIEW"),
        ("CREATE MATERIALIZED VIEW v AS SELECT user_id FROM sales", "BAD_VIEW"),
        (f"CREATE MATERIALIZED VIEW v TBLPROPERTIES ('chnk' = 'day') AS {GROUPED}", "'chunk'"),
        (f"CREATE MATERIALIZED VIEW v PARTITIONED BY (country) AS {GROUPED}", "BAD_VIEW"),
        (f"CREATE MATERIALIZED VIEW v CLUSTER BY (sex) AS {GROUPED}", "none of the grouping"),
        (f"CREATE MATERIALIZED VIEW v LOCATION '/x' AS {GROUPED}", "LOCATION is not taken"),
        ("CREATE MATERIALIZED VIEW v AS SELECT now(), sum(price) FROM sales", "DETERMINISTIC"),
    ],
)
def test_what_is_wrong_is_said(sql, statement, words):
    with pytest.raises(IllegalArgumentException, match=words):
        sql(statement)
    assert shown(sql) == []


def test_pipelines_get_their_own_plan_from_the_parser(spark, sql):
    if spark.version < "4.1":
        pytest.skip("pipelines came with Spark 4.1")
    parser = spark._jsparkSession.sessionState().sqlParser()
    plan = parser.parsePlan(f"CREATE MATERIALIZED VIEW v AS {GROUPED}")
    assert plan.getClass().getSimpleName() == "CreateMaterializedViewAsSelect"


def test_data_maps_of_carbondata_are_views_projections_and_indexes(sql):
    sql(f"CREATE DATAMAP v USING 'mv' DMPROPERTIES ('TABLE_BLOCKSIZE'='256 MB') AS {GROUPED}")
    sql(f"CREATE DATAMAP p ON TABLE sales USING 'mv' WITH DEFERRED REBUILD AS {GROUPED}")
    sql("CREATE DATAMAP i ON TABLE sales USING 'bloom' DMPROPERTIES ('bloom_column'='user_id')")
    found = sql("SHOW DATAMAPS ON TABLE sales").collect()
    assert [(one.name, one.provider, one.segments_covered) for one in found] == [
        ("v", "mv", 20),
        ("p", "projection", 0),
        ("i", "bloom", 20),
    ]
    assert {one.name for one in sql("SHOW DATAMAPS").collect()} == {"v", "p", "i"}
    assert sql("REBUILD DATAMAP p").first().segments == 20
    assert sql("REFRESH DATAMAP i ON TABLE sales").first().segments == 0
    assert sql("REBUILD DATAMAP v").first().segments == 20
    assert sql("ALTER DATAMAP v COMPACT 'MAJOR'").first().segments == 20
    with pytest.raises(IllegalArgumentException, match="OPTIMIZE"):
        sql("ALTER DATAMAP p COMPACT 'MINOR'")
    for name in "vpi":
        sql(f"DROP DATAMAP {name}")
    assert sql("SHOW DATAMAPS ON TABLE sales").collect() == []


def test_the_data_map_of_the_guide_answers_its_queries(sql):
    """The table, data map and queries of CarbonData's guide to views."""
    sql("""CREATE DATAMAP agg_sales
        ON TABLE sales
        USING "MV"
        DMPROPERTIES('TABLE_BLOCKSIZE'='256 MB','LOCAL_DICTIONARY_ENABLE'='false')
        AS
          SELECT country, sex, sum(quantity), avg(price)
          FROM sales
          GROUP BY country, sex""")
    hits = [
        "SELECT country, sex, sum(quantity), avg(price) from sales GROUP BY country, sex",
        "SELECT sex, sum(quantity) from sales GROUP BY sex",
        "SELECT avg(price), country from sales GROUP BY country",
    ]
    misses = [
        "SELECT user_id, country, sex, sum(quantity), avg(price) from sales "
        "GROUP BY user_id, country, sex",
        "SELECT country, max(price) from sales GROUP BY country",
    ]
    for text in hits + misses:
        answered = plan_of(sql(text))
        assert ("20 x agg_sales" in answered) == (text in hits), answered
    sql("REBUILD DATAMAP agg_sales")
    sql("DROP DATAMAP agg_sales")


@pytest.mark.parametrize("unit", ["second", "minute"])
@pytest.mark.parametrize("form", ["ON TABLE sales ", ""])
def test_time_series_of_the_guide_are_rolled_up(sql, unit, form):
    series = f"timeseries(order_time,'{unit}')"
    sql(f"""CREATE DATAMAP agg_sales {form}
        USING "MV"
        AS
          SELECT {series},avg(price)
          FROM sales
          GROUP BY {series}""")
    text = """SELECT timeseries(order_time,'hour'),avg(price)
        FROM sales
        GROUP BY timeseries(order_time,'hour')"""
    plain = text.replace("timeseries(order_time,'hour')", "date_trunc('hour', order_time)")
    assert sorted(sql(text).collect()) == sorted(sql(plain).collect())
    source = "20 x agg_sales" if form else "view agg_sales: "
    assert source in plan_of(sql(text))


@pytest.mark.parametrize(
    "select",
    [
        "SELECT country, sum(quantity) AS quantity FROM known GROUP BY country",
        pytest.param("SELECT * FROM known ORDER BY quantity LIMIT 3", marks=pytest.mark.slow),
        pytest.param(
            "SELECT s.country, count(*) FROM sales s JOIN known ON s.country = known.country "
            "GROUP BY s.country",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_view_over_a_view_is_refused_in_words(sql, select):
    sql(
        "CREATE MATERIALIZED VIEW known AS SELECT country, sex, sum(quantity) AS quantity "
        "FROM sales GROUP BY country, sex"
    )
    with pytest.raises(
        IllegalArgumentException, match=r"PROJSEG_VIEW_TABLE.*`known` is a materialized view"
    ):
        sql(f"CREATE MATERIALIZED VIEW daily AS {select}")
    assert [name for name, *_ in shown(sql)] == ["known"]
