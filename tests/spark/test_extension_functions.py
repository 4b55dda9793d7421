"""Functions that plain SQL hands to projseg: as keys and as conditions, as over Parquet."""

from __future__ import annotations

import pytest
from scale import one_of
from spark_sql import assert_same, plan_of, using

import projseg

PLANTED = """
octet_length(s)
reverse(s)
repeat(s, 2)
replace(s, 'a', 'ÄÄ')
replace(s, 'ab')
instr(s, 'b')
locate('b', s, 2)
position('a' IN s)
lpad(s, 5, 'xy')
rpad(s, 2)
trim(s)
trim(BOTH 'ab' FROM s)
trim(BOTH '{{1}}' FROM concat('{{0}}', s))
ltrim('a', s)
rtrim(s)
btrim(s, 'é ')
left(s, 2)
s LIKE 'a!%%' ESCAPE '!'
s RLIKE '^a+.?$'
concat(s, '|', s)
substring(s, -2, 1)
i & 6
i | 8
i ^ 5
~ i
least(i, 3, n)
greatest(x, 1.5D)
isnan(x)
sign(x)
sqrt(x)
floor(x)
ceil(x)
floor(d)
ceil(d)
round(d, 1)
round(x, 1)
round(i, -1)
pmod(i, 3)
pmod(i, -3)
last_day(t)
add_months(day, i)
extract(YEAROFWEEK FROM day)
make_date(2024, i + 1, 3)
unix_seconds(t)
unix_millis(t)
unix_micros(t)
timestamp_millis(i * 1000L)
timestamp_micros(i)
timestamp_seconds(i)
timestamp_seconds(d)
nvl2(s, i, n)
nullif(i, 3)
ifnull(s, 'none')
md5(s)
sha1(s)
sha2(s, 224)
sha2(CAST(s AS binary), i)
crc32(s)
bin(i)
hash(s, i, x, d, t, day)
xxhash64(n, s)
regexp_extract(s, '(a)(b)?', 2)
split(s, 'a')[0]
get(split(s, '[ab]', 3), i)
bround(d, 1)
bround(x)
floor(d, 1)
ceil(i, -1)
date_format(t, 'yyyy-MM-dd HH')
date_format(day, 'E')
from_unixtime(i * 40000)
""".strip().splitlines()
LEFT_TO_SPARK = ["exp(x)", "ln(i)", "power(i, 2)", "initcap(s)", "timestamp_seconds(x)"]
REFUSED_PATTERNS = [
    "s RLIKE '\\\\ba'",
    "s RLIKE '^(?=.*b)a'",
    "regexp_extract(s, '(.)\\\\1', 1)",
    "split(s, 'a*')[0]",
]


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("functions")
    texts = "array('ab', 'a%', ' é b ', '', NULL, 'aab', 'a', '\\\\', 'ß', 'bbab')"
    doubles = "array(1.5D, -0.0D, double('NaN'), NULL, -2.5D, 1e3D, 0.25D)"
    made = spark.range(400).selectExpr(
        "timestamp_seconds(1704067200 + id * 11111) AS t",
        f"{texts}[id % 10] AS s",
        "CAST(id % 8 AS int) AS i",
        "CAST(if(id % 5 = 0, NULL, id % 4) AS int) AS n",
        f"{doubles}[id % 7] AS x",
        "CAST(id % 13 - 6 AS decimal(8, 2)) / 4 AS wide",
    )
    made = made.selectExpr("t", "s", "i", "n", "x", "CAST(wide AS decimal(9, 3)) AS d",
                           "CAST(t AS date) AS day")  # fmt: skip
    made.coalesce(1).write.parquet(str(folder / "parquet"))
    rows = spark.read.parquet(str(folder / "parquet"))
    projseg.write(rows, folder / "table", timeColumn="t", segmentGranularity="P1M")
    rows.createOrReplaceTempView("function_parquet")
    with using(spark, enabled="true"):
        frame = spark.read.format("projseg").load(str(folder / "table"))
        frame.createOrReplaceTempView("function_rows")


@pytest.mark.parametrize("expression", one_of(5, PLANTED))
def test_functions_mean_the_same(spark, tables, expression):
    grouped = f"SELECT {expression} AS e, count(*), min(t) FROM {{t}} GROUP BY 1"
    kept = f"SELECT count(*), max(t) FROM {{t}} WHERE ({expression}) IS NOT NULL AND i < 5"
    compared = f"SELECT t FROM {{t}} WHERE ({expression}) = (SELECT max({expression}) FROM {{t}})"
    for text in (grouped, kept, compared):
        expected = spark.sql(text.format(t="function_parquet"))
        with using(spark, enabled="true"):
            found = spark.sql(text.format(t="function_rows"))
            assert "ProjsegAnswer" in plan_of(found)
            assert_same(found, expected)


@pytest.mark.parametrize("expression", [*LEFT_TO_SPARK, *REFUSED_PATTERNS])
def test_functions_whose_values_may_differ_are_left_to_spark(spark, tables, expression):
    text = f"SELECT {expression} AS e, count(*) FROM {{t}} GROUP BY 1"
    with using(spark, enabled="true"):
        found = spark.sql(text.format(t="function_rows"))
        assert "ProjsegAnswer" not in plan_of(found)
        assert_same(found, spark.sql(text.format(t="function_parquet")))


@pytest.mark.parametrize("expression", REFUSED_PATTERNS)
def test_conditions_with_refused_patterns_are_left_to_spark(spark, tables, expression):
    for outputs in ("t, s", "count(*), max(t)"):
        text = f"SELECT {outputs} FROM {{t}} WHERE CAST(({expression}) AS string) > '' AND i < 5"
        with using(spark, enabled="true"):
            found = spark.sql(text.format(t="function_rows"))
            assert_same(found, spark.sql(text.format(t="function_parquet")))


@pytest.mark.parametrize("expression", ["round(i, -1)", "pmod(i, 3)", "make_date(2024, i, 31)"])
def test_without_ansi_mode_errors_are_not_made(spark, tables, expression):
    text = f"SELECT {expression} AS e, count(*) FROM {{t}} GROUP BY 1"
    with using(spark, enabled="true", **{"spark.sql.ansi.enabled": "false"}):
        found = spark.sql(text.format(t="function_rows"))
        assert_same(found, spark.sql(text.format(t="function_parquet")))
