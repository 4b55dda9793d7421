"""Percentiles from projections, base rows and mixtures are as exact as they say, and no less."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from oracle import quantiles as oracle

import projseg
from projseg.algebra.aggregates.parse_aggregate import bind_aggregate
from projseg.algebra.aggregates.state_columns import mergeable
from projseg.errors import ProjsegError, UnsupportedFeatureError

SHARES = (0.0, 0.01, 0.25, 0.5, 0.9, 1.0)
ASKED = f"approx_percentile(x, array{SHARES}, 40) AS p"
SCHEMA = pa.schema({"g": pa.int64(), "h": pa.int64(), "x": pa.float64(), "i": pa.int32()})


def rows(seed, count=12000):
    random = np.random.default_rng(seed)
    x = np.where(random.random(count) < 0.02, np.nan, random.lognormal(size=count))
    return pa.table(
        {
            "g": random.zipf(1.5, count) % 7,
            "h": random.integers(0, 3, count),
            "x": pa.array(x, mask=random.random(count) < 0.05),
            "i": random.integers(-100, 100, count).astype(np.int32),
        },
        schema=SCHEMA,
    )


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Four segments, of which two have the projections; and all rows."""
    table = projseg.Table.create(tmp_path_factory.mktemp("t") / "t", SCHEMA)
    parts = [rows(seed) for seed in range(4)]
    for part in parts[:2]:
        table.append(part)
    kll = projseg.Projection(
        "by_g_h", group_by=["g", "h"], aggregators=["approx_percentile(x, 0.5, 40) AS p"]
    )
    values = projseg.Projection("by_i", group_by=["i"], aggregators=["count(*) AS n"])
    for projection in (kll, values):
        table.add_projection(projection, materialize=False)
    for part in parts[2:]:
        table.append(part)
    return table, pa.concat_tables(parts).to_pylist()


