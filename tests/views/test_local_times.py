"""Views by the hours and days of a zone, with rows about the changes of its clock."""

import random

import duckdb
import pyarrow as pa
import pytest
from clock_cases import (
    SCHEMA,
    SPARK_CALLS,
    Case,
    answer,
    changes_of,
    comparable,
    make_query,
    rows_about,
    time_keys,
)
from scale import tries

import projseg
from projseg.algebra.time.interval import Interval
from projseg.errors import ProjsegError

ZONES = ["Europe/Madrid", "America/New_York", "America/Havana", "Atlantic/Azores",
         "Australia/Lord_Howe", "America/St_Johns", "Asia/Tehran", "America/Sao_Paulo",
         "Africa/Casablanca", "Pacific/Apia"]  # fmt: skip
YEARS = Interval.parse("2000-01-01/2026-01-01")
ASKED = 5
BY_DATE = "SELECT to_date(time) AS d, hour(time) AS h, sum(value) AS s, count(*) AS c FROM t"
IN_DUCKDB = (
    "SELECT CAST(time AS DATE) AS d, hour(time) AS h, sum(value)::BIGINT AS s, count(*) FROM t"
)
ANSWERED = {}


def views_of(r, table, zone):
    """Make views by a zone's clock; return the keys of each."""
    declared = [["to_date(time)", "hour(time)"]]
    declared += [time_keys(r) for _ in range(2)]
    for place, keys in enumerate(declared):
        outputs = [f"in_zone('{zone}', {key})" for key in keys]
        outputs += ["channel"] if place % 2 == 0 else []
        calls = [f"{call} AS v{n}" for n, call in enumerate(SPARK_CALLS[:4])]
        named = [f"{one} AS k{n}" for n, one in enumerate(outputs)]
        text = f"SELECT {', '.join(named + calls)} FROM t GROUP BY ALL"
        try:
            table.create_view(f"v{place}", text, chunk=r.choice(["day", "month", "year"]))
        except ProjsegError as error:
            if error.code not in ("PROJSEG_BAD_VIEW", "PROJSEG_VIEW_EXISTS"):
                raise
    return declared


def in_duckdb(text, zone, content):
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{zone}'")
        connection.register("t", content)
        return comparable(connection.sql(text).to_arrow_table())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(tries(32)))
def test_views_by_a_local_clock_answer_as_rows_and_duckdb(tmp_path, seed):
    r = random.Random(seed)
    zone = ZONES[seed % len(ZONES)]
    rows = rows_about(r, changes_of(zone, YEARS.start_us, YEARS.end_us), r.choice([40, 120]))
    cut = len(rows) * 3 // 4
    table = projseg.Table.create(
        str(tmp_path / "t"), SCHEMA, time_column="time", data=rows.slice(0, cut),
        segment_granularity=r.choice(["hour", "day", "month"]),
    )  # fmt: skip
    case = Case(table, rows, zone, views_of(r, table, zone), [], [])
    if r.random() < 0.5:
        table.view("v0").disable()
        table.append(rows.slice(cut))
        table.view("v0").enable()
    else:
        table.append(rows.slice(cut))
    context, without = {"timezone": zone}, {"timezone": zone, "noViews": True}
    queries = [make_query(r, case, for_spark=False) for _ in range(ASKED)]
    for query in queries:
        found = answer(table, query, context)
        assert found == answer(table, query, without), (zone, query)
        if not isinstance(found, str):
            plan = table.explain(**query, context=context)
            ANSWERED[seed] = ANSWERED.get(seed, 0) + any(v["reason"] is None for v in plan.views)
    for where in ("", " WHERE channel <> 'b'"):
        for text, oracle in (
            (f"{BY_DATE}{where} GROUP BY 1, 2", f"{IN_DUCKDB}{where} GROUP BY 1, 2"),
            (BY_DATE.replace("hour(time) AS h, ", "") + f"{where} GROUP BY 1",
             IN_DUCKDB.replace("hour(time) AS h, ", "") + f"{where} GROUP BY 1"),
        ):  # fmt: skip
            found = comparable(table.sql(text, context={**context, "useView": "v0"}))
            assert found == in_duckdb(oracle, zone, rows), (zone, text)


def test_questions_were_answered_from_views():
    if ANSWERED:
        assert sum(ANSWERED.values()) >= len(ANSWERED)


def test_both_hours_of_a_repeated_hour_lie_in_their_own_groups(tmp_path):
    """Madrid's clock goes from 3:00 back to 2:00 on 27 October 2024, at 1:00 UTC."""
    hours = Interval.parse("2024-10-26T20:00Z/2024-10-27T04:00Z")
    times = pa.array(range(hours.start_us, hours.end_us, 600_000_000), SCHEMA.field("time").type)
    rows = pa.table({"time": times, "channel": ["a"] * len(times), "value": [1] * len(times)})
    table = projseg.Table.create(
        str(tmp_path / "t"), SCHEMA, time_column="time", segment_granularity="hour", data=rows
    )
    hour = "in_zone('Europe/Madrid', date_trunc('HOUR', time))"
    table.create_view("v", f"SELECT {hour} AS h, sum(value) AS s FROM t GROUP BY h", chunk="day")
    context = {"timezone": "Europe/Madrid", "forceViews": True}
    found = table.sql("SELECT date_trunc('HOUR', time) AS h, sum(value) AS s FROM t GROUP BY h "
                      "ORDER BY h", context=context)  # fmt: skip
    assert found.column("s").to_pylist() == [6] * 8
    days = table.sql("SELECT to_date(time) AS d, sum(value) AS s FROM t GROUP BY d ORDER BY d",
                     context=context)  # fmt: skip
    assert days.column("s").to_pylist() == [12, 36]
    local = table.sql("SELECT hour(time) AS h, sum(value) AS s FROM t WHERE hour(time) = 2 "
                      "GROUP BY h", context=context)  # fmt: skip
    assert local.to_pylist() == [{"h": 2, "s": 12}]
