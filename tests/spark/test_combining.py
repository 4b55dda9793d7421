"""How aggregates are divided between tasks and Spark: the rules as text, no session needed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from projseg.algebra.aggregates.call import bind_aggregate
from projseg.spark_datasource.combining import combine

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("exact", pa.decimal128(10, 2)),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("t", pa.timestamp("us", tz="UTC")),
    ]
)


def split(text):
    return combine(bind_aggregate(text, SCHEMA, time_column="t"), 3)


@pytest.mark.parametrize(
    ("text", "parts", "union"),
    [
        ("count(*)", ["count(*) AS __part_3_0"], "coalesce(sum(__part_3_0), 0L)"),
        ("sum(n)", ["sum(n) AS __part_3_0"], "cast(sum(__part_3_0) AS bigint)"),
        ("sum(exact)", ["sum(exact) AS __part_3_0"], "cast(sum(__part_3_0) AS decimal(20,2))"),
        (
            "avg(n)",
            ["sum(n) AS __part_3_0", "count(n) AS __part_3_1"],
            "cast(sum(__part_3_0) AS double) / nullif(sum(__part_3_1), 0L)",
        ),
        (
            "max_by(n, t)",
            ["max_by(n, t) AS __part_3_0", "max(t) AS __part_3_1"],
            "max_by(__part_3_0, __part_3_1)",
        ),
        (
            "first(n)",
            ["min_by(n, t) AS __part_3_0", "min(t) AS __part_3_1"],
            "min_by(__part_3_0, __part_3_1)",
        ),
        (
            "approx_count_distinct(text)",
            ["hll_sketch_agg(text) AS __part_3_0"],
            "hll_sketch_estimate(hll_union_agg(__part_3_0))",
        ),
    ],
)
def test_parts_and_their_union(text, parts, union):
    combined = split(text)
    assert [part.replace("`", "") for part in combined.parts] == parts
    assert combined.union == union


def test_a_filter_goes_with_every_part():
    combined = split("avg(n) FILTER (WHERE flag)")
    assert all(" FILTER (WHERE " in part for part in combined.parts)


@pytest.mark.parametrize(
    "text", ["count(DISTINCT n)", "var_pop(n)", "avg(exact)", "approx_count_distinct(flag)"]
)
def test_what_finished_values_cannot_merge_is_not_divided(text):
    assert split(text) is None
