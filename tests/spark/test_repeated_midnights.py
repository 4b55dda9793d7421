"""Truncations about changes of clocks, above all weeks and months whose first midnight comes twice.

Such a period has one start, the first of the two midnights: so say Spark 4.0 to 4.2, and `trunc` of
dates in every release. `date_trunc` of Spark 4.3.0 alone gives rows of the later offset the second
midnight, by a short cut (SPARK-56769) that Spark takes for a regression (SPARK-57769). Where a
release differs from what is said here, docs/spark.md is wrong too.
"""

import numpy as np
import pyarrow as pa
import pytest
from clock_cases import UNITS
from odd_zones import ODD_ZONES
from spark_clocks import (
    GENERATED,
    INTERPRETED,
    TIME_ZONE,
    agreed_changes,
    by_dates,
    knows,
    period_starts_shown_twice,
    settings,
)

import projseg
from projseg.algebra.time.duration import DAY, HOUR, MINUTE
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.time_zones import zone_table
from projseg.segment_format.logical_types import TIMESTAMP

pytestmark = pytest.mark.spark

HAVANA = "America/Havana"
CI_ZONES = [zone for zone in ODD_ZONES if period_starts_shown_twice(zone)]
DISTANCES = sorted(
    {
        *(sign * n * 15 * MINUTE for n in (0, 1, 2, 3, 4, 5, 8, 24, 95) for sign in (1, -1)),
        *(sign * n * DAY for n in (1, 2, 6, 10, 40) for sign in (1, -1)),
        *(-1, -31 * DAY, -200 * DAY, -365 * DAY),
    }
)


def micros_of(text):
    return Interval.parse((text, text)).start_us


TRUNCATIONS = {unit: f"date_trunc('{unit}', time)" for unit in UNITS}
STEPS = {
    f"{count}_{unit}": f"time_bucket(INTERVAL '{count}' {unit}, time)"
    for count, unit in [
        *((45, "MINUTE"), (5, "HOUR"), (24, "HOUR"), (36, "HOUR"), (1, "DAY"), (2, "DAY")),
        *((1, "WEEK"), (10, "DAY"), (1, "MONTH"), (2, "MONTH"), (1, "YEAR")),
    ]
}
STEPS |= {
    f"{name}_FROM": f"{text[:-1]}, TIMESTAMP '2001-07-04 00:30:00')" for name, text in STEPS.items()
}


def sparks_starts(spark, times, zone, keys):
    """Return what Spark gives for some keys at each instant: {instant: {name: start}}."""
    columns = [f"unix_micros({key}) AS {name}" for name, key in keys.items()]
    rows = spark.createDataFrame(pa.table({"micros": pa.array(times, pa.int64())}))
    rows = rows.selectExpr("micros", "timestamp_micros(micros) AS time")
    with settings(spark, {TIME_ZONE: zone}):
        found = rows.selectExpr("micros", *columns).toArrow().to_pylist()
    return {row.pop("micros"): row for row in found}


def own_starts(location, times, zone, keys):
    """Return what a table gives, as `sparks_starts` does."""
    table = projseg.Table.create(location, pa.schema([("time", TIMESTAMP)]), time_column="time")
    table.append(pa.table({"time": pa.array(times, pa.int64()).cast(TIMESTAMP)}))
    group_by = ["time AS micros", *(f"{key} AS {name}" for name, key in keys.items())]
    answer = table.query(group_by, "count(*) AS n", context={"timezone": zone}).drop_columns(["n"])
    found = pa.table({name: answer[name].cast(pa.int64()) for name in answer.column_names})
    return {row.pop("micros"): row for row in found.to_pylist()}


def with_the_offset_of_each(truncated, zone):
    """Return truncations with the midnights of the rows' own offsets, where there are two."""
    table = zone_table(zone)
    moved = {}
    for micros, row in truncated.items():
        offset = table.offsets[table.index_of(np.array([micros]))]
        starts = table.to_utc(table.to_local(np.array(list(row.values()))), offset)
        moved[micros] = dict(zip(row, starts.tolist(), strict=True))
    return moved


def instants(spark, zone):
    changes = agreed_changes(spark, zone)
    return sorted({change + distance for change in changes for distance in DISTANCES})


def check_truncations(spark, location, zone):
    """Compare every unit about every change; return whether Spark's `date_trunc` differs."""
    times = instants(spark, zone)
    expected = own_starts(location, times, zone, TRUNCATIONS)
    as_sparks = with_the_offset_of_each(expected, zone) if spark.version == "4.3.0" else expected
    through_dates = {unit: by_dates(key) for unit, key in TRUNCATIONS.items()}
    for how in (GENERATED, INTERPRETED):
        with settings(spark, how):
            assert sparks_starts(spark, times, zone, TRUNCATIONS) == as_sparks, how
            assert sparks_starts(spark, times, zone, through_dates) == expected, how
    return expected != as_sparks


