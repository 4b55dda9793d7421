"""States of several tasks, merged by Spark as the records say, are the final values."""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

import projseg
from projseg.algebra.aggregates.aggregate_functions import AGGREGATES, DISTINCT_OF
from projseg.algebra.aggregates.parse_aggregate import bind_aggregate
from projseg.algebra.aggregates.state_columns import mergeable
from projseg.errors import UnsupportedFeatureError

SCHEMA = pa.schema(
    {
        "k": pa.string(),
        "n": pa.int64(),
        "x": pa.float64(),
        "f": pa.float32(),
        "d": pa.decimal128(12, 2),
        "b": pa.bool_(),
        "s": pa.string(),
        "t": pa.timestamp("us", tz="UTC"),
    }
)
ARGUMENTS = [
    "*", "n", "x", "f", "d", "b", "s", "n, t", "s, t", "x, n", "s, 6", "n, 14",
]  # fmt: skip
ROWS = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", None]),
        "n": st.none() | st.integers(-(2**40), 2**40) | st.integers(-3, 3),
        "x": st.none() | st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, math.nan, math.inf]),
        "f": st.none() | st.floats(width=32),
        "d": st.none() | st.decimals(-99, 99, places=2),
        "b": st.none() | st.booleans(),
        "s": st.none() | st.sampled_from(["", "u", "v", "w"]),
        "t": st.sampled_from([0, 1, 2]).map(lambda n: n * 10**6),
    }
)


def texts():
    """Every aggregate that Spark can merge, over every argument it takes."""
    for name in AGGREGATES:
        for arguments in ARGUMENTS if name not in DISTINCT_OF else []:
            text = f"{name}({arguments})"
            try:
                mergeable(bind_aggregate(text, SCHEMA, time_column="t"))
            except (UnsupportedFeatureError, ValueError):
                continue
            yield text
            yield f"{text} FILTER (WHERE n > 0)"


OF_VALUES = {
    *("approx_percentile", "percentile", "percentile_disc", "median", "collect_list", "mode"),
    *("listagg", "corr", "covar_pop", "covar_samp", "skewness", "kurtosis"),
}
TEXTS = list(texts())
NAMED = [f"{text} AS a{index}" for index, text in enumerate(TEXTS)]


def test_all_but_distinct_aggregates_are_merged():
    names = {text.split("(")[0] for text in TEXTS}
    assert names == set(AGGREGATES) - set(DISTINCT_OF) - {"collect_set", *OF_VALUES}


@pytest.mark.slow
def test_merged_states_are_final_values(spark, tmp_path_factory):
    """Each part of the rows is one task; the session's zone does not matter to any value."""

    @settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        parts=st.lists(st.lists(ROWS, min_size=1, max_size=8), min_size=1, max_size=4),
        keys=st.sampled_from(["", "k"]),
    )
    def agree(parts, keys):
        folder = tmp_path_factory.mktemp("states")
        asked = projseg.Query(keys, NAMED)
        expected = table_of([row for part in parts for row in part], folder / "all").query(asked)
        states = [
            table_of(part, folder / str(number)).query(replace(asked, aggregation="partial"))
            for number, part in enumerate(parts)
        ]
        merging = [mergeable(bind_aggregate(t, SCHEMA, time_column="t")) for t in NAMED]
        values = [F.expr(one.value).alias(one.name) for one in merging]
        frame = spark.createDataFrame(pa.concat_tables(states))
        answer = estimated(frame.groupBy(*asked.group_by).agg(*values)).toArrow()
        names = [one.name for one in merging]
        expected = estimated(spark.createDataFrame(expected)).toArrow()
        assert answer.select(names).schema.types == expected.select(names).schema.types
        assert_same(answer.to_pylist(), expected.to_pylist(), keys)

    agree()


def estimated(frame):
    """Return a frame with sketches, whose bytes depend on the order of values, as estimates."""
    for index, text in enumerate(TEXTS):
        if text.startswith("kll"):
            item = text.split("(")[0].split("_")[-1]
            name = f"kll_sketch_get_{{}}_{item}(a{index}{{}})".format
            # Between the extremes, a sketch of more values than it keeps depends on their order.
            shares = name("quantile", ", array(0.0, 1.0)")
            values = f"if({name('n', '')} = 0, NULL, to_json({shares}))"
            frame = frame.withColumn(f"a{index}", F.expr(values))
        elif "_sketch_agg" in text:
            estimate = f"{text.split('_')[0]}_sketch_estimate(a{index})"
            frame = frame.withColumn(f"a{index}", F.expr(estimate))
    return frame


def table_of(rows, location):
    made = projseg.Table.create(location, SCHEMA, time_column="t")
    made.append(pa.Table.from_pylist(rows, SCHEMA))
    return made


def assert_same(answer, expected, keys):
    found = {row[keys] if keys else None: row for row in answer}
    wanted = {row[keys] if keys else None: row for row in expected}
    assert found.keys() == wanted.keys()
    for key, row in wanted.items():
        for name, text in zip([f"a{i}" for i in range(len(TEXTS))], TEXTS, strict=True):
            assert is_same(found[key][name], row[name]), (key, text, found[key], row)


def is_same(found, wanted):
    if not isinstance(wanted, float) or found is None:
        return found == wanted
    if math.isnan(wanted):
        return math.isnan(found)
    return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-3)
