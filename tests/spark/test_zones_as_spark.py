"""Spark over the rows themselves, and every source of a table, agree about changes of clocks."""

import collections
import random
import zlib

import pyarrow as pa
import pytest
from clock_cases import answer, comparable, make_case, make_query
from odd_zones import ODD_ZONES
from spark_clocks import (
    GENERATED,
    TIME_ZONE,
    agreed_changes,
    by_dates,
    knows,
    period_starts_shown_twice,
    settings,
)

pytestmark = pytest.mark.spark

CI_ZONES = [
    *("America/Havana", "America/St_Johns", "America/Toronto", "Atlantic/Azores"),
    *("Australia/Lord_Howe", "Europe/Madrid", "Pacific/Apia"),
]
QUERIES_A_TABLE = 8


def sql_of(query):
    """Return a query over the view `edits`, in Spark's words."""
    keys = [text.rpartition(" AS ")[0] for text in query["group_by"]]
    conditions = ["TRUE"] + ([f"({query['filter']})"] if query["filter"] else [])
    if "interval" in query:
        low, high = pa.array(query["interval"]).cast(pa.int64()).to_pylist()
        conditions.append(f"time >= timestamp_micros({low}) AND time < timestamp_micros({high})")
    return (
        f"SELECT {', '.join([*query['group_by'], *query['aggregators']])} FROM edits "
        f"WHERE {' AND '.join(conditions)}" + (f" GROUP BY {', '.join(keys)}" if keys else "")
    )


def compare_with_spark(spark, seed, location, zone, counts):
    """Ask Spark and a random table about a zone's changes of clock random queries."""
    case = make_case(seed, location, zone, agreed_changes(spark, zone))
    names = case.rows.column_names
    micros = [case.rows[name].cast(pa.int64()) for name in ("time", "sent")]
    plain = spark.createDataFrame(
        case.rows.set_column(0, "time", micros[0]).set_column(3, "sent", micros[1])
    )
    times = {name: f"timestamp_micros({name}) AS {name}" for name in ("time", "sent")}
    plain.selectExpr(*(times.get(name, name) for name in names)).createOrReplaceTempView("edits")
    in_sparks_words = by_dates if period_starts_shown_twice(zone) else str
    r = random.Random(seed + 1)
    for _ in range(QUERIES_A_TABLE):
        query = make_query(r, case, for_spark=True)
        if not knows(spark, sql_of(query)):
            counts["unknown"] += 1
            continue
        with settings(spark, {**GENERATED, TIME_ZONE: zone}):
            expected = comparable(spark.sql(in_sparks_words(sql_of(query))).toArrow())
        ways = [{"noProjections": True}, {}, *({"useProjection": name} for name in case.names)]
        for way in ways:
            found = answer(case.table, query, {"timezone": zone, **way})
            if "useProjection" in way and found == "PROJSEG_PROJECTION_NOT_USABLE":
                continue
            assert found == expected, (seed, zone, query, way)
            counts["answers"] += 1
        counts["queries"] += 1


def compare_rounds(spark, location, zone, round_count):
    counts = collections.Counter()
    for round_number in range(round_count):
        seed = zlib.crc32(zone.encode()) + round_number
        compare_with_spark(spark, seed, str(location / str(round_number)), zone, counts)
    assert counts["queries"] + counts["unknown"] == round_count * QUERIES_A_TABLE


@pytest.mark.sampled(1)
@pytest.mark.parametrize("zone", CI_ZONES)
def test_spark_agrees_about_changes_of_clock(spark, tmp_path, zone):
    compare_rounds(spark, tmp_path, zone, 1)


@pytest.mark.slow
@pytest.mark.parametrize("zone", ODD_ZONES)
def test_spark_agrees_about_many_changes_of_clock(spark, tmp_path, zone):
    compare_rounds(spark, tmp_path, zone, 6)
