"""What projseg refuses, while Spark plans or in a task, is one line with its code."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest
from spark_sql import using

import projseg

pytestmark = pytest.mark.spark

ROWS = "SELECT id AS k, TIMESTAMP'2024-03-01' + make_dt_interval(id) AS t FROM range(50)"
READS = {
    "rows": "SELECT * FROM {t}",
    "groups": "SELECT k % 3, sum(k) FROM {t} GROUP BY 1",
    "sorted": "SELECT * FROM {t} ORDER BY k LIMIT 3",
    # Of two stages that fail at once Spark says so in several lines of its own.
    "self join": "SELECT /*+ BROADCAST(b) */ count(*) FROM {t} a JOIN {t} b USING (k)",
    "insert": "INSERT INTO {t} SELECT * FROM {t}",
    "delete": "DELETE FROM {t} WHERE k > 3",
    "update": "UPDATE {t} SET k = k + 1 WHERE k > 3",
}
WRITES = {
    "null time": ("PROJSEG_NULL_TIME", "INSERT INTO {t} VALUES (1, NULL)"),
    "unknown option": (
        "PROJSEG_UNKNOWN_OPTION",
        "INSERT INTO {t} WITH ('segmentGranularty' = 'day') VALUES (1, TIMESTAMP'2024-01-01')",
    ),
    "bad interval": (
        "PROJSEG_BAD_INTERVAL",
        "INSERT OVERWRITE {t} WITH ('replaceInterval' = 'x') VALUES (1, TIMESTAMP'2024-01-01')",
    ),
}
DAMAGE = {
    "cut": ("PROJSEG_SEGMENT_DIFFERS", lambda path: path.write_bytes(path.read_bytes()[:60])),
    "gone": ("PROJSEG_SEGMENT_MISSING", Path.unlink),
}


@pytest.fixture
def place(spark, tmp_path):
    spark.sql("DROP TABLE IF EXISTS one_line")
    spark.sql(
        f"CREATE TABLE one_line (k bigint, t timestamp) USING projseg LOCATION '{tmp_path / 't'}'"
        " TBLPROPERTIES ('timeColumn' = 't')"
    )
    spark.sql(f"INSERT INTO one_line {ROWS}")
    return tmp_path / "t"


def assert_one_line(code, work):
    with pytest.raises(Exception, match=code) as raised:
        work()
    text = str(raised.value)
    assert "\n" not in text.strip(), text
    assert re.match(rf"\[{code}\] .", text), text
    assert "Traceback" not in text
    assert "PYTHON_DATA_SOURCE_ERROR" not in text


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("damage", "read", "door", "is_enabled"),
    list(product(DAMAGE, READS, ("name", "path"), ("true", "false"))),
)
def test_damage_is_told_in_one_line(spark, place, damage, read, door, is_enabled):
    code, harm = DAMAGE[damage]
    for path in (place / "data").iterdir():
        harm(path)
    table = "one_line" if door == "name" else f"projseg.`{place}`"
    with using(spark, **{"spark.projseg.enabled": is_enabled}):
        assert_one_line(code, lambda: spark.sql(READS[read].format(t=table)).collect())


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("write", "door"), list(product(WRITES, ("name", "path"))))
def test_a_refused_write_is_told_in_one_line(spark, place, write, door):
    code, sql = WRITES[write]
    table = "one_line" if door == "name" else f"projseg.`{place}`"
    assert_one_line(code, lambda: spark.sql(sql.format(t=table)))
    assert projseg.Table(place).query().num_rows == 50


def test_refusals_of_frames_are_told_in_one_line(spark, place, tmp_path):
    def read(path, **options):
        return lambda: spark.read.format("projseg").options(**options).load(str(path)).collect()

    assert_one_line("PROJSEG_NOT_A_TABLE", read(tmp_path / "nowhere"))
    assert_one_line("PROJSEG_UNKNOWN_OPTION", read(place, nonsense="1"))
    assert_one_line("PROJSEG_UNKNOWN_COLUMN", read(place, groupBy="nothing"))
    assert_one_line("PROJSEG_UNKNOWN_VERSION", read(place, versionAsOf="99"))
    frame = spark.sql("SELECT 1L AS k, CAST(NULL AS timestamp) AS t")
    writer = frame.write.format("projseg").mode("append")
    assert_one_line("PROJSEG_NULL_TIME", lambda: writer.save(str(place)))
    assert_one_line(
        "PROJSEG_BAD_OPTION", lambda: writer.option("targetSegmentRows", "no").save(str(place))
    )


def test_without_the_extension_a_task_tells_no_traceback(place):
    """What a worker of Python writes down of an error, which plain Spark shows as it is."""
    import os

    from projseg.spark_datasource.python_workers import in_one_line

    @in_one_line
    def rows():
        yield 1
        raise projseg.errors.InvalidInputError("PROJSEG_NULL_TIME", "no")

    assert "SPARK_HIDE_TRACEBACK" not in os.environ
    try:
        with pytest.raises(projseg.ProjsegError):
            list(rows())
        assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"
    finally:
        os.environ.pop("SPARK_HIDE_TRACEBACK", None)
