"""Conditions on functions of time and text read only the segments that they must.

Answers are compared with the condition evaluated on every row; the evaluator is tested against
Spark. Rows lie in thirty days about the days on which clocks in Los Angeles and Cairo are changed.
"""

import datetime
import random

import pyarrow as pa
import pytest
from scale import tries

import projseg
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate

DAYS = 30
START = datetime.datetime(2024, 2, 25, tzinfo=datetime.UTC)
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("other", pa.timestamp("us", tz="UTC")),
        ("page", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
    ]
)
LOCAL = "timestamp_floor(ts, 'P1D', null, 'America/Los_Angeles')"
PROJECTIONS = [
    projseg.Projection("hourly", ["date_trunc('HOUR', ts) AS hour", "page"], ["sum(n) AS n"]),
    projseg.Projection("daily", ["to_date(ts) AS day", "page"], ["sum(n) AS n", "count(*) AS c"]),
    projseg.Projection("local", [f"{LOCAL} AS day", "page"], ["sum(n) AS n"]),
    projseg.Projection("one_day", ["page"], ["sum(n) AS n"], "to_date(ts) = DATE '2024-03-10'"),
    projseg.Projection("march", ["page"], ["sum(n) AS n"], "trunc(ts, 'MM') = DATE '2024-03-01'"),
]


def rows_of(days):
    rows = []
    for day in days:
        for step in range(48):
            time = START + datetime.timedelta(days=day, minutes=30 * step)
            rows.append(
                {
                    "ts": time,
                    "other": None if step % 7 == 0 else time - datetime.timedelta(hours=9),
                    "page": None if step % 11 == 3 else f"{'abc'[day % 3]}{step % 5}é",
                    "n": step - 20,
                    "x": None if step % 13 == 1 else day + step / 48,
                }
            )
    return pa.Table.from_pylist(rows, schema=SCHEMA)


ROWS = rows_of(range(DAYS))


def make_table(location, projections):
    return projseg.Table.create(
        location,
        SCHEMA,
        time_column="ts",
        segment_granularity="day",
        projections=projections,
    )


@pytest.fixture(
    scope="module", params=["none", "mixed", pytest.param("all", marks=pytest.mark.slow)]
)
def table(request, tmp_path_factory):
    """A table without projections, with them in all segments, and with them in some."""
    made = make_table(
        tmp_path_factory.mktemp(request.param) / "t",
        PROJECTIONS if request.param == "all" else [],
    )
    if request.param == "mixed":
        made.append(ROWS.slice(0, 48 * 14))
        for projection in PROJECTIONS:
            made.add_projection(projection)
        made.append(ROWS.slice(48 * 14))
    else:
        made.append(ROWS)
    return made


def expected_rows(condition, zone):
    truth = evaluate(bind(condition, SCHEMA, timezone=zone), dict(_columns()), ROWS.num_rows)
    return ROWS.filter(truth.fill_null(False))


def _columns():
    return ((name, ROWS.column(name).combine_chunks()) for name in SCHEMA.names)


