"""Buckets of a time column equal the floors of its values, in any order and with nulls."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from expressions import floor_instant
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_zones import ODD_ZONES
from scale import tries

import projseg
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.time.duration import MINUTE
from projseg.algebra.time.time_zones import zone_table
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.evaluation.choose import bucket_vector, evaluate_over
from projseg.evaluation.rows import MemorySource, all_rows
from projseg.segment_format.logical_types import TIMESTAMP
from projseg.segment_format.vectors import Numbers

SCHEMA = pa.schema([("time", TIMESTAMP), ("channel", pa.string())])
PERIODS = ["PT45M", "PT1H", "PT2H", "PT7H", "P1D", "P3D", "P1W", "P1M", "P2M", "P3M", "P1Y", "P10Y"]


@st.composite
def cases(draw):
    """Return a granularity, instants about a change of clock, and whether some are null."""
    granularity = Granularity.parse(
        draw(st.sampled_from(PERIODS)), draw(st.sampled_from(["UTC", *ODD_ZONES]))
    )
    middle = draw(st.sampled_from([*zone_table(granularity.timezone).starts[1:].tolist(), 0]))
    reach = granularity.longest_micros * draw(st.integers(1, 3))
    distances = st.integers(-reach, reach).map(lambda d: d // MINUTE * MINUTE)
    times = draw(st.lists(distances.map(lambda d: middle + d), min_size=1, max_size=20))
    times += [granularity.next_boundary(at) - 1 for at in draw(st.sets(st.sampled_from(times)))]
    return granularity, draw(st.permutations(times)), draw(st.booleans())


@given(cases())
@settings(deadline=None, max_examples=tries(400))
def test_each_value_has_the_bucket_of_its_floor(case):
    granularity, times, has_null = case
    values = np.array(times, dtype=np.int64)
    validity = np.arange(len(values)) % 3 != 1 if has_null else None
    found = bucket_vector(Numbers(values, TIMESTAMP, validity=validity), granularity, TIMESTAMP)
    expected = [floor_instant(micros, granularity) for micros in times]
    if validity is not None:
        expected = [
            start if known else None for start, known in zip(expected, validity, strict=True)
        ]
    assert found.to_arrow().cast(pa.int64()).to_pylist() == expected


@pytest.mark.parametrize(
    ("unit", "first", "last"),
    [
        ("month", "2025-01-31", "2025-03-31"),
        ("month", "2025-10-31", "2025-12-31"),
        ("quarter", "2024-12-31", "2025-06-30"),
        ("year", "2022-12-31", "2024-12-31"),
    ],
)
def test_the_last_bucket_may_be_longer_than_those_before_it(tmp_path, unit, first, last):
    """Rows stand by channel, so that their times do not ascend."""
    days = np.arange(np.datetime64(first), np.datetime64(last) + 1)
    channels = ["ab"[n % 2] for n in range(len(days))]
    rows = pa.table({"time": days.astype("datetime64[us]"), "channel": channels})
    table = projseg.Table.create(
        str(tmp_path / "t"), SCHEMA, time_column="time", cluster_by=["channel"]
    )
    query = [f"date_trunc('{unit}', time) AS k"], ["count(*) AS n"]
    table.add_projection(projseg.Projection("by_unit", *query))
    table.append(rows.cast(SCHEMA))
    granularity = Granularity.parse(unit)
    micros = days.astype("datetime64[us]").astype(np.int64).tolist()
    expected = Counter(floor_instant(at, granularity) for at in micros)
    for context in ({"noProjections": True}, {"useProjection": "by_unit"}):
        found = table.query(*query, context=context)
        keys = found["k"].cast(pa.int64()).to_pylist()
        assert dict(zip(keys, found["n"].to_pylist(), strict=True)) == expected


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "hour(time)",
        "minute(time)",
        "dayofweek(time)",
        "year(time) * 100 + month(time)",
        "hour(time) + minute(time)",  # floors of two granularities
        "CASE WHEN hour(time) > 3 THEN concat('h', hour(time)) END",
        "hour(time) = 2 OR time IS NULL",
        "10 DIV (hour(time) + 1)",
    ],
)
def test_expressions_over_floors_are_those_of_each_row(text, is_sorted, zone):
    draw = np.random.default_rng(3)
    values = draw.integers(0, 3 * 86_400_000_000, 6_000)
    values = np.sort(values) if is_sorted else values
    validity = None if is_sorted else draw.random(6_000) < 0.9
    times = Numbers(np.where(validity, values, 0) if validity is not None else values, TIMESTAMP)
    times = Numbers(times.values, TIMESTAMP, validity=validity)
    expression = bind(text, SCHEMA, timezone=zone)
    found = evaluate_over(expression, all_rows(MemorySource(6_000, {"time": times})))
    expected = evaluate(expression, {"time": times.to_arrow()}, 6_000)
    assert found.to_arrow().to_pylist() == expected.to_pylist()
