"""Which operations are exact in every row of a segment, and what they are sums of."""

from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projseg.algebra.aggregates.aggregate_rewrites import branches_of, opposite_of, products_of
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.tree import Column
from projseg.algebra.proofs.exact_values import (
    exact_bounds,
    has_exact_sum,
    is_ordered,
    is_sure,
)
from projseg.algebra.proofs.filter_proofs import ZoneSets
from projseg.algebra.proofs.segment_facts import ColumnFacts, SegmentFacts
from projseg.errors import EvaluationError

SCHEMA = pa.schema(
    [
        ("x", pa.int64()),
        ("i", pa.int32()),
        ("y", pa.int8()),
        ("p", pa.decimal128(6, 2)),
        ("f", pa.float64()),
        ("t", pa.timestamp("us", tz="UTC")),
    ]
)
NUMBERS = st.sampled_from(["x", "i", "y", "p", "1", "(-3)", "2.50", "CAST(7 AS BIGINT)"])
FORMULAS = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
        st.builds("(- {})".format, inner),
        st.builds("coalesce({}, {})".format, inner, inner),
        st.builds("if(x > 3, {}, {})".format, inner, inner),
    ),
    max_leaves=5,
)
WIDE = {"x": 2**63 - 1, "i": 2**31 - 1, "y": 127}


def values_of(draw, name, rows):
    """Draw values of a column: small ones, or as large as its type holds."""
    if name == "p":
        cents = st.integers(-999_999, 999_999)
        return draw(
            st.lists(st.builds(lambda n: Decimal(n) / 100, cents), min_size=rows, max_size=rows)
        )
    most = draw(st.sampled_from([5, 100, WIDE[name]]))
    most = min(most, WIDE[name])
    return draw(st.lists(st.integers(-most, most), min_size=rows, max_size=rows))


@st.composite
def segments(draw):
    """Columns of a few rows, and what a manifest says of them."""
    rows = draw(st.integers(1, 4))
    columns = {name: values_of(draw, name, rows) for name in ("x", "i", "y", "p")}
    facts = {name: ColumnFacts(min(values), max(values)) for name, values in columns.items()}
    arrays = {name: pa.array(values, SCHEMA.field(name).type) for name, values in columns.items()}
    return arrays, ZoneSets(SegmentFacts("s", rows, facts)), rows


def evaluated(expression, arrays, rows):
    """Return the values, None where some row raises."""
    try:
        return evaluate(expression, arrays, rows).to_pylist()
    except EvaluationError:
        return None


@given(FORMULAS, segments())
def test_bounds_hold_every_value_and_no_row_raises(text, segment):
    arrays, zones, rows = segment
    expression = bind(text, SCHEMA)
    bounds = exact_bounds(expression, zones)
    if bounds is not None:
        values = evaluated(expression, arrays, rows)
        assert values is not None
        assert all(bounds[0] <= value <= bounds[1] for value in values if value is not None)


@given(FORMULAS, segments())
def test_an_exact_expression_is_the_sum_of_its_products(text, segment):
    arrays, zones, rows = segment
    expression = bind(text, SCHEMA)
    products = products_of(expression, lambda one: isinstance(one, Column))
    if has_exact_sum(expression, zones, rows) and products is not None:
        factors = {one for many in products for one in many}
        if not all(isinstance(one, Column) for one in factors):
            return  # a choice among values is taken apart before
        found = [sum_of(products, arrays, row) for row in range(rows)]
        assert found == evaluate(expression, arrays, rows).to_pylist()


def sum_of(products, arrays, row):
    total = Fraction(0)
    for factors, constant in products.items():
        for factor in factors:
            constant *= Fraction(arrays[factor.name][row].as_py())
        total += constant
    return total


@given(FORMULAS, segments())
def test_each_row_is_in_one_branch(text, segment):
    arrays, _, rows = segment
    expression = bind(text, SCHEMA)
    branches = branches_of(expression)
    whole = evaluated(expression, arrays, rows)
    masks = [evaluated(branch.condition, arrays, rows) for branch in branches]
    if None in masks:
        return  # a condition raises
    for row in range(rows if branches else 0):
        assert [mask[row] for mask in masks].count(True) == 1
        if whole is not None:
            (branch,) = [b for b, mask in zip(branches, masks, strict=True) if mask[row]]
            alone = {name: array.slice(row, 1) for name, array in arrays.items()}
            assert evaluate(branch.value, alone, 1).to_pylist() == whole[row : row + 1]