UTC, LA, CAIRO = "UTC", "America/Los_Angeles", "Africa/Cairo"
CASES = [  # condition, zone, segments that must be read
    ("to_date(ts) = DATE '2024-03-05'", UTC, 1),
    ("to_date(ts) = DATE '2024-03-05'", LA, 2),
    ("to_date(ts) = DATE '2024-03-10'", LA, 2),  # a day of 23 hours
    ("DATE '2024-03-05' = ts::date", CAIRO, 2),
    ("ts::date BETWEEN DATE '2024-03-05' AND DATE '2024-03-07'", UTC, 3),
    ("ts::date BETWEEN DATE '2024-03-05' AND DATE '2024-03-07'", "Asia/Kolkata", 4),
    ("to_date(ts) IN (DATE '2024-03-05', DATE '2024-03-20')", UTC, 2),
    ("NOT (to_date(ts) = DATE '2024-03-05')", UTC, 29),
    ("NOT (to_date(ts) > DATE '2024-03-05')", UTC, 10),
    ("to_date(ts) < DATE '2024-03-01' OR to_date(ts) >= DATE '2024-03-25'", UTC, 6),
    ("year(ts) = 2024", UTC, 30),
    ("year(ts) = 2023", UTC, 0),
    ("year(ts) <> 2024", LA, 0),
    ("year(ts) > 2023 AND date_trunc('MONTH', ts) = TIMESTAMP '2024-02-01 00:00:00'", UTC, 5),
    ("trunc(ts, 'MM') = DATE '2024-02-01'", UTC, 5),
    ("trunc(to_date(ts), 'WEEK') = DATE '2024-03-04'", UTC, 7),
    ("date_trunc('WEEK', ts) >= TIMESTAMP '2024-03-18 00:00:00'", UTC, 8),
    ("date_trunc('HOUR', ts) = TIMESTAMP '2024-03-10 01:00:00'", LA, 1),
    ("extract(YEAROFWEEK FROM ts) = 2024", UTC, 30),
    ("cast(ts AS timestamp_ntz) < TIMESTAMP_NTZ '2024-02-26 00:00:00'", UTC, 1),
    ("to_date(other) = DATE '2024-03-05'", UTC, 2),
    ("to_date(other) = DATE '2024-03-05' AND to_date(ts) <> DATE '2024-03-06'", UTC, 1),
    ("left(page, 1) = 'b' AND ts::date <= DATE '2024-02-28'", UTC, 1),
    ("substring(page, 1, 1) IN ('b', 'x')", UTC, 10),
    ("page LIKE 'c%'", UTC, 10),
    ("NOT (substring(page, 1, 2) < 'b3')", UTC, 20),
    ("floor(x) = 3", UTC, 1),
    ("ceil(x) BETWEEN 4 AND 5", UTC, 3),
    ("cast(x AS int) = 3", UTC, 1),
    ("cast(n AS double) > 26.5", UTC, 30),
    ("cast(n AS bigint) > 27", UTC, 0),
    ("year(ts) IS NULL", UTC, 0),
    ("to_date(other) IS NULL AND year(ts) = 2024", UTC, 30),
]


@pytest.mark.parametrize(("condition", "zone", "segment_count"), CASES)
def test_only_segments_with_matches_are_read(table, condition, zone, segment_count):
    context = {"timezone": zone}
    wanted = expected_rows(condition, zone)
    asked = {"group_by": ["page"], "aggregators": ["sum(n) AS n_sum"], "filter": condition}
    plan = table.explain(**asked, context=context)
    assert DAYS - plan.pruned_segments == segment_count
    found = table.query(**asked, context=context).to_pylist()
    groups = wanted.group_by("page").aggregate([("n", "sum")]).to_pylist()
    assert sorted(found, key=str) == sorted(groups, key=str)
    scanned = table.scan(filter=condition, context=context).read_all()
    assert scanned.sort_by("ts").equals(wanted)
    scan_plan = table.explain(filter=condition, context=context)
    assert DAYS - scan_plan.pruned_segments == segment_count


def sources(table, condition, zone=UTC, **more):
    asked = {"group_by": ["page"], "aggregators": ["sum(n) AS n"], "filter": condition, **more}
    plan = table.explain(**asked, context={"timezone": zone, "forceProjections": True})
    base = table.query(**asked, context={"timezone": zone, "noProjections": True})
    found = table.query(**asked, context={"timezone": zone, "forceProjections": True})
    assert sorted(found.to_pylist(), key=str) == sorted(base.to_pylist(), key=str)
    return plan.sources


@pytest.fixture(scope="module")
def monthly(tmp_path_factory):
    """All rows in one segment, with one projection for each way to serve a day."""
    made = {}
    for projection in PROJECTIONS:
        made[projection.name] = projseg.Table.create(
            tmp_path_factory.mktemp(projection.name) / "t",
            SCHEMA,
            time_column="ts",
            projections=[projection],
        )
        made[projection.name].append(ROWS)
    return made