def check_steps(spark, location, zone):
    if not knows(spark, "time_bucket"):
        pytest.skip("time_bucket came with Spark 4.2")
    if zone == "Pacific/Apia" and spark.version.startswith("4.2."):
        pytest.skip(
            "after the day that Apia left out, Spark 4.2 puts midnights into the day before"
        )
    times = instants(spark, zone)
    with settings(spark, GENERATED):
        expected = sparks_starts(spark, times, zone, STEPS)
    found = own_starts(location, times, zone, STEPS)
    assert [
        (at, name) for at in times for name in STEPS if found[at][name] != expected[at][name]
    ] == []


@pytest.mark.parametrize("zone", CI_ZONES)
def test_truncations_are_sparks_but_for_what_4_3_0_tells_apart(spark, tmp_path, zone):
    assert check_truncations(spark, str(tmp_path / "t"), zone) <= (spark.version == "4.3.0")


@pytest.mark.slow
@pytest.mark.parametrize("zone", sorted(set(ODD_ZONES) - set(CI_ZONES)))
def test_truncations_are_sparks_elsewhere(spark, tmp_path, zone):
    assert not check_truncations(spark, str(tmp_path / "t"), zone)


@pytest.mark.parametrize("zone", CI_ZONES)
def test_time_buckets_are_sparks(spark, tmp_path, zone):
    check_steps(spark, str(tmp_path / "t"), zone)


@pytest.mark.slow
@pytest.mark.parametrize("zone", sorted(set(ODD_ZONES) - set(CI_ZONES)))
def test_time_buckets_are_sparks_elsewhere(spark, tmp_path, zone):
    check_steps(spark, str(tmp_path / "t"), zone)


@pytest.mark.parametrize("how", [GENERATED, INTERPRETED], ids=["generated", "interpreted"])
def test_spark_runs_the_code_it_is_asked_to(spark, how):
    with settings(spark, how):
        rows = spark.createDataFrame(pa.table({"n": [1]})).selectExpr("n + 1 AS n")
        plan = rows._jdf.queryExecution().executedPlan().toString()
    assert ("*(1) Project" in plan) == (how is GENERATED)
    assert "Project" in plan


def table_of_three_sources(location, rows):
    """Return a table with rows alone, then a projection by hours, then one by months as well."""
    table = projseg.Table.create(location, rows.schema, time_column="time")
    table.append(rows.slice(0, 3))
    for name, unit, first, end in (("hourly", "HOUR", 3, 5), ("monthly", "MONTH", 5, len(rows))):
        key = f"in_zone('{HAVANA}', date_trunc('{unit}', time)) AS k"
        table.add_projection(projseg.Projection(name, [key], ["sum(value) AS v"]))
        table.append(rows.slice(first, end - first))
    return table


OCTOBER, FIRST, SECOND = (
    micros_of(text) for text in ("2015-10-01T04:00Z", "2015-11-01T04:00Z", "2015-11-01T05:00Z")
)
HALF = HOUR // 2
LATER = SECOND + 14 * DAY
TIMES = [SECOND + HALF, FIRST - 1, FIRST + HALF, SECOND - 1, SECOND, FIRST, LATER]


@pytest.mark.parametrize(
    ("unit", "starts", "mixture"),
    [
        (
            "MONTH",
            [FIRST, OCTOBER, FIRST, FIRST, FIRST, FIRST, FIRST],
            {"base": 1, "hourly": 1, "monthly": 1},
        ),
        (
            "DAY",
            [SECOND, FIRST - DAY, FIRST, FIRST, SECOND, FIRST, LATER],
            {"base": 1, "hourly": 2},
        ),
    ],
)
def test_a_month_of_two_first_midnights_begins_at_the_earlier(
    spark, tmp_path, unit, starts, mixture
):
    """On 2015-11-01 at 05:00Z Havana's clock went from 01:00 back to 00:00; days are two."""
    values = [2**n for n in range(len(TIMES))]
    rows = pa.table({"time": pa.array(TIMES, pa.int64()).cast(TIMESTAMP), "value": values})
    table = table_of_three_sources(str(tmp_path / "t"), rows)
    key = f"date_trunc('{unit}', time)"
    query = {"group_by": f"{key} AS k", "aggregators": "sum(value) AS v"}
    expected = dict.fromkeys(starts, 0)
    for start, value in zip(starts, values, strict=True):
        expected[start] += value
    for context, sources in (({"noProjections": True}, {"base": 3}), ({}, mixture)):
        context = {"timezone": HAVANA, **context}
        found = table.query(**query, context=context)
        keys = found["k"].cast(pa.int64()).to_pylist()
        assert dict(zip(keys, found["v"].to_pylist(), strict=True)) == expected, context
        assert table.explain(**query, context=context).sources == sources
    with settings(spark, GENERATED):
        sparks = sparks_starts(spark, TIMES, HAVANA, {unit: by_dates(key)})
    assert [sparks[micros][unit] for micros in TIMES] == starts
