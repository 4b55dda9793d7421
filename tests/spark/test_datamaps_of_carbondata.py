"""The statements of CarbonData's guides to data maps and views, and what EXPLAIN says of them.

`STORED AS carbondata` is `USING projseg` here; all else stands as in the guides.
"""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from scale import IS_NIGHTLY
from spark_sql import using

CREATE_SALES = """CREATE TABLE sales (
  order_time timestamp,
  user_id string,
  sex string,
  country string,
  quantity int,
  price bigint)
USING projseg TBLPROPERTIES ('timeColumn' = 'order_time', 'segmentGranularity' = 'hour')"""
LOAD = """INSERT INTO sales SELECT timestamp_seconds(1704067200 + id * 240), concat('u', id % 9),
IF(id % 3 = 0, 'f', 'm'), concat('c', id % 5), CAST(id % 7 AS int), id * 3 FROM range({0}, {1})"""


@pytest.fixture
def sql(spark):
    with using(spark, enabled="true"):
        spark.sql("CREATE DATABASE carbon")
        spark.sql("USE carbon")
        try:
            yield spark.sql
        finally:
            spark.sql("USE default")
            spark.sql("DROP DATABASE carbon CASCADE")


def explained(sql, text):
    return sql(f"EXPLAIN {text}").first()[0]


def check(sql, text, source):
    """Compare an answer with Spark's own; EXPLAIN names its source, or None of the data maps."""
    plan = explained(sql, text)
    found = sql(text)
    rows = found.collect()
    with using(found.sparkSession, enabled="false"):
        expected = sql(text).collect()
    assert sorted(map(repr, rows)) == sorted(map(repr, expected))
    named = "datamap_1", "agg_sales"
    if source is None:
        assert not any(f"x {n}" in plan or f"from view {n}" in plan for n in named), plan
    else:
        assert source in plan, plan


def test_the_quick_example(sql):
    sql("CREATE TABLE maintable(a int, b string, c int) USING projseg")
    sql("insert into maintable select 1, 'ab', 2")
    # The guide adds up a text, of which Spark makes a double or an error: that is written out here.
    with pytest.raises(IllegalArgumentException, match="needs a number, found string"):
        sql("CREATE DATAMAP d on table maintable as SELECT a, sum(b) from maintable group by a")
    summed = "try_cast(b AS double)"
    sql(
        f"CREATE DATAMAP datamap_1 on table maintable as SELECT a, sum({summed}), sum(c) "
        "from maintable group by a"
    )
    check(sql, "SELECT a, sum(c) from maintable group by a", "1 x datamap_1")
    check(sql, f"SELECT a, sum({summed}) from maintable group by a", None)
    (row,) = sql("SHOW DATAMAPS ON TABLE maintable").collect()
    assert (row.name, row.segments_covered) == ("datamap_1", 1)
    # As a view it is the guide's own text: no groups, as the text is cast, but stored rows.
    summing = "SELECT a, sum(b) from maintable group by a"
    sql("DELETE FROM maintable")
    sql("insert into maintable select 1, '7', 2")
    sql(f"CREATE DATAMAP agg_sales USING 'mv' as {summing}")
    check(sql, summing, "from view agg_sales: ")
    assert {row.name for row in sql("SHOW DATAMAPS ON TABLE maintable").collect()} == {
        "datamap_1",
        "agg_sales",
    }
    for words in ("select a,b,c from maintable", "select * from maintable"):
        with pytest.raises(IllegalArgumentException, match="PROJSEG_BAD_VIEW"):
            sql(f"CREATE DATAMAP rows USING 'mv' AS {words}")


def test_the_guides_view_of_sales_through_its_life(sql):
    sql(CREATE_SALES)
    sql(LOAD.format(0, 40))
    # In the words of the guide a projection inside each segment; without ON TABLE, a view.
    for words in ("", "ON TABLE sales"):
        made = f"""CREATE DATAMAP agg_sales
            {words}
            USING "MV"
            DMPROPERTIES('TABLE_BLOCKSIZE'='256 MB','LOCAL_DICTIONARY_ENABLE'='false')
            AS
              SELECT country, sex, sum(quantity), avg(price)
              FROM sales
              GROUP BY country, sex"""
        sql(made)
        source = " x agg_sales" if words else "from view agg_sales: "
        check(
            sql,
            "SELECT country, sex, sum(quantity), avg(price) from sales GROUP BY country, sex",
            source,
        )
        check(sql, "SELECT sex, sum(quantity) from sales GROUP BY sex", source)
        check(sql, "SELECT avg(price), country from sales GROUP BY country", source)
        check(
            sql,
            "SELECT user_id, country, sex, sum(quantity), avg(price) from sales "
            "GROUP BY user_id, country, sex",
            None,
        )
        # The guide's view has a sum of quantity alone; a view here counts its values, and segments
        # know whether some are null.
        mean = "SELECT sex, avg(quantity) from sales GROUP BY sex"
        check(sql, mean, source)
        check(sql, "SELECT country, max(price) from sales GROUP BY country", None)
        assert [row.name for row in sql("SHOW DATAMAPS").collect()] == ["agg_sales"]
        sql("REBUILD DATAMAP agg_sales")
        if not words:
            assert sql("ALTER DATAMAP agg_sales COMPACT 'MAJOR'").first().segments > 0
        sql("DROP DATAMAP agg_sales")
    assert sql("SHOW DATAMAPS").collect() == []


