"""How aggregates are divided between tasks and Spark: state columns and SQL, no session needed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from projseg.algebra.aggregates.parse_aggregate import bind_aggregate
from projseg.algebra.aggregates.state_columns import mergeable
from projseg.errors import UnsupportedFeatureError

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("exact", pa.decimal128(10, 2)),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("t", pa.timestamp("us", tz="UTC")),
    ]
)
BY_TIME = "if(`x.time` IS NULL, NULL, struct(`x.time`, `x.value`))"


def divided(text):
    return mergeable(bind_aggregate(text, SCHEMA, time_column="t"))


@pytest.mark.parametrize(
    ("text", "states", "value"),
    [
        ("count(*) AS x", ["x"], "coalesce(sum(`x`), 0L)"),
        ("sum(n) AS x", ["x"], "cast(sum(`x`) AS bigint)"),
        ("sum(exact) AS x", ["x"], "cast(sum(`x`) AS decimal(20,2))"),
        (
            "avg(n) AS x",
            ["x.sum", "x.count"],
            "cast(sum(`x.sum`) AS double) / nullif(sum(`x.count`), 0L)",
        ),
        ("max_by(n, t) AS x", ["x.value", "x.time"], f"max_by(`x.value`, {BY_TIME})"),
        ("first(n) AS x", ["x.value", "x.time"], f"min_by(`x.value`, {BY_TIME})"),
        ("approx_count_distinct(text) AS x", ["x"], "hll_sketch_estimate(hll_union_agg(`x`))"),
        ("approx_count_distinct(flag) AS x", ["x"], "hll_sketch_estimate(hll_union_agg(`x`))"),
        ("theta_sketch_agg(text, 16) AS x", ["x"], "theta_union_agg(`x`, 16)"),
        ("bool_or(flag) AS `a``b`", ["a`b"], "max(`a``b`)"),
    ],
)
def test_states_and_the_value_of_them(text, states, value):
    found = divided(text)
    assert [state.name for state in found.states] == states
    assert found.value == value


def test_states_are_of_the_aggregate_with_its_filter():
    (sums, counts) = divided("avg(n) FILTER (WHERE flag)").states
    assert sums.primitive.filter is not None
    assert sums.primitive.filter == counts.primitive.filter
    assert (sums.type, counts.type) == (pa.decimal128(38, 0), pa.int64())


@pytest.mark.parametrize("text", ["count(DISTINCT n)", "sum(DISTINCT n)", "avg(exact)"])
def test_what_spark_cannot_merge_exactly_is_refused(text):
    with pytest.raises(UnsupportedFeatureError, match="PROJSEG_NOT_MERGEABLE") as caught:
        divided(text)
    assert f"'{text}'" in caught.value.message
