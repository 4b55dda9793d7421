"""What has one value in a whole segment is a constant there, for keys and filters alike.

The oracle of answers is the question over all rows, folded in Python from what the evaluator gives
for each row. Tables are of day, hour and longer segments, with nulls and deleted rows.
"""

import collections
import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_zones import ODD_ZONES
from scale import one_of, tries

import projseg
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.proofs.segment_facts import constant_between
from projseg.algebra.time.duration import DAY, HOUR, MINUTE
from projseg.algebra.time.time_zones import zone_table
from projseg.segment_format.arrow_arrays import primitive_array

UTC, LA = "UTC", "America/Los_Angeles"
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("other", pa.timestamp("us", tz="UTC")),
        ("d", pa.date32()),
        ("page", pa.string()),
        ("n", pa.int32()),
    ]
)
START = datetime.datetime(2024, 3, 8, tzinfo=datetime.UTC)
BY_PAGE = projseg.Projection("by_page", ["page"], ["sum(n) AS n", "count(*) AS c"])
MONTHLY = projseg.Projection(
    "monthly", ["date_trunc('MONTH', ts) AS month", "page"], ["sum(n) AS n", "count(*) AS c"]
)


def rows_of(days, step_minutes=60):
    return pa.Table.from_pylist(
        [
            {
                "ts": (time := START + datetime.timedelta(days=day, minutes=minute)),
                "other": None if day == 2 and minute == 600 else time,
                "d": time.date(),
                "page": None if minute % 420 == 0 else "abc"[minute // 60 % 3],
                "n": minute // 60 + day,
            }
            for day in days
            for minute in range(0, 1440, step_minutes)
        ],
        schema=SCHEMA,
    )


ROWS = rows_of(range(6))
GONE = "n = 5 AND page = 'c'"


def make_table(location, projections=(), granularity="day"):
    made = projseg.Table.create(
        location, SCHEMA, time_column="ts", segment_granularity=granularity,
        projections=list(projections),
    )  # fmt: skip
    made.append(ROWS)
    return made


@pytest.fixture(scope="module")
def daily(tmp_path_factory):
    return make_table(tmp_path_factory.mktemp("daily") / "t")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    return make_table(tmp_path_factory.mktemp("served") / "t", [BY_PAGE, MONTHLY])


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    made = projseg.Table.create(
        tmp_path_factory.mktemp("mixed") / "t", SCHEMA, time_column="ts", segment_granularity="day"
    )
    made.append(ROWS.slice(0, 72))
    made.add_projection(BY_PAGE)
    made.append(ROWS.slice(72))
    made.delete(GONE)
    return made


def valued(text, rows, zone):
    columns = {name: rows.column(name).combine_chunks() for name in SCHEMA.names}
    return evaluate(bind(text, SCHEMA, timezone=zone), columns, rows.num_rows).to_pylist()


def folded(rows, keys, zone):
    """Return {key: (count, sum of n)} by a loop over rows."""
    found = collections.defaultdict(lambda: [0, 0])
    columns = [*(valued(key, rows, zone) for key in keys), rows["n"].to_pylist()]
    for *key, n in zip(*columns, strict=True):
        found[tuple(key)][0] += 1
        found[tuple(key)][1] += n
    return {key: tuple(value) for key, value in found.items()}


def kept_rows(condition, zone=UTC):
    return ROWS.filter(pa.array(valued(condition, ROWS, zone)))


def answer(table, keys, zone=UTC, **more):
    asked = {
        "group_by": [f"{key} AS k{index}" for index, key in enumerate(keys)],
        "aggregators": ["count(*) AS c", "sum(n) AS n"],
        **more,
    }
    found = table.query(**asked, context={"timezone": zone}).to_pylist()
    return {tuple(r[f"k{i}"] for i in range(len(keys))): (r["c"], r["n"]) for r in found}


KEYS = [
    ["date_trunc('DAY', ts)"],
    ["to_date(ts)", "page"],
    ["page", "year(ts)", "dayofweek(ts)"],
    ["concat(cast(to_date(ts) AS string), '-', page)"],
    ["d", "page"],
    ["month(d)"],
    ["date_trunc('HOUR', ts)"],
    ["to_date(other)", "page"],
    ["weekofyear(ts)", "last_day(ts)"],
]


@pytest.mark.parametrize("zone", one_of(3, [UTC, "Asia/Kolkata", LA]))
@pytest.mark.parametrize("keys", one_of(2, KEYS), ids=str)
def test_answers_are_those_of_all_rows(daily, served, mixed, keys, zone):
    expected = folded(ROWS, keys, zone)
    for table in (daily, served):
        assert answer(table, keys, zone) == expected
    left = kept_rows(f"NOT coalesce({GONE}, false)", zone)
    assert answer(mixed, keys, zone) == folded(left, keys, zone)
    odd = "n % 2 = 1 AND dayofweek(ts) <> 1"
    assert answer(served, keys, zone, filter=odd) == folded(kept_rows(odd, zone), keys, zone)


def test_counts_by_day_are_in_the_metadata_of_days(daily):
    counts = {"aggregators": ["count(*) AS c", "count(ts) AS t", "min(n) AS low"]}
    for keys in (["to_date(ts) AS k"], ["date_trunc('DAY', ts) AS k", "month(ts) AS m"]):
        plan = daily.explain(group_by=keys, **counts)
        assert plan.sources == {"metadata": 6}
        assert plan.figures.rows == 0
    found = daily.query(group_by=["to_date(ts) AS k"], **counts, order_by=["k"]).to_pylist()
    day = START.date()
    assert [row["k"] for row in found] == [day + datetime.timedelta(days=i) for i in range(6)]
    assert {(row["c"], row["t"]) for row in found} == {(24, 24)}
    assert [row["low"] for row in found] == list(range(6))


def test_other_buckets_are_not(daily):
    count = {"aggregators": ["count(*) AS c"]}
    assert daily.explain(group_by=["date_trunc('HOUR', ts)"], **count).sources == {"base": 6}
    local = daily.explain(group_by=["to_date(ts)"], **count, context={"timezone": LA})
    assert local.sources == {"base": 6}
    with_null = daily.explain(group_by=["to_date(other)"], **count)
    assert with_null.sources == {"metadata": 5, "base": 1}


def test_a_filter_of_an_aggregate_may_be_decided_by_the_segment(daily):
    calls = [
        "count(*) FILTER (WHERE to_date(ts) = DATE '2024-03-10') AS one",
        "max(n) FILTER (WHERE dayofweek(ts) = 6) AS fridays",
    ]
    assert daily.explain(aggregators=calls).sources == {"metadata": 6}
    assert daily.query(aggregators=calls).to_pylist() == [{"one": 24, "fridays": 23}]


@pytest.mark.parametrize(
    ("condition", "segment_count"),
    [
        ("dayofweek(ts) IN (1, 7)", 2),
        ("month(ts) = 3 AND day(ts) >= 12", 2),
        ("hour(ts) = 3", 6),
        ("month(ts) <> 3", 0),
        ("date_trunc('DAY', ts) = date_trunc('DAY', TIMESTAMP '2024-03-09 05:00:00')", 1),
        ("weekofyear(ts) = day(ts)", 2),
        ("weekofyear(d) = day(d)", 2),
    ],
)
def test_conditions_on_fields_of_a_day_read_only_its_segments(daily, condition, segment_count):
    plan = daily.explain(aggregators=["sum(n) AS n"], filter=condition)
    assert 6 - plan.pruned_segments == segment_count
    found = daily.scan(filter=condition).read_all()
    assert found.sort_by("ts").equals(kept_rows(condition))


def test_a_projection_without_time_serves_days(served):
    asked = {"aggregators": ["sum(n) AS n"]}
    for keys in (["to_date(ts)", "page"], ["page", "date_trunc('MONTH', ts)"], ["dayofyear(ts)"]):
        assert served.explain(group_by=keys, **asked).sources == {"by_page": 6}
        context = {"useProjection": "monthly"}
        assert served.explain(group_by=keys, **asked, context=context).sources == {"monthly": 6}
    hourly = served.explain(group_by=["date_trunc('HOUR', ts)"], **asked)
    assert hourly.rejections == {
        "by_page": {"GRANULARITY_TOO_COARSE": 6},
        "monthly": {"GRANULARITY_TOO_COARSE": 6},
    }


def test_buckets_coarser_than_segments_are_allowed_and_say_why_they_do_not_serve(served):
    part = {"interval": "2024-03-09T05:00/2024-03-12", "context": {"useProjection": "monthly"}}
    asked = {"group_by": ["page"], "aggregators": ["sum(n) AS n"]}
    plan = served.explain(**asked, interval=part["interval"])
    assert plan.rejections["monthly"]["UNALIGNED_INTERVAL"] == 1
    whole = served.explain(**asked, interval="2024-03-09/2024-03-12", context=part["context"])
    assert whole.sources == {"monthly": 3}
    assert served.verify(deep=True) == []


def test_a_segment_without_rows_left_makes_no_group(tmp_path):
    table = make_table(tmp_path / "t", [BY_PAGE])
    table.delete("n < 15 AND day(ts) = 8 OR n >= 15 AND day(ts) = 8 AND n < 22")
    table.delete("day(ts) = 8 OR day(ts) = 10 AND n > 7")
    left = kept_rows("day(ts) <> 8 AND (day(ts) <> 10 OR n <= 7)")
    for keys in (["to_date(ts)"], ["to_date(ts)", "page"], ["dayofweek(ts)"]):
        assert answer(table, keys) == folded(left, keys, UTC)


def test_segments_of_other_lengths(tmp_path):
    for granularity in ("hour", "month", "all"):
        table = make_table(tmp_path / granularity, [BY_PAGE], granularity)
        for keys in (["date_trunc('HOUR', ts)"], ["hour(ts)", "page"], ["to_date(ts)"]):
            for zone in (UTC, LA):
                assert answer(table, keys, zone) == folded(ROWS, keys, zone)
    hours = projseg.Table(str(tmp_path / "hour"))
    count = {"aggregators": ["count(*) AS c"], "group_by": ["hour(ts)"]}
    assert hours.explain(**count).sources == {"metadata": 144}
    assert 144 - hours.explain(**count, filter="hour(ts) = 3").pruned_segments == 6


def test_the_first_and_the_last_days_of_all_are_like_others():
    schema = pa.schema([("d", pa.date32())])
    expression = bind("last_day(d)", schema)
    for day in (datetime.date(1, 1, 5), datetime.date(9999, 12, 25), datetime.date(9999, 12, 31)):
        days = (day - datetime.date(1970, 1, 1)).days
        assert constant_between(expression, days, days).value.year == day.year
    assert constant_between(bind("d", schema), days, days).value == day


TEXTS = [
    *("date_trunc('DAY', t)", "to_date(t)", "hour(t)", "year(t)", "dayofweek(t)", "weekofyear(t)"),
    *("date_trunc('HOUR', t)", "minute(t) + hour(t)", "t", "second(t)", "date_trunc('MONTH', t)"),
    *("timestamp_floor(t, 'PT7H')", "month(t) = 3 AND hour(t) < 5", "cast(t AS string)"),
]


@st.composite
def spans(draw):
    zone = draw(st.sampled_from(ODD_ZONES))
    change = draw(st.sampled_from(zone_table(zone).starts[1:].tolist()))
    low = change + draw(st.integers(-3000, 3000)) * MINUTE
    length = draw(st.sampled_from([0, 1, 29 * MINUTE, HOUR - 1, HOUR, 5 * HOUR, DAY - 1, 40 * DAY]))
    return draw(st.sampled_from(TEXTS)), zone, low, low + length


@settings(deadline=None, max_examples=tries(2000, 30))
@given(spans())
def test_a_constant_is_the_value_of_every_time_of_a_span(drawn):
    text, zone, low, high = drawn
    schema = pa.schema([("t", pa.timestamp("us", tz="UTC"))])
    expression = bind(text, schema, timezone=zone)
    found = constant_between(expression, low, high)
    times = np.unique(np.append(np.arange(low, high, 7 * MINUTE), [low, high]))
    array = primitive_array(times).cast(schema.field("t").type)
    values = evaluate(expression, {"t": array}, len(times)).unique()
    if found is not None:
        constant = evaluate(found, {}, 1)
        assert values.equals(constant.cast(values.type)), drawn
    elif high == low:
        pytest.fail(f"{drawn} has one value")
