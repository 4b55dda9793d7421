"""Doubles rounded, and as decimals and texts, against their twins; most drawn lie next to ties."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import decimals as oracle
from scale import tries

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.errors import EvaluationError
from projseg.kernels.decimals.wide_arithmetic import Rounding

NEXT_TO_TIES = st.tuples(
    st.integers(-(10**17), 10**17) | st.integers(-2000, 2000),
    st.integers(0, 17),
    st.sampled_from([0, 0, -2, -1, 1, 2]),
).map(lambda parts: _moved(float(f"{parts[0]}5e-{parts[1]}"), parts[2]))
DOUBLES = (
    NEXT_TO_TIES
    | st.floats()
    | st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.0**53, 1e22, 1e23, 0.1 + 0.2, 1e15 + 0.5])
)
SINGLES = DOUBLES.map(lambda value: _single(value)) | st.floats(width=32)
ROUNDINGS = st.sampled_from([("round", Rounding.HALF_UP), ("bround", Rounding.HALF_EVEN)])


def _moved(value, steps):
    for _ in range(abs(steps)):
        value = math.nextafter(value, math.inf if steps > 0 else -math.inf)
    return value


def _single(value):
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def values_of(text, arrow_type, values):
    """What an expression over f makes of the middle of a longer array, with a null."""
    with np.errstate(over="ignore"):
        array = pa.array([1.0, *values, None, 1.0], arrow_type).slice(1, len(values) + 1)
    return evaluate(bind(text, pa.schema([("f", arrow_type)])), {"f": array}, len(array))


def same(left, right):
    return [np.float64(x).tobytes() for x in left] == [np.float64(x).tobytes() for x in right]


@given(
    st.lists(DOUBLES, max_size=20), st.integers(-20, 30) | st.sampled_from([-400, 400]), ROUNDINGS
)
@settings(max_examples=tries(1000), deadline=None)
def test_rounded_doubles_are_their_twin(values, digits, way):
    function, rounding = way
    *found, null = values_of(f"{function}(f, {digits})", pa.float64(), values).to_pylist()
    assert null is None
    expected = [oracle.rounded_double(value, digits, rounding) for value in values]
    finite = [math.isfinite(value) for value in values]
    assert same(
        [x for x, is_finite in zip(found, finite, strict=True) if is_finite],
        [x for x, is_finite in zip(expected, finite, strict=True) if is_finite],
    )
    assert [str(x) for x in found] == [str(x) for x in expected]


@given(st.lists(SINGLES, max_size=20), st.integers(-20, 30), ROUNDINGS)
@settings(max_examples=tries(500), deadline=None)
def test_rounded_floats_are_their_twin(values, digits, way):
    function, rounding = way
    *found, _ = values_of(f"{function}(f, {digits})", pa.float32(), values).to_pylist()
    expected = [
        _single(oracle.rounded_double(x, digits, rounding, lambda v: str(np.float32(v))))
        for x in values
    ]
    assert [str(x) for x in found] == [str(x) for x in expected]


@given(
    st.lists(DOUBLES, max_size=20),
    st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))),
)
@settings(max_examples=tries(1000), deadline=None)
def test_doubles_are_decimals_by_their_shortest_digits(values, bounds):
    precision, scale = bounds
    wanted = f"DECIMAL({precision}, {scale})"
    expected = [
        oracle.double_to_decimal(value, precision, scale) if math.isfinite(value) else None
        for value in values
    ]
    decimals = [None if n is None else Decimal(n).scaleb(-scale, oracle.EXACT) for n in expected]
    assert values_of(f"TRY_CAST(f AS {wanted})", pa.float64(), values).to_pylist() == [
        *decimals,
        None,
    ]
    does_fit = all(
        n is not None or not math.isfinite(v) for n, v in zip(expected, values, strict=True)
    )
    try:
        assert values_of(f"CAST(f AS {wanted})", pa.float64(), values).to_pylist() == [
            *decimals,
            None,
        ]
        assert does_fit
    except EvaluationError:
        assert not does_fit


@given(
    st.lists(st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-(2**54), 2**54), max_size=20),
    st.integers(0, 38),
)
@settings(max_examples=tries(500), deadline=None)
def test_decimals_are_the_nearest_doubles_and_read_back_from_their_texts(numbers, scale):
    written = [oracle.text(n, scale) for n in numbers]
    kind = pa.decimal128(38, scale)
    schema = pa.schema([("d", kind), ("s", pa.string())])
    columns = {"s": pa.array(["1", *written, None])[1:]}
    columns["d"] = evaluate(
        bind(f"CAST(s AS DECIMAL(38,{scale}))", schema), columns, len(columns["s"])
    )
    assert columns["d"].to_pylist()[:-1] == [
        Decimal(n).scaleb(-scale, oracle.EXACT) for n in numbers
    ]
    doubles = evaluate(bind("CAST(d AS DOUBLE)", schema), columns, len(columns["s"]))
    assert doubles.to_pylist() == [*map(float, written), None]
    texts = evaluate(bind("CAST(d AS STRING)", schema), columns, len(columns["s"]))
    assert texts.to_pylist() == [*written, None]


LEAST = st.integers(-300, 300).map(lambda n: n * 5e-324)
LEAST_SINGLES = st.integers(-300, 300).map(lambda n: n * 1.401298464324817e-45)


@given(st.lists(DOUBLES | LEAST, max_size=20), st.lists(SINGLES | LEAST_SINGLES, max_size=20))
@settings(max_examples=tries(1500), deadline=None)
def test_floats_are_written_as_java_writes_them(doubles, singles):
    found = values_of("CAST(f AS STRING)", pa.float64(), doubles).to_pylist()
    assert found == [*(oracle.java_double(np.float64(x)) for x in doubles), None]
    found = values_of("CAST(f AS STRING)", pa.float32(), singles).to_pylist()
    assert found == [*(oracle.java_double(np.float32(x)) for x in singles), None]


def test_digits_of_all_scripts_are_digits():
    schema = pa.schema([("s", pa.string())])
    column = {"s": pa.array(["१२\u066b", "१२.५", " -३e१ ", "x", "ä", None, "7"])}
    found = evaluate(bind("TRY_CAST(s AS DECIMAL(9,1))", schema), column, 7)
    assert found.to_pylist() == [None, Decimal("12.5"), -30, None, None, None, 7]


def test_an_exponent_beyond_32_bits_is_refused_as_java_refuses_it():
    schema = pa.schema([("s", pa.string())])
    column = {"s": pa.array(["1e-2147483647", "1e-2147483648", "0e2147483648", "0e2147483649"])}
    found = evaluate(bind("TRY_CAST(s AS DECIMAL(9,1))", schema), column, 4)
    assert found.to_pylist() == [0, None, 0, None]
