"""Where the JVM has other rules of the session's zone than projseg, Spark evaluates and says so."""

import datetime as dt

import pyarrow as pa
import pytest
from odd_zones import ODD_ZONES
from pyspark.errors import AnalysisException
from scale import IS_NIGHTLY
from spark_sql import assert_same, plan_of, using

import projseg
from projseg.algebra.time.time_zones import zone_name, zone_rules

pytestmark = pytest.mark.spark

TIME = pa.timestamp("us", tz="UTC")
KEYS = [
    *("to_date(t)", "hour(t)", "date_trunc('DAY', t)", "CAST(t AS STRING)", "year(t)"),
    *("date_format(t, 'yyyy-MM-dd HH:mm:ss XXX')", "CAST(n AS TIMESTAMP)", "unix_seconds(t)"),
    *("to_date(n)", "from_unixtime(u)", "unix_micros(n)"),
]
FREE = ("unix_seconds(t)", "to_date(n)", "unix_micros(n)")
"""Keys that no zone changes."""
SINCE_4_3 = "unix_micros(n)"
"""A key whose function takes no time without a zone before Spark 4.3."""


@pytest.fixture(scope="module")
def times(spark, tmp_path_factory):
    """A view of times from 1800 on: local mean times, changes of clocks, skipped days."""
    first = dt.datetime(1800, 1, 1, 11, 7, 13, tzinfo=dt.UTC)
    found = [first + dt.timedelta(days=83 * n, minutes=37 * n) for n in range(1000)]
    found += [dt.datetime(2011, 12, 29, hour, 30, tzinfo=dt.UTC) for hour in range(24)]
    rows = {
        "t": pa.array(found, TIME),
        "n": pa.array([one.replace(tzinfo=None) for one in found], pa.timestamp("us")),
        "u": pa.array([round(one.timestamp()) for one in found], pa.int64()),
    }
    location = str(tmp_path_factory.mktemp("zones") / "table")
    schema = pa.schema([("t", TIME), ("n", pa.timestamp("us")), ("u", pa.int64())])
    projseg.Table.create(location, schema, time_column="t").append(pa.table(rows, schema=schema))
    with using(spark, enabled="true"):
        spark.read.format("projseg").load(location).createOrReplaceTempView("zone_times")
    yield
    spark.catalog.dropTempView("zone_times")


def shares_rules(spark, zone):
    rules = spark._jvm.org.apache.spark.sql.projseg.ZoneRules
    return rules.hash(zone) == zone_rules(zone_name(zone))


@pytest.fixture(scope="module")
def zones(spark):
    """Zones by whether the JVM has projseg's rules of them; there are some of each kind."""
    found = {zone: shares_rules(spark, zone) for zone in ODD_ZONES}
    kinds = [[zone for zone in found if found[zone] == kind] for kind in (True, False)]
    assert all(kinds)
    return found if IS_NIGHTLY else {zone: found[zone] for kind in kinds for zone in kind[:1]}


def test_plain_sql_is_sparks_whoever_evaluates(spark, times, zones):
    for zone, is_shared in zones.items():
        for key in KEYS:
            text = f"SELECT {key} AS e, count(*), min(u) FROM zone_times GROUP BY 1"
            settings = {"spark.sql.session.timeZone": zone}
            settings["spark.sql.legacy.timeParserPolicy"] = "CORRECTED"
            with using(spark, **settings):
                if key == SINCE_4_3 and spark.version < "4.3":
                    with pytest.raises(AnalysisException, match="UNEXPECTED_INPUT_TYPE"):
                        spark.sql(text)
                    continue
                expected = spark.sql(text)
                with using(spark, enabled="true"):
                    found = spark.sql(text)
                    is_planted = "ProjsegAnswer" in plan_of(found)
                    assert is_planted == (is_shared or key in FREE), (zone, key)
                    assert_same(found, expected)


def test_the_reason_is_said(spark, times, zones, capsys):
    zone = next(zone for zone, is_shared in zones.items() if not is_shared)
    with using(spark, enabled="true", **{"spark.sql.session.timeZone": zone}):
        spark.sql("SELECT to_date(t) AS e, count(*) FROM zone_times GROUP BY 1").explain()
    assert f"time zone {zone} has other rules in this JVM" in capsys.readouterr().out
