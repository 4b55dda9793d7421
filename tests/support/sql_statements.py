"""SELECTs over one table that projseg, Spark and mostly DuckDB answer alike, and that table."""

from __future__ import annotations

import datetime
import random
import re
from contextlib import contextmanager
from decimal import Decimal

import duckdb
import pyarrow as pa

import projseg

SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("channel", pa.string()),
        ("user name", pa.string()),
        ("added", pa.int32()),
        ("price", pa.float64()),
        ("robot", pa.bool_()),
        ("cost", pa.decimal128(9, 2)),
        ("day", pa.date32()),
    ]
)
ROWS = 600


def statements(block):
    """Return the statements of a block; an indented line goes on with the one before it."""
    return re.split(r"\n(?=\S)", block.strip())


OF_ALL = statements("""
SELECT * FROM edits ORDER BY time
select CHANNEL, Added from EDITS where ADDED > 90 order by TIME
SELECT e.channel AS c, e.`user name`, added FROM edits AS e WHERE e.robot
  ORDER BY e.time DESC LIMIT 7
SELECT e.* FROM edits e WHERE channel IS NULL ORDER BY time LIMIT 5 OFFSET 3
SELECT added + 1, added * 2 AS twice, price / 2 AS half FROM edits ORDER BY time LIMIT 20
SELECT added AS price, price AS added FROM edits ORDER BY price, time LIMIT 9
SELECT added AS a, added AS b, channel FROM edits ORDER BY a DESC, b, time LIMIT 4
SELECT channel FROM edits ORDER BY added + 1 DESC NULLS LAST, time LIMIT 11 OFFSET 2
SELECT channel, added FROM edits WHERE channel IN ('#a', '#b') AND added BETWEEN 10
  AND 20 ORDER BY 2 DESC, time
SELECT 1 AS one, 'x' AS letter, channel FROM edits ORDER BY time LIMIT 2
SELECT time, added FROM edits WHERE time >= TIMESTAMP '2024-05-02 00:00:00'
  AND time < TIMESTAMP '2024-05-02 03:00:00' ORDER BY ALL
SELECT CASE WHEN robot THEN 'r' WHEN added > 50 THEN 'big' ELSE channel END AS kind
  FROM edits ORDER BY time LIMIT 30
SELECT added, NULL AS nothing FROM edits ORDER BY nothing DESC, time LIMIT 5
SELECT robot, count(*) AS n FROM edits GROUP BY robot ORDER BY NULL, 2
SELECT DISTINCT channel FROM edits ORDER BY channel
SELECT DISTINCT channel, robot FROM edits WHERE added > 20 ORDER BY 1 DESC, 2
SELECT DISTINCT added % 3 AS third FROM edits ORDER BY third DESC NULLS LAST
SELECT DISTINCT 1 FROM edits
SELECT c, sum(a) AS s FROM (SELECT channel AS c, added AS a FROM edits WHERE added > 9) AS q
  GROUP BY c ORDER BY c
SELECT q.u, count(*) AS n FROM (SELECT upper(channel) AS u, robot FROM edits WHERE robot) q
  WHERE u > '#B' GROUP BY q.u HAVING count(*) > 1 ORDER BY n DESC, u
WITH g AS (SELECT channel, sum(added) AS s FROM edits GROUP BY channel)
  SELECT max(s) AS most, min(s) AS least, count(*) AS n, count(channel) AS named FROM g
WITH g AS (SELECT channel, robot, count(*) AS n FROM edits GROUP BY channel, robot),
  h AS (SELECT robot, sum(n) AS n, max(channel) AS last FROM g GROUP BY robot)
  SELECT * FROM h WHERE n > 1 ORDER BY n
SELECT added * 2 AS twice, c FROM (SELECT added, channel AS c FROM edits ORDER BY time LIMIT 50)
  WHERE added > 30 ORDER BY added, c LIMIT 7 OFFSET 2
SELECT count(DISTINCT c) AS n FROM (SELECT DISTINCT channel AS c, robot FROM edits) WHERE robot
SELECT time, half FROM (SELECT *, price / 2 AS half FROM edits) e
  WHERE e.time >= TIMESTAMP '2024-05-02 00:00:00' AND half > 1 ORDER BY time LIMIT 20
SELECT robot, s FROM (SELECT robot, sum(cost) AS s FROM edits GROUP BY ROLLUP (robot)) ORDER BY ALL
SELECT robot, round(corr(added, price), 9) AS c, round(covar_samp(price, added), 6) AS v FROM edits
  GROUP BY robot ORDER BY robot
FROM edits SELECT channel, channel AS again, count(*) AS n GROUP BY channel ORDER BY channel
SELECT channel, robot, sum(added) AS s FROM edits GROUP BY ROLLUP (channel, robot) ORDER BY ALL
SELECT upper(channel) AS u, grouping(channel) AS g, count(*) AS n FROM edits
  GROUP BY GROUPING SETS ((channel), ()) HAVING count(*) > 3 ORDER BY g, u
SELECT e.channel AS c, robot, count(*) AS n FROM edits AS e GROUP BY CUBE (c, e.robot) ORDER BY ALL
SELECT sum(added) AS s, s * 2 AS d FROM edits
SELECT min(added) AS added, max(added) AS m FROM edits HAVING added >= 0
SELECT count(*) FROM edits
SELECT count(*), sum(added), min(price), max(cost), avg(added) FROM edits WHERE robot
SELECT sum(added), count(channel) FROM edits WHERE added > 1000
SELECT channel, count(*) FROM edits GROUP BY channel ORDER BY channel
SELECT sum(added) AS total, channel, count(*) AS n, robot FROM edits
  GROUP BY robot, channel ORDER BY channel, robot
SELECT count(*) AS n FROM edits GROUP BY channel ORDER BY n DESC, channel LIMIT 3
SELECT channel, sum(added) AS s FROM edits GROUP BY 1 HAVING sum(added) > 100 ORDER BY 2 DESC, 1
SELECT channel AS c, sum(added) AS s FROM edits GROUP BY c HAVING s > 100
  AND c IS NOT NULL ORDER BY c
SELECT date_trunc('DAY', time) AS d, channel, max(added) AS m FROM edits GROUP BY ALL ORDER BY ALL
SELECT robot, sum(cost) AS c FROM edits GROUP BY ALL ORDER BY c DESC NULLS FIRST
SELECT channel, count(*) FROM edits GROUP BY channel HAVING count(*) > 5
  ORDER BY count(*) DESC, channel OFFSET 1
SELECT upper(channel) AS channel, count(*) AS n FROM edits GROUP BY channel
  ORDER BY n DESC, channel
SELECT channel, sum(added) / count(*) AS mean FROM edits GROUP BY channel
  HAVING mean > 3 ORDER BY mean DESC, channel LIMIT 10
SELECT channel, coalesce(sum(added), 0) + 1 AS more FROM edits WHERE robot
  GROUP BY channel ORDER BY channel
SELECT channel, max(added) - min(added) AS spread, 7 AS seven FROM edits
  GROUP BY channel ORDER BY sum(added) DESC, 1
SELECT channel FROM edits GROUP BY channel HAVING max(price) > 10 ORDER BY channel DESC
SELECT channel || '!' AS c, channel AS again, count(*) AS n FROM edits
  GROUP BY channel ORDER BY again
SELECT added % 4 AS r, (added % 4) * 10 AS tens, count(*) AS n FROM edits
  GROUP BY added % 4 ORDER BY r
SELECT count(*) FILTER (WHERE robot) AS robots, count(DISTINCT channel) AS channels FROM edits
SELECT channel, sum(CASE WHEN robot THEN added ELSE 0 END) AS by_robots FROM edits
  GROUP BY channel ORDER BY channel
SELECT x.channel, count(*) AS n FROM edits x WHERE x.channel LIKE '#%'
  GROUP BY x.channel ORDER BY x.channel
SELECT added FROM edits WHERE NOT (added <= 95 OR robot) -- the largest
  ORDER BY added, time
SELECT DISTINCT channel, count(*) AS n FROM edits GROUP BY channel ORDER BY channel
SELECT channel, min(day) AS first, max(day) AS latest FROM edits GROUP BY channel
  ORDER BY latest, first DESC, channel;
SELECT avg(price) AS p FROM edits HAVING count(*) > 10
SELECT added AS n, n + 1 AS next, next * 2 AS twice FROM edits ORDER BY time LIMIT 5
""")

