"""The statements of CarbonData's guides to data maps and views, and what EXPLAIN says of them.

`STORED AS carbondata` is `USING projseg` here; all else stands as in the guides.
"""

from __future__ import annotations

import pytest
from pyspark.errors import IllegalArgumentException
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
        # The guide's sum and count of quantity are not both stored, so its average is not.
        check(sql, "SELECT country, max(price) from sales GROUP BY country", None)
        assert [row.name for row in sql("SHOW DATAMAPS").collect()] == ["agg_sales"]
        sql("REBUILD DATAMAP agg_sales")
        if not words:
            assert sql("ALTER DATAMAP agg_sales COMPACT 'MAJOR'").first().segments > 0
        sql("DROP DATAMAP agg_sales")
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
    sql(f"""CREATE DATAMAP agg_sales
        {form}
        USING "MV"
        AS
          SELECT {series},avg(price)
          FROM sales
          GROUP BY {series}""")
    source = " x agg_sales" if form else "from view agg_sales: "
    for unit in ("year", "month", "week", "day", "hour", "thirty_minute", "fifteen_minute"):
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
    check(sql, of_dates.format("week"), source)
    with pytest.raises(IllegalArgumentException, match="of a date one of the first 4"):
        sql(of_dates.format("hour"))
