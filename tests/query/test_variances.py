"""Variances against exact fractions: how far each source may be off is stated and kept."""

import math
import tempfile
from fractions import Fraction
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

import projseg

ULP = Fraction(1, 2**53)
CASES = tries(3_000, 30)


def variance(values):
    """The exact variance of a population of doubles, and its condition number."""
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    found = sum((value - mean) ** 2 for value in exact) / len(exact)
    return found, math.sqrt(1 + mean**2 / found) if found else 0


def relative_error(found, values):
    expected, _ = variance(values)
    return Fraction(found) if expected == 0 else abs(Fraction(found) - expected) / expected


def bound(values, *, is_stored):
    """What docs and docstring state, with a factor of 4 for what "about" leaves open."""
    expected, condition = variance(values)
    if expected == 0:
        return 0
    return 4 * ULP * (len(values) + 2 + (4 * Fraction(condition) if is_stored else 0))


ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(-1000, 1000)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=CASES)
@given(
    st.lists(ROWS, min_size=1, max_size=4),
    st.sampled_from([0.0, 1e3, -1e9, 1e12, 1e15, -1e18, 1e100]),
    st.sampled_from([1.0, 0.125, 7.0, 1e6]),
)
def test_variances_of_every_source_are_as_exact_as_stated(batches, mean, step):
    schema = pa.schema([("g", pa.string()), ("k", pa.string()), ("v", pa.float64())])
    values_of = {}
    with tempfile.TemporaryDirectory() as location:
        by_both = projseg.Projection("by_both", ["g", "k"], ["var_pop(v)"])
        table = projseg.Table.create(
            location, schema, projections=[by_both], target_segment_rows=15
        )
        for batch in batches:
            rows = [{"g": g, "k": k, "v": mean + step * n} for g, k, n in batch]
            table.append(pa.Table.from_pylist(rows, schema))
            for row in rows:
                values_of.setdefault(row["g"], []).append(row["v"])
        for group_by, groups in (
            (("g",), values_of),
            ((), {None: list(chain(*values_of.values()))}),
        ):
            for context in ({}, {"noProjections": True}):
                found = table.query(group_by, "var_pop(v) AS v", context=context).to_pylist()
                assert len(found) == len(groups)
                for row in found:
                    values = groups[row.get("g")]
                    limit = bound(values, is_stored=not context)
                    if limit < Fraction(1, 2):  # beyond, no digit is promised
                        assert relative_error(row["v"], values) <= limit, (values, row, context)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mean", [0, 10**9, 10**15])
def test_many_segments_and_groups_merge_as_exactly_as_one(tmp_path, mean, threads):
    count = 40_000
    noise = np.random.default_rng(7).integers(-50, 50, count)
    rows = pa.table(
        {"k": np.arange(count) % 500, "w": np.arange(count) % 7, "v": (mean + noise).astype(float)}
    )
    table = projseg.Table.create(
        tmp_path / "t",
        rows.schema,
        projections=[projseg.Projection("by_both", ["k", "w"], ["stddev_samp(v)"])],
        target_segment_rows=5_000,
    )
    table.append(rows)
    values = rows["v"].to_pylist()
    for context in ({"noProjections": True}, {}):
        context["threads"] = threads
        (found,) = table.query((), "var_pop(v) AS v", context=context)["v"].to_pylist()
        if context.get("noProjections"):
            assert relative_error(found, values) <= bound(values, is_stored=False) / 10
        else:
            assert relative_error(found, values) <= bound(values, is_stored=True)


@pytest.mark.parametrize(
    "values",
    [
        [0.1] * 10,
        [1e308, 1e308, 1e308],
        [-1.7e308, -1.7e308],
        [1.7e308] * 3,
        [1e300] * 7,
        [5e-324] * 3,
        [2.0**53 + 2] * 1000,
    ],
)
def test_equal_values_have_no_spread(tmp_path, values):
    rows = pa.table({"v": values})
    table = projseg.Table.create(tmp_path / "t", rows.schema, target_segment_rows=3)
    table.append(rows)
    assert table.query((), "var_pop(v) AS v").to_pylist() == [{"v": 0.0}]


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
def test_values_beyond_numbers_have_no_variance(tmp_path, odd):
    rows = pa.table({"v": [1.0, 2.0, odd, 4.0]})
    table = projseg.Table.create(
        tmp_path / "t",
        rows.schema,
        projections=[projseg.Projection("p", [], ["var_pop(v)"])],
        target_segment_rows=2,
    )
    table.append(rows)
    for context in ({}, {"noProjections": True}):
        (found,) = table.query((), "var_pop(v) AS v", context=context)["v"].to_pylist()
        assert math.isnan(found)