PROPERTIES = """'SORT_COLUMNS'='country', 'SORT_SCOPE'='LOCAL_SORT', 'TABLE_BLOCKSIZE'='256 MB',
'FLAT_FOLDER'='true', 'LONG_STRING_COLUMNS'='sex', 'LOCAL_DICTIONARY_ENABLE'='false',
'LOCAL_DICTIONARY_THRESHOLD'='1000', 'LOCAL_DICTIONARY_EXCLUDE'='sex', 'INVERTED_INDEX'='sex',
'NO_INVERTED_INDEX'='country', 'COLUMN_COMPRESSOR'='zstd'"""


@pytest.mark.slow
def test_what_the_guides_say_of_a_main_table_and_its_views(sql):
    sql(CREATE_SALES)
    sql(LOAD.format(0, 40))
    grouped = "SELECT country, sum(quantity) AS q FROM sales GROUP BY country"
    made = sql(f"CREATE DATAMAP agg_sales USING 'MV' DMPROPERTIES ({PROPERTIES}) AS {grouped}")
    assert made.first().ignored.count(",") == 10, "eleven properties are named"
    check(sql, grouped, "from view agg_sales: ")
    # Loads, overwrites, updates and deletes of the main table reach a view that is not lazy.
    for change in (
        LOAD.format(40, 60),
        "INSERT OVERWRITE sales SELECT * FROM sales WHERE price > 9",
        "UPDATE sales SET quantity = 0 WHERE sex = 'f'",
        "DELETE FROM sales WHERE country = 'c2'",
        "OPTIMIZE sales",
    ):
        sql(change)
        check(sql, grouped, "from view agg_sales: ")
        assert sql("SHOW DATAMAPS").first().state == "fresh"
    # It is queried as it is called, and written to by nobody.
    assert sql("SELECT * FROM agg_sales").count() == 4
    with pytest.raises(Exception, match="PROJSEG_VIEW_READ_ONLY"):
        sql("INSERT INTO agg_sales VALUES ('c9', 1)")
    # Columns that it does not read may change, and those that it reads be renamed or widened.
    sql("ALTER TABLE sales DROP COLUMN user_id")
    sql("ALTER TABLE sales ALTER COLUMN quantity TYPE bigint")
    sql("ALTER TABLE sales RENAME COLUMN quantity TO amount")
    check(sql, grouped.replace("quantity", "amount"), "from view agg_sales: ")
    # A limit or a union is no group: its rows are stored.
    for name, text in (
        ("few", "SELECT country FROM sales WHERE price > 50 ORDER BY price LIMIT 3"),
        ("both", "SELECT country FROM sales UNION ALL SELECT sex FROM sales"),
    ):
        sql(f"CREATE DATAMAP {name} USING 'mv' AS {text}")
        check(sql, text, f"view {name}")
    # One that fails is no obstacle for the others, and is caught up with later.
    sql("CREATE TABLE regions(code string, region string) USING projseg")
    sql("INSERT INTO regions VALUES ('c0', 'north')")
    star = (
        "SELECT region, sum(amount) AS q FROM sales JOIN regions r ON country = r.code "
        "GROUP BY region"
    )
    sql(f"CREATE DATAMAP named USING 'mv' AS {star}")
    sql("INSERT INTO regions VALUES ('c0', 'twice')")
    sql("INSERT INTO sales SELECT TIMESTAMP'2024-02-01', 'm', 'c0', 5L, 6L")
    states = {row.name: row.state for row in sql("SHOW DATAMAPS").collect()}
    assert (states["agg_sales"], states["named"]) == ("fresh", "failed")
    sql("DELETE FROM regions WHERE region = 'twice'")
    assert {row.name: row.state for row in sql("SHOW DATAMAPS").collect()}["named"] == "fresh"
    check(sql, star, "from view named: ")
    # The views go with their main table.
    sql("DROP TABLE sales")
    assert sql("SHOW DATAMAPS").collect() == []