@pytest.mark.parametrize(
    "text", ["x > 3", "x IS NULL", "x IS NOT NULL", "x > 3 OR y < 2", "x IN (1)"]
)
def test_a_condition_or_its_opposite_is_true_of_every_row(text):
    condition = bind(text, SCHEMA)
    arrays = {"x": pa.array([1, 4, None], pa.int64()), "y": pa.array([None, 1, 5], pa.int8())}
    either = [evaluate(one, arrays, 3).to_pylist() for one in (condition, opposite_of(condition))]
    assert all([one, other].count(True) == 1 for one, other in zip(*either, strict=True))
    assert opposite_of(opposite_of(condition)) == condition


@pytest.mark.parametrize(
    ("text", "least", "largest", "is_exact"),
    [
        ("x + 1", 0, 2**63 - 2, True),
        ("x + 1", 0, 2**63 - 1, False),
        ("-x", -(2**63), 0, False),
        ("x * 3", 0, 2**61, True),
        ("x * 5", 0, 2**61, False),
        ("CAST(x AS INT)", 0, 2**31 - 1, True),
        ("CAST(x AS INT)", 0, 2**31, False),
        ("CAST(x AS DECIMAL(3, 1))", 0, 99, True),
        ("CAST(x AS DECIMAL(3, 1))", 0, 100, False),
        ("CAST(x AS DOUBLE)", 0, 2**50, True),
        ("CAST(x AS DOUBLE)", 0, 2**50 + 1, False),
        ("CAST(p AS DECIMAL(5, 1))", 0, 1, False),
        ("CAST(p AS DOUBLE)", 0, 1, False),
        ("f + 1", 0, 1, False),
        ("x DIV 2", 0, 9, False),
    ],
)
def test_what_is_exact(text, least, largest, is_exact):
    facts = {name: ColumnFacts(least, largest) for name in SCHEMA.names[:-1]}
    assert has_exact_sum(bind(text, SCHEMA), ZoneSets(SegmentFacts("s", 8, facts)), 8) == is_exact


@given(data=st.data())
@pytest.mark.parametrize("text", ["floor(x / 3600)", "ceil((x + 0.5D) / 7)", "floor(x * 1e300D)"])
def test_a_rounded_double_rises_with_the_exact_number_that_it_is_made_of(text, data):
    expression = bind(text, SCHEMA)
    assert is_ordered(expression)
    ends = st.integers(-(2**63), 2**63 - 1)
    values = sorted(data.draw(st.lists(st.one_of(ends, st.integers(-9, 9)), min_size=2)))
    found = evaluated(expression, {"x": pa.array(values, pa.int64())}, len(values))
    assert found is None or found == sorted(found)


@pytest.mark.parametrize(
    "text", ["floor(f)", "floor(f / 2)", "floor(x / f)", "floor(CAST('NaN' AS DOUBLE) + x)"]
)
def test_a_rounded_double_that_may_be_nan_has_no_order(text):
    assert not is_ordered(bind(text, SCHEMA))


ORDERED = ["floor(f)", "CAST(f AS INT)", "CAST(x AS INT)", "x DIV 3", "x + 1", "-y", "i * -2"]


@pytest.mark.parametrize("text", ORDERED)
@given(data=st.data())
def test_what_raises_at_neither_end_raises_nowhere_between(text, data):
    expression = bind(text, SCHEMA)
    assert is_ordered(expression) or text == "floor(f)"
    (name,) = expression.columns
    numbers = st.floats(allow_nan=False) if name == "f" else st.integers(-WIDE[name], WIDE[name])
    values = data.draw(st.lists(numbers, min_size=1, max_size=5))
    facts = {name: ColumnFacts(min(values), max(values))}
    if is_sure(expression, ZoneSets(SegmentFacts("s", len(values), facts))):
        array = pa.array(values, SCHEMA.field(name).type)
        assert evaluated(expression, {name: array}, len(values)) is not None