OF_SPARK = statements("""
SELECT * EXCEPT (time, `user name`) FROM edits ORDER BY time LIMIT 6
SELECT X'4' AS b, x'ABC' AS c FROM edits LIMIT 1
SELECT year(time), month(day) FROM edits ORDER BY time LIMIT 3
SELECT sum(added), avg(price), count(1), count(DISTINCT channel), max(upper(channel)) FROM edits
SELECT year(time) + 1, count(*) FROM edits GROUP BY year(time)
SELECT date_trunc('HOUR', time) AS h, `user name`, sum(added) FROM edits GROUP BY 1, 2
  ORDER BY 3 DESC, 1, 2 LIMIT 12
SELECT channel, sum(added) FROM edits GROUP BY channel ORDER BY 2 DESC, 1 LIMIT 2
SELECT date_trunc('DAY', time) AS d, count_if(robot) AS r FROM edits GROUP BY d ORDER BY d
SELECT to_date(time) = day AS same, count(*) FROM edits GROUP BY to_date(time) = day
  ORDER BY ALL DESC
SELECT channel <=> NULL AS none, bool_or(robot), max_by(added, time) FROM edits
  GROUP BY none ORDER BY none
SELECT upper(channel) AS channel, count(*) FROM edits GROUP BY channel
  HAVING channel = '#A' ORDER BY 1
SELECT concat('z', day) AS channel, count(*) FROM edits GROUP BY day, channel ORDER BY channel, 2
SELECT -added AS price FROM edits ORDER BY price + 0, time LIMIT 9
SELECT upper(channel) AS robot, count(*) FROM edits GROUP BY robot, channel ORDER BY 1, 2
SELECT 'a' AS k, count(*) FROM edits WHERE added > 1000 GROUP BY ALL
SELECT robot, count(*) AS n FROM edits GROUP BY robot WITH ROLLUP ORDER BY n, 1
SELECT 1 FROM edits HAVING count(*) > 10
SELECT channel, min(price) AS added FROM edits GROUP BY channel, added
  HAVING added > 90 ORDER BY 2, 1 LIMIT 5
SELECT count(*) AS channel, max(added) m FROM edits GROUP BY channel ORDER BY edits.channel
SELECT upper(channel) u, count(*) FROM edits GROUP BY upper(channel)
  HAVING upper(channel) > '#A' ORDER BY upper(channel) DESC
SELECT upper(channel) AS channel, count(*) FROM edits GROUP BY edits.channel ORDER BY edits.channel
SELECT robot, sum(added) AS added FROM edits GROUP BY robot HAVING added > 100 AND sum(added) > 9
SELECT date_trunc('DAY', time) AS time, max(added) AS added FROM edits
  GROUP BY date_trunc('DAY', time) HAVING time > DATE '2024-05-01' ORDER BY time
""")