def test_lazy_and_non_lazy_views_of_several_tables(sql):
    sql(CREATE_SALES)
    sql(LOAD.format(0, 40))
    sql("CREATE TABLE regions(code string, region string) USING projseg")
    sql("INSERT INTO regions VALUES ('c0', 'north'), ('c1', 'south'), ('c2', 'north')")
    select = (
        "SELECT region, sum(quantity) AS q, count(*) AS c FROM sales JOIN regions r "
        "ON country = r.code GROUP BY region"
    )
    # A multi-table data map: `mv`, on manual refresh. It answers nothing before that.
    sql(f"CREATE DATAMAP IF NOT EXISTS agg_sales USING 'mv' WITH DEFERRED REBUILD AS {select}")
    check(sql, select, None)
    sql("REFRESH DATAMAP agg_sales")
    check(sql, select, "from view agg_sales: ")
    # The guide disables a lazy view after a load; here it answers for what it stands for.
    sql(LOAD.format(40, 60))
    check(sql, select, "from view agg_sales: ")
    (row,) = sql("SHOW DATAMAPS").collect()
    assert (row.name, row.provider, row.status, row.state) == (
        "agg_sales",
        "mv",
        "ENABLED",
        "behind",
    )
    sql("REBUILD DATAMAP agg_sales")
    sql("DROP DATAMAP agg_sales")
    # Not lazy: loaded with each load, of the fact or of the other table; updates are allowed.
    sql(f"CREATE DATAMAP agg_sales USING 'mv' AS {select}")
    sql("UPDATE sales SET quantity = 1 WHERE user_id = 'u3'")
    sql("DELETE FROM regions WHERE code = 'c1'")
    check(sql, select, "from view agg_sales: ")
    assert sql("SHOW DATAMAPS").first().state == "fresh"
    # Lossless joins, and the left join: `F JOIN D` serves `F`, and `F LEFT JOIN D`.
    check(sql, "SELECT sum(quantity), count(*) FROM sales", "from view agg_sales: ")
    check(sql, select.replace("JOIN", "LEFT JOIN"), "from view agg_sales: ")
    # A column that a data map reads is kept; another may be added.
    with pytest.raises(Exception, match="PROJSEG_COLUMN_IN_USE"):
        sql("ALTER TABLE sales DROP COLUMN quantity")
    sql("ALTER TABLE sales ADD COLUMN more int")
    check(sql, select, "from view agg_sales: ")


@pytest.mark.parametrize("form", ["", pytest.param("ON TABLE sales", marks=pytest.mark.slow)])
def test_time_series_are_rolled_up(sql, form):
    sql(CREATE_SALES)
    sql(LOAD.format(0, 40))
    series = "timeseries(order_time,'five_minute')"
    create = f"""CREATE DATAMAP agg_sales
        {form}
        USING "MV"
        AS
          SELECT {series},avg(price)
          FROM sales
          GROUP BY {series}"""
    if not form and sql.__self__.version < "4.2":  # whose views have no function of an extension
        with pytest.raises(AnalysisException, match="INVALID_TEMP_OBJ_REFERENCE"):
            sql(create)
        assert sql("SHOW DATAMAPS").collect() == []
        sql(create.replace("five_minute", "hour"))
        text = "SELECT timeseries(order_time, 'day') t, avg(price) FROM sales GROUP BY t"
        check(sql, text, "from view agg_sales: ")
        return
    sql(create)
    source = " x agg_sales" if form else "from view agg_sales: "
    units = ("year", "month", "week", "day", "hour", "thirty_minute", "fifteen_minute")
    for unit in units if IS_NIGHTLY else units[::3]:
        text = f"""SELECT timeseries(order_time,'{unit}'),avg(price)
            FROM sales
            GROUP BY timeseries(order_time,'{unit}')"""
        check(sql, text, source)
    for unit in ("ten_minute", "five_minute"):
        check(
            sql,
            f"SELECT timeseries(order_time, '{unit}') t, avg(price) FROM sales GROUP BY t",
            source,
        )
    for unit in ("minute", "second"):
        check(
            sql,
            f"SELECT timeseries(order_time, '{unit}') t, avg(price) FROM sales GROUP BY t",
            None,
        )
    # Several minutes are those of the zone's clock.
    with using(sql.__self__, **{"spark.sql.session.timeZone": "Asia/Kathmandu"}):
        text = "SELECT timeseries(order_time, 'thirty_minute') t, sum(price) FROM sales GROUP BY t"
        check(sql, text, source)
        (first, *_) = sorted(row.t for row in sql(text).collect())
        assert first.minute in (15, 45)
    of_dates = "SELECT timeseries(CAST(order_time AS date), '{}') t, count(*) FROM sales GROUP BY t"
    # A week with all rows of a segment is counted by the segment's own number of rows.
    check(sql, of_dates.format("week"), " x metadata" if form else source)
    with pytest.raises(IllegalArgumentException, match="of a date one of the first 4"):
        sql(of_dates.format("hour"))
