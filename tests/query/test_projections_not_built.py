import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import projseg
from projseg.errors import EvaluationError, ProjsegError


@pytest.mark.slow
def test_a_state_that_the_format_cannot_hold_gives_up_its_projection_only(tmp_path):
    count = 4_300_000  # a list of so many distinct values passes LIST_ITEMS_MAX
    rows = pa.table({"channel": ["#a"] * count, "user": np.arange(count) * 7919})
    table = projseg.Table.create(
        tmp_path / "t",
        rows.schema,
        target_segment_rows=count,
        projections=[
            projseg.Projection("users", ["channel"], ["count(DISTINCT user)"]),
            projseg.Projection("edits", ["channel"], ["count(*)", "sum(user)"]),
        ],
    )
    table.append(rows)
    (segment,) = table.segments().to_pylist()
    assert segment["projections"] == ["edits"]
    assert "PROJSEG_LIMIT_EXCEEDED" in dict(segment["not_built"])["users"]
    answer = table.query(aggregators="count(DISTINCT user) AS users, sum(user) AS total")
    assert answer.to_pylist() == [{"users": count, "total": 7919 * count * (count - 1) // 2}]
    assert table.verify() == []


def test_dictionaries_keep_apart_whatever_columns_are_called(tmp_path):
    rows = pa.table({"projection/0": ["b", "a"] * 5, "x": [3, 4] * 5})
    by_upper = projseg.Projection("projection", ["upper(`projection/0`) AS u"], ["sum(x) AS s"])
    table = projseg.Table.create(tmp_path / "t", rows.schema, projections=[by_upper])
    table.append(rows)
    found = table.query("upper(`projection/0`) AS u", "sum(x) AS s", order_by="u").to_pylist()
    assert found == [{"u": "A", "s": 20}, {"u": "B", "s": 15}]
    assert table.segments()["projections"].to_pylist() == [["projection"]]


def test_a_sum_that_its_state_cannot_hold_gives_up_its_projection_only(tmp_path):
    """Two rows are legal whose sum is not: the query says what Spark does."""
    wide = pa.decimal128(38, 0)
    rows = pa.table({"k": ["a", "a", "b"], "d": pa.array([9 * 10**37] * 2 + [1], wide)})
    table = projseg.Table.create(
        tmp_path / "t",
        rows.schema,
        projections=[
            projseg.Projection("sums", ["k"], ["sum(d)", "count(*)"]),
            projseg.Projection("counts", ["k"], ["count(*)", "max(d)"]),
        ],
    )
    table.append(rows)
    (segment,) = table.segments().to_pylist()
    assert segment["projections"] == ["counts"]
    reason = dict(segment["not_built"])["sums"]
    assert "PROJSEG_OVERFLOW" in reason
    assert "sum(d)" in reason
    with pytest.raises(EvaluationError, match="PROJSEG_OVERFLOW"):
        table.query("k", "sum(d) AS total")
    answer = table.query("k", "sum(d) AS total", filter="k = 'b'").to_pylist()
    assert answer == [{"k": "b", "total": Decimal(1)}]
    assert "not built" in str(table.explain("k", "sum(d)").segments["rejected"].to_pylist())
    assert table.verify(deep=True) == []


UTC = datetime.UTC
EXTREMES = {
    "tinyint": pa.array([-128, -128, 127, None], pa.int8()),
    "bigint": pa.array([-(2**63), -(2**63), 2**63 - 1, 2**63 - 1], pa.int64()),
    "float": pa.array([3.4e38, 3.4e38, float("-inf"), float("nan")], pa.float32()),
    "double": pa.array([1.7e308, 1.7e308, float("inf"), -0.0], pa.float64()),
    "decimal(38,0)": pa.array(
        [Decimal(10**38 - 1)] * 2 + [Decimal(1 - 10**38), Decimal(1)], pa.decimal128(38, 0)
    ),
    "decimal(38,38)": pa.array([Decimal("-0." + "9" * 38)] * 4, pa.decimal128(38, 38)),
    "decimal(18,2)": pa.array([Decimal(10**18 - 1).scaleb(-2)] * 4, pa.decimal128(18, 2)),
    "boolean": pa.array([True, False, None, True]),
    "string": pa.array(["", "\0", "x" * 3_000_000, "\U0010ffff" * 300_000]),
    "binary": pa.array([b"", b"\xff" * 3_000_000, None, b"\0"]),
    "date": pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None, None]),
    "timestamp": pa.array(
        [datetime.datetime(1, 1, 1, tzinfo=UTC), datetime.datetime(9999, 12, 31, tzinfo=UTC)] * 2,
        pa.timestamp("us", "UTC"),
    ),
    "nothing": pa.array([None] * 4, pa.decimal128(38, 10)),
}
AGGREGATES = [
    *("count(v)", "sum(v)", "avg(v)", "min(v)", "max(v)", "first(v)", "last(v)", "min_by(v, k)"),
    *("var_pop(v)", "stddev_samp(v)", "bool_and(v)", "bit_xor(v)", "bit_and(v)"),
    *("hll_sketch_agg(v)", "approx_count_distinct(v)", "theta_sketch_agg(v)"),
    *("count(DISTINCT v)", "sum(DISTINCT v)", "avg(DISTINCT v)"),
    *(
        "sum(v + v)",
        "sum(-v)",
        "sum(v * v)",
        "max(v / 0)",
        "max(abs(v))",
        "sum(v) FILTER (WHERE v > 0)",
    ),
    *(
        "min(date_add(v, 9))",
        "max(date_trunc('YEAR', v))",
        "max(concat(v, v))",
        "max(repeat(v, 9))",
    ),
    *("sum(CAST(v AS INT))", "max(CAST(v AS DECIMAL(5, 1)))", "max(CAST(v AS TIMESTAMP))"),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", EXTREMES)
def test_no_declared_projection_makes_legal_rows_unappendable(tmp_path, kind):
    """What a projection cannot hold is recorded as not built; base rows answer, or raise."""
    values = EXTREMES[kind]
    time = pa.array([0, 1, 2, 3], pa.timestamp("us", "UTC"))
    rows = pa.table({"t": time, "k": ["a", "a", "b", "b"], "v": values})
    table = projseg.Table.create(tmp_path / "t", rows.schema, time_column="t")
    declared = []
    for number, aggregate in enumerate([*AGGREGATES, "count(*)"]):
        keys = ["v"] if aggregate == "count(*)" else ["k"]
        try:
            table.add_projection(projseg.Projection(f"p{number}", keys, [f"{aggregate} AS a"]))
        except ProjsegError:
            continue
        declared.append((keys, aggregate))
    table.append(rows)
    table.append(rows.slice(0, 1))
    assert len(declared) > 5

    def answer(keys, aggregate, **context):
        try:
            found = table.query(keys, f"{aggregate} AS a", order_by=keys, context=context)
        except ProjsegError as error:
            return error.code
        return repr(found.to_pylist())

    for keys, aggregate in declared:
        assert answer(keys, aggregate) == answer(keys, aggregate, noProjections=True)
    assert table.query(aggregators="count(*) AS n").to_pylist() == [{"n": 5}]
    assert table.verify(deep=True) == []