def statement_rows() -> pa.Table:
    """Return rows with nulls in most columns; each has a time of its own."""
    chooser = random.Random(11)
    start = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)

    def some(draw):
        return [None if chooser.random() < 0.1 else draw() for _ in range(ROWS)]

    columns = [
        [start + datetime.timedelta(minutes=7 * n) for n in range(ROWS)],
        some(lambda: "#" + chooser.choice("abcd")),
        some(lambda: f"user {chooser.randint(0, 30)}"),
        some(lambda: chooser.randint(0, 99)),
        some(lambda: chooser.randint(0, 400) / 8),
        some(lambda: chooser.random() < 0.4),
        some(lambda: Decimal(chooser.randint(-999, 9999)).scaleb(-2)),
        some(lambda: start.date() + datetime.timedelta(chooser.randint(0, 5))),
    ]
    return pa.table(columns, SCHEMA)


def statement_table(location, rows: pa.Table) -> projseg.Table:
    """Return a table of rows whose later segments alone hold projections."""
    table = projseg.Table.create(location, SCHEMA, time_column="time", segment_granularity="day")
    table.append(rows.slice(0, ROWS // 3))
    for name, sql in {
        "by_channel": "SELECT channel, sum(added), count(*), max(price), min(added), max(added) "
        "GROUP BY ALL",
        "hourly": "SELECT date_trunc('HOUR', time) AS h, channel, robot, sum(added), max(added), "
        "count(*), sum(cost) GROUP BY ALL",
    }.items():
        table.add_projection({"name": name, "sql": sql})
    table.append(rows.slice(ROWS // 3))
    return table


@contextmanager
def duckdb_over(rows: pa.Table):
    """Yield a connection that answers as Spark does where it can."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        connection.execute("SET order_by_non_integer_literal = true")  # ORDER BY NULL
        connection.register("edits", rows)
        yield connection


def in_duckdb(statement):
    return statement.replace("`", '"')


def values_of(answer):
    return list(zip(*(column.to_pylist() for column in answer.columns), strict=True))