def wrong_ranks(values, found, shares):
    """How many ranks each value is off, NaN being the greatest."""
    ordered = np.sort(np.array([value for value in values if value is not None]))
    wanted = np.maximum(np.ceil(np.array(shares) * len(ordered)), 1)
    low = np.searchsorted(ordered, found) + 1
    high = np.searchsorted(ordered, found, "right")
    return np.maximum(np.maximum(low - wanted, wanted - high), 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("keys", [[], ["g"], ["h", "g"]])
@pytest.mark.parametrize("context", [{}, {"noProjections": True}])
def test_no_rank_is_further_off_than_asked(mixed, keys, context):
    table, every = mixed
    answer = table.query(group_by=keys, aggregators=[ASKED], context=context)
    sources = set(table.explain(group_by=keys, aggregators=[ASKED], context=context).sources)
    assert sources == ({"base"} if context else {"base", "by_g_h"})
    for row in answer.to_pylist():
        values = [r["x"] for r in every if all(r[key] == row[key] for key in keys)]
        count = sum(value is not None for value in values)
        assert wrong_ranks(values, row["p"], SHARES).max() <= count / 40


def test_few_values_are_exact_from_every_source(mixed):
    table, every = mixed
    for text in ("approx_percentile(i, 0.37)", "percentile_approx(i, 0.37, 30000)"):
        for context in ({}, {"noProjections": True}):
            answer = table.query(
                group_by="g", aggregators=[f"{text} AS p"], filter="x > 9", context=context
            )
            for row in answer.to_pylist():
                values = [
                    r["i"] for r in every
                    if r["g"] == row["g"] and r["x"] is not None and not r["x"] <= 9
                ]  # fmt: skip
                assert row["p"] == oracle.percentile(values, 0.37)


def test_counted_values_of_a_grouping_column_are_weighed(tmp_path):
    values = projseg.Projection("by_i", group_by=["i"], aggregators=["count(*) AS n"])
    table = projseg.Table.create(tmp_path / "t", SCHEMA, projections=[values])
    every = rows(0)
    table.append(every)
    asked = {
        "aggregators": ["approx_percentile(i, array(0.2, 0.5), 30) AS p"],
        "context": {"forceProjections": True},
    }
    (row,) = table.query(**asked).to_pylist()
    assert wrong_ranks(every["i"].to_pylist(), row["p"], (0.2, 0.5)).max() <= len(every) / 30


def test_a_projection_serves_its_accuracy_and_less(mixed):
    table, _ = mixed
    for text, is_served in (
        ("approx_percentile(x, 0.9, 40)", True),
        ("approx_percentile(x, array(0.1, 0.2), 39)", True),
        ("kll_sketch_agg_double(x, 50)", True),
        ("kll_sketch_agg_double(x, 20)", True),
        ("kll_sketch_agg_double(x, 51)", False),
        ("approx_percentile(x, 0.9, 41)", False),
        ("approx_percentile(x, 0.9)", False),
        ("approx_percentile(i, 0.9, 40)", False),
    ):
        sources = set(table.explain(group_by="h", aggregators=[f"{text} AS p"]).sources)
        assert ("by_g_h" in sources) == is_served, text


def test_sketches_survive_compaction_verification_and_deletes(tmp_path):
    projection = projseg.Projection(
        "p", group_by=["h"], aggregators=["approx_percentile(x, 0.5, 40) AS p"]
    )
    table = projseg.Table.create(tmp_path / "t", SCHEMA, projections=[projection])
    parts = [rows(seed, 3000) for seed in range(5)]
    for part in parts:
        table.append(part)
    table.compact()
    assert not [*table.verify(deep=True)]
    asked = {"group_by": "h", "aggregators": [ASKED]}
    assert set(table.explain(**asked).sources) == {"p"}
    every = pa.concat_tables(parts).to_pylist()
    for where in ("false", "i < 0"):
        table.delete(where)
        kept = [row for row in every if where == "false" or row["i"] >= 0]
        for row in table.query(**asked).to_pylist():
            values = [r["x"] for r in kept if r["h"] == row["h"]]
            count = sum(value is not None for value in values)
            assert wrong_ranks(values, row["p"], SHARES).max() <= count / 40


def test_over_no_values(tmp_path):
    table = projseg.Table.create(tmp_path / "t", SCHEMA)
    asked = ["approx_percentile(x, 0.5) AS p", "approx_percentile(x, array(0.5)) AS a"]
    asked += ["kll_sketch_agg_double(x) AS s"]
    (row,) = table.query(aggregators=asked).to_pylist()
    assert row == {"p": None, "a": None, "s": bytes.fromhex("02010f01c8000800")}
    table.append(pa.table({"g": [1], "h": [1], "x": [None], "i": [None]}, schema=SCHEMA))
    (row,) = table.query(group_by="g", aggregators=asked).to_pylist()
    assert (row["p"], row["a"]) == (None, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("approx_percentile(x)", "a percentage from 0 to 1, or an array of them; found none"),
        ("approx_percentile(x, 1.5)", "a percentage from 0 to 1"),
        ("approx_percentile(x, i)", "i"),
        ("approx_percentile(x, array())", "a percentage from 0 to 1"),
        ("approx_percentile(x, array(0.5, NULL))", "a percentage from 0 to 1"),
        ("approx_percentile(x, 0.5, 0)", "accuracy, a whole number from 1 to 52428"),
        ("approx_percentile(x, 0.5, 10, 1)", "accuracy, a whole number"),
        ("approx_percentile('a', 0.5)", "decimals of at most 18 digits"),
        ("kll_sketch_agg_double(i)", "it needs a float or double, found int"),
        ("kll_sketch_agg_bigint(i, 7)", "k, a whole number from 8 to 65535"),
    ],
)
def test_what_is_refused_says_what_is_taken(tmp_path, text, problem):
    table = projseg.Table.create(tmp_path / "t", SCHEMA)
    with pytest.raises(ProjsegError, match=problem):
        table.query(aggregators=text)


def test_percentiles_are_not_merged_outside():
    with pytest.raises(UnsupportedFeatureError, match="ask for a final answer"):
        mergeable(bind_aggregate("approx_percentile(x, 0.5)", SCHEMA))
    merged = mergeable(bind_aggregate("kll_sketch_agg_double(x, 99) AS s", SCHEMA))
    assert merged.value == "kll_merge_agg_double(`s.sketch`, 99)"