@pytest.mark.parametrize(
    ("name", "condition", "zone"),
    [
        ("one_day", "ts >= '2024-03-10' AND ts < '2024-03-11'", UTC),
        ("one_day", "to_date(ts) = DATE '2024-03-10'", UTC),
        ("one_day", "date_trunc('DAY', ts) = TIMESTAMP '2024-03-10 00:00:00'", UTC),
        ("one_day", "date_trunc('HOUR', ts) = TIMESTAMP '2024-03-10 00:00:00'", None),
        ("march", "ts >= '2024-03-01' AND ts < '2024-04-01'", UTC),
        ("march", "to_date(ts) = DATE '2024-03-15'", None),
        ("daily", "ts >= '2024-03-10' AND ts < '2024-03-12'", UTC),
        ("daily", "year(ts) = 2024 AND to_date(ts) <= DATE '2024-03-01'", UTC),
        ("daily", "trunc(ts, 'MM') = DATE '2024-03-01'", UTC),
        ("hourly", "to_date(ts) = DATE '2024-03-10'", LA),
        ("local", "to_date(ts) = DATE '2024-03-10'", LA),
        ("local", "ts >= '2024-03-10' AND ts < '2024-03-12'", LA),
        ("local", "date_trunc('MONTH', ts) = TIMESTAMP '2024-03-01 00:00:00'", LA),
        ("local", "to_date(ts) = DATE '2024-03-10'", None),
    ],
)
def test_a_projection_serves_days_however_they_are_written(monthly, name, condition, zone):
    """The zone is None where it does not serve."""
    table = monthly[name]
    if zone is not None:
        assert sources(table, condition, zone) == {name: 1}
        return
    with pytest.raises(projseg.errors.ProjectionNotUsableError):
        sources(table, condition)


def test_deleted_rows_outside_of_a_filter_are_not_taken_back(tmp_path):
    projections = [
        projseg.Projection("local", [f"{LOCAL} AS day", "page"], ["sum(n) AS n", "count(n) AS c"])
    ]
    table = projseg.Table.create(tmp_path / "t", SCHEMA, time_column="ts", projections=projections)
    table.append(ROWS)
    table.delete("n = 3 AND day(ts) < 20")
    for condition in ("to_date(ts) = DATE '2024-03-10'", "to_date(ts) >= DATE '2024-03-18'"):
        assert sources(table, condition, LA)


def test_an_error_of_some_row_is_not_lost(tmp_path):
    schema = pa.schema([("x", pa.float64()), ("b", pa.int64())])
    table = projseg.Table.create(tmp_path / "t", schema)
    table.append(pa.table({"x": [1.5, 1e300], "b": [5, 1 << 40]}, schema=schema))
    for condition in ("floor(x) = 7", "cast(x AS int) = 7", "cast(b AS int) = 7"):
        with pytest.raises(projseg.errors.EvaluationError):
            table.query(aggregators=["count(*)"], filter=condition)


UNITS = ["HOUR", "DAY", "MONTH"]
OF_TIMES = ["to_date", "month", "dayofweek", "hour", "year"]


@pytest.mark.parametrize("seed", range(6))
def test_floors_of_one_time_say_nothing_of_another(tmp_path, seed):
    """Projections keep floors of two times, and of functions of one, in the same units."""
    draw = random.Random(seed)
    moments = ["ts", "other", "cast(ts AS timestamp_ntz)", "ts + INTERVAL '9' HOUR"]
    projections = []
    for number in range(5):
        keys = [
            f"date_trunc('{draw.choice(UNITS)}', {moment}) AS k{place}"
            for place, moment in enumerate(draw.sample(moments, draw.randrange(1, 4)))
        ]
        projections.append(
            projseg.Projection(f"p{number}", [*keys, "page"], ["sum(n) AS n", "count(*) AS c"])
        )
    table = projseg.Table.create(tmp_path / "t", SCHEMA, time_column="ts", projections=projections)
    table.append(ROWS)
    answered = 0
    for _ in range(tries(200, by_day=40)):
        key = f"{draw.choice(OF_TIMES)}({draw.choice(['ts', 'other'])})"
        function = draw.choice(OF_TIMES)
        limit = f"{function}(TIMESTAMP '2024-03-10 07:00:00')"
        condition = f"{function}({draw.choice(['ts', 'other'])}) >= {limit}"
        asked = draw.choice(
            [
                {"group_by": [key], "aggregators": ["sum(n) AS n"]},
                {"aggregators": [f"sum(n) FILTER (WHERE {condition}) AS n", "count(*) AS c"]},
                {"group_by": ["page"], "aggregators": ["sum(n) AS n"], "filter": condition},
                {"group_by": [key], "aggregators": [f"count_if({condition}) AS n"]},
            ]
        )
        base = table.query(**asked, context={"noProjections": True})
        try:
            found = table.query(**asked, context={"forceProjections": True})
        except projseg.errors.ProjectionNotUsableError:
            continue
        assert sorted(found.to_pylist(), key=str) == sorted(base.to_pylist(), key=str), asked
        answered += 1
    assert answered