@pytest.mark.parametrize("keys", [[], ["g"]])
@pytest.mark.parametrize("context", [{}, {"noProjections": True}])
def test_exact_percentiles_from_every_source(mixed, keys, context):
    table, every = mixed
    asked = ["percentile(i, array(0.0, 0.123, 0.5, 1.0)) AS p", "median(i) AS m"]
    asked += ["percentile_disc(0.4) WITHIN GROUP (ORDER BY i) AS d", "median(x) AS x"]
    asked += ["percentile_cont(0.9) WITHIN GROUP (ORDER BY i) FILTER (WHERE h = 1) AS f"]
    for row in table.query(group_by=keys, aggregators=asked, context=context).to_pylist():
        chosen = [r for r in every if all(r[key] == row[key] for key in keys)]
        values = [r["i"] for r in chosen]
        assert row["p"] == pytest.approx(np.quantile(values, [0, 0.123, 0.5, 1]).tolist())
        assert row["m"] == np.median(values)
        assert row["d"] == oracle.percentile(values, 0.4)
        known = [r["x"] for r in chosen if r["x"] is not None]
        assert row["x"] == np.median(np.nan_to_num(known, nan=np.inf))
        assert row["f"] == pytest.approx(np.quantile([r["i"] for r in chosen if r["h"] == 1], 0.9))


def test_counts_weigh_an_exact_percentile(mixed):
    table, every = mixed
    asked = {"aggregators": ["percentile(i, 0.3) AS p", "median(i) AS m"]}
    assert set(table.explain(**asked).sources) == {"base", "by_i"}
    (row,) = table.query(**asked).to_pylist()
    assert row["p"] == pytest.approx(np.quantile([r["i"] for r in every], 0.3))


@pytest.mark.parametrize("text", ["median(x)", "percentile(x, 0.5)", "mode(x)", "array_agg(x)"])
def test_projections_do_not_store_every_value(text):
    with pytest.raises(ProjsegError, match="needs every value of a group; group by its argument"):
        projseg.Table.create(
            "/nowhere",
            SCHEMA,
            projections=[projseg.Projection("p", group_by="g", aggregators=text)],
        )


@pytest.mark.parametrize("context", [{}, {"noProjections": True}])
def test_sets_and_any_value_from_every_source(mixed, context):
    table, every = mixed
    asked = ["collect_set(h) AS s", "any_value(i) AS a", "collect_set(h) FILTER (WHERE h > 9) AS n"]
    for row in table.query(group_by="g", aggregators=asked, context=context).to_pylist():
        chosen = [r for r in every if r["g"] == row["g"]]
        assert row["s"] == sorted({r["h"] for r in chosen})
        assert row["a"] == min(r["i"] for r in chosen)
        assert row["n"] == []


def test_the_error_of_a_distinct_count_is_kept_by_the_same_sketch(mixed):
    table, _ = mixed
    counted = table.query(aggregators="approx_count_distinct(x) AS n")
    for error in (0.3, 0.05, 0.0173):
        assert table.query(aggregators=f"approx_count_distinct(x, {error}) AS n") == counted
    for text in ("approx_count_distinct(x, 0.4)", "approx_count_distinct(x, 0.017)"):
        with pytest.raises(ProjsegError, match=r"standard error from 0\.0173 to 0\.39"):
            table.query(aggregators=text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("median(x, 0.5)", "takes 1 argument"),
        ("percentile(x, 0.5, 2)", "takes 1 argument"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY x DESC)", "its order must ascend"),
        ("min(x) WITHIN GROUP (ORDER BY x)", "only percentile_cont, percentile_disc and mode"),
        ("mode() WITHIN GROUP (ORDER BY x DESC)", "its order must ascend, for the least mode"),
        ("mode(x, 1)", "mode takes a column, and then true or false; found 1"),
        ("mode(DISTINCT x)", "DISTINCT"),
        ("percentile('a', 0.5)", "it needs a number"),
        ("median(DISTINCT x)", "DISTINCT"),
    ],
)
def test_what_percentiles_do_not_take(mixed, text, problem):
    with pytest.raises(ProjsegError, match=problem):
        mixed[0].query(aggregators=text)


def test_functions_that_read_sketches_of_quantiles_are_sparks(mixed):
    with pytest.raises(ProjsegError, match="kll_sketch_get_n_bigint"):
        mixed[0].query(aggregators="kll_sketch_get_n_bigint(kll_sketch_agg_bigint(i))")
