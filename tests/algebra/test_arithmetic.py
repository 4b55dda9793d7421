"""Arithmetic over every pair of a few awkward values, its types, and the order of its values."""

import math
from decimal import Decimal
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.functions.scalar_function import Order
from projseg.algebra.expressions.tree import Literal
from projseg.errors import EvaluationError, InvalidInputError, ProjsegError

OVERFLOW = "PROJSEG_EVALUATION_OVERFLOW"
BY_ZERO = "PROJSEG_EVALUATION_DIVIDE_BY_ZERO"
BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
DOUBLES = [0.0, -0.0, 1.5, -2.5, 1e308, math.inf, -math.inf, math.nan]


def outcomes(text, **columns):
    """The value of each row alone, or the code of its error."""
    schema = pa.schema([(name, column.type) for name, column in columns.items()])
    expression = bind(text, schema)
    found = []
    for row in range(len(next(iter(columns.values())))):
        held = {name: column.slice(row, 1) for name, column in columns.items()}
        try:
            found.append(evaluate(expression, held, 1)[0].as_py())
        except EvaluationError as error:
            found.append(error.code)
    return found


@pytest.mark.parametrize("divisor", ["g", "2", "i", "cast(2 AS decimal(3, 1))"])
@pytest.mark.parametrize("function", ["{} / {}", "try_divide({}, {})"])
def test_quotients_of_floats_are_doubles(function, divisor):
    """Spark divides nothing but doubles and decimals."""
    columns = {"g": pa.array([3.0], pa.float32()), "i": pa.array([3])}
    schema = pa.schema([(name, column.type) for name, column in columns.items()])
    quotient = bind(function.format("g", divisor), schema)
    assert quotient.type == pa.float64()
    third = bind("cast(1 AS float) / g", schema)
    assert evaluate(third, columns, 1).to_pylist() == [1 / 3]


def truncated(left, right):
    """Return quotient and rest of whole numbers, the quotient cut towards zero."""
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient, left - quotient * right


def of_integers(function, left, right, bits):
    if left is None or right is None:
        return None
    if function in ("/", "div", "%", "pmod") and right == 0:
        return BY_ZERO
    if function == "/":
        return left / right
    found = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "div": lambda: truncated(left, right)[0],
        "%": lambda: truncated(left, right)[1],
        "pmod": lambda: truncated(left, right)[1] % right if right > 0 else None,
    }[function]()
    limit = 64 if function == "div" else bits
    return found if -(1 << limit - 1) <= found < 1 << limit - 1 else OVERFLOW


def written(function, left="x", right="y"):
    return f"pmod({left}, {right})" if function == "pmod" else f"{left} {function} {right}"


@pytest.mark.parametrize("arrow_type", BITS)
@pytest.mark.parametrize("function", ["+", "-", "*", "/", "div", "%", "pmod"])
def test_whole_numbers(function, arrow_type):
    end = 1 << BITS[arrow_type] - 1
    values = [-end, -7, -1, 0, 1, 2, 3, end - 1, None]
    rights = [v for v in values if function != "pmod" or v is None or v >= 0]
    pairs = list(product(values, rights))
    x, y = (pa.array(side, arrow_type) for side in zip(*pairs, strict=True))
    expected = [of_integers(function, a, b, BITS[arrow_type]) for a, b in pairs]
    assert outcomes(written(function), x=x, y=y) == expected


def test_the_positive_rest_of_a_negative_divisor_has_its_sign_only_below_zero():
    x = pa.array([5, -5, 7, -7, -6], pa.int32())
    assert outcomes("pmod(x, -3)", x=x) == [2, -2, 1, -1, 0]
    assert outcomes("mod(x, -3)", x=x) == [2, -2, 1, -1, 0]


@pytest.mark.parametrize(
    ("arrow_type", "expected"),
    [
        (pa.int8(), [-1, -7]),
        (pa.int16(), [-1, -7]),
        (pa.int32(), [2**31 - 1, 2**31 - 7]),
        (pa.int64(), [2**63 - 1, 2**63 - 7]),
    ],
)
def test_the_positive_rest_of_the_least_divisor_wraps_as_in_java(arrow_type, expected):
    """Spark 4.3.0 gave these: it adds the divisor in int or bigint, without a check."""
    least = -(1 << BITS[arrow_type] - 1)
    x, y = pa.array([-1, -7], arrow_type), pa.array([least, least], arrow_type)
    assert outcomes("pmod(x, y)", x=x, y=y) == expected


def of_doubles(function, left, right):
    if left is None or right is None:
        return None
    if function in ("/", "%", "pmod") and right == 0:
        return BY_ZERO
    with np.errstate(all="ignore"):
        one, other = np.float64(left), np.float64(right)
        rest = np.fmod(one, other) if function in ("%", "pmod") else None
        if function == "pmod" and rest < 0:
            rest = np.fmod(rest + other, other)
        return {
            "+": one + other,
            "-": one - other,
            "*": one * other,
            "/": one / other if other else None,
        }.get(function, rest)


@pytest.mark.parametrize("function", ["+", "-", "*", "/", "%", "pmod"])
def test_doubles(function):
    pairs = list(product([*DOUBLES, None], repeat=2))
    x, y = (pa.array(side, pa.float64()) for side in zip(*pairs, strict=True))
    expected = [of_doubles(function, a, b) for a, b in pairs]
    found = outcomes(written(function), x=x, y=y)
    assert [str(each) for each in found] == [str(each) for each in expected]


@pytest.mark.parametrize("arrow_type", [*BITS, pa.float64(), pa.decimal128(38, 0)])
def test_negation(arrow_type):
    values = [5, 0, -7, None]
    expected = [-5, 0, 7, None]
    if arrow_type in BITS:
        least = -(1 << BITS[arrow_type] - 1)
        values, expected = [*values, least, least + 1], [*expected, OVERFLOW, -least - 1]
    x = pa.array(values, arrow_type)
    assert outcomes("-x", x=x) == outcomes("negative(x)", x=x) == expected
    assert outcomes("positive(x)", x=x) == values
    (lone,) = outcomes("-x", x=pa.array(["1.5"]))
    assert lone == -1.5


@pytest.mark.parametrize("function", ["+", "-", "*", "div", "%", "pmod"])
def test_decimals_of_two_scales(function):
    lefts = [Decimal(text) for text in ("-7.25", "0.00", "7.25", "99.99")] + [None]
    rights = [Decimal(text) for text in ("2.5", "0.0", "-2.5")] + [None]
    rights = [right for right in rights if function != "pmod" or right is None or right >= 0]
    pairs = list(product(lefts, rights))
    expected = []
    for left, right in pairs:
        cents = [None if side is None else int(side * 100) for side in (left, right)]
        found = of_integers(function, *cents, 64)
        if isinstance(found, int) and function != "div":
            found = Decimal(found).scaleb(-4 if function == "*" else -2)
        expected.append(found)
    x, y = (pa.array(s, pa.decimal128(5, 2)) for s in zip(*pairs, strict=True))
    assert outcomes(written(function), x=x, y=y) == expected
    assert outcomes(written(function), x=x, y=y.cast(pa.decimal128(3, 1))) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("1 / x", BY_ZERO),
        ("x div x", BY_ZERO),
        ("x % x", BY_ZERO),
        ("y div -1", OVERFLOW),
        ("-y", OVERFLOW),
        ("y - 1", OVERFLOW),
    ],
)
def test_one_row_is_enough_to_fail(text, code):
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    columns = {"x": pa.array([1, None, 0, 5]), "y": pa.array([5, None, -(2**63), 7])}
    with pytest.raises(EvaluationError) as raised:
        evaluate(bind(text, schema), columns, 4)
    assert raised.value.code == code


@pytest.mark.parametrize("function", ["+", "-", "*", "/", "div", "%", "pmod"])
def test_a_constant_null_makes_null(function):
    schema = pa.schema([("x", pa.int64())])
    for text in (written(function, right="NULL"), written(function, left="NULL", right="x")):
        found = bind(text, schema)
        assert (type(found), found.value) == (Literal, None)


def test_only_exact_sums_may_fail():
    schema = pa.schema([("i", pa.int64()), ("f", pa.float64()), ("m", pa.decimal128(3, 1))])
    for text, may_fail in (("i + i", True), ("m * m", True), ("f - f", False), ("f / f", True)):
        call = bind(text, schema)
        assert FUNCTIONS[call.function].may_fail(call) == may_fail


def adjusted(precision, scale):
    """Spark's cut to 38 digits: fraction digits go first, down to 6 of them."""
    if precision <= 38:
        return pa.decimal128(precision, scale)
    return pa.decimal128(38, max(38 - (precision - scale), min(scale, 6)))


def decimal_type(function, p1, s1, p2, s2):
    """The table of results in Spark's DecimalPrecision."""
    scale = max(s1, s2)
    return {
        "+": lambda: adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale),
        "-": lambda: adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale),
        "*": lambda: adjusted(p1 + p2 + 1, s1 + s2),
        "/": lambda: adjusted(p1 - s1 + s2 + max(6, s1 + p2 + 1), max(6, s1 + p2 + 1)),
        "%": lambda: adjusted(min(p1 - s1, p2 - s2) + scale, scale),
        "pmod": lambda: adjusted(min(p1 - s1, p2 - s2) + scale, scale),
        "div": pa.int64,
    }[function]()


@pytest.mark.parametrize("function", ["+", "-", "*", "/", "div", "%", "pmod"])
def test_types_of_decimals(function):
    sizes = [(1, 0), (1, 1), (5, 2), (4, 3), (20, 0), (30, 15), (38, 0), (38, 10), (38, 38)]
    for one, other in product(sizes, repeat=2):
        schema = pa.schema([("x", pa.decimal128(*one)), ("y", pa.decimal128(*other))])
        assert bind(written(function), schema).type == decimal_type(function, *one, *other)


@pytest.mark.parametrize(
    ("text", "arrow_type", "value"),
    [
        ("i + t", pa.int32(), 9),
        ("i / t", pa.float64(), 3.5),
        ("i div t", pa.int64(), 3),
        ("i + s", pa.int64(), 10),
        ("s + i", pa.int64(), 10),
        ("f * s", pa.float64(), 4.5),
        ("m + s", pa.float64(), 4.5),
        ("s + s", pa.float64(), 6.0),
        ("s / s", pa.float64(), 1.0),
        ("i + NULL", pa.int32(), None),
        ("NULL + NULL", pa.float64(), None),
        ("NULL * s", pa.float64(), None),
        ("NULL div i", pa.int64(), None),
        ("m + i", pa.decimal128(12, 1), Decimal("8.5")),
        ("i * m", pa.decimal128(14, 1), Decimal("10.5")),
        ("m + 1", pa.decimal128(4, 1), Decimal("2.5")),
        ("m + f", pa.float64(), 3.0),
        ("f - m", pa.float64(), 0.0),
        ("g + g", pa.float32(), 1.0),
        ("g / g", pa.float64(), 1.0),
        ("g % g", pa.float32(), 0.0),
        ("g + i", pa.float64(), 7.5),
        ("i % m", pa.decimal128(3, 1), Decimal("1.0")),
        ("m div i", pa.int64(), 0),
        ("-s", pa.float64(), -3.0),
        ("-NULL", pa.float64(), None),
    ],
)
def test_types_and_values_of_mixed_operands(text, arrow_type, value):
    columns = {
        "i": pa.array([7], pa.int32()),
        "t": pa.array([2], pa.int8()),
        "s": pa.array(["3"]),
        "f": pa.array([1.5]),
        "g": pa.array([0.5], pa.float32()),
        "m": pa.array([Decimal("1.5")], pa.decimal128(3, 1)),
    }
    schema = pa.schema([(name, column.type) for name, column in columns.items()])
    expression = bind(text, schema)
    assert expression.type == arrow_type
    assert evaluate(expression, columns, 1).to_pylist() == [value]
    assert evaluate(expression, columns, 1).type == arrow_type


@pytest.mark.parametrize(
    "text", ["b + 1", "1 - b", "b * b", "-b", "f div 2", "2 div f", "m div f", "f div m", "d * 2"]
)
def test_what_is_no_number_for_it_is_refused(text):
    schema = pa.schema(
        [("b", pa.bool_()), ("f", pa.float64()), ("d", pa.date32()), ("m", pa.decimal128(3, 1))]
    )
    with pytest.raises(InvalidInputError):
        bind(text, schema)


@pytest.mark.parametrize(
    ("name", "wanted"), [("mod", 2), ("pmod", 2), ("div", 2), ("negative", 1), ("positive", 1)]
)
def test_a_function_takes_so_many_arguments(name, wanted):
    schema = pa.schema([("i", pa.int32())])
    for count in range(5):
        text = f"{name}({', '.join(['i'] * count)})"
        if count == wanted:
            assert bind(text, schema)
        else:
            with pytest.raises(ProjsegError):
                bind(text, schema)


RISES, FALLS, NONE = Order.RISES, Order.FALLS, Order.NONE


@pytest.mark.parametrize(
    ("text", "orders"),
    [
        ("i + j", {RISES}),
        ("f + h", {NONE}),
        ("f + 2D", {RISES, NONE}),
        ("f + 0D", {RISES, NONE}),
        ("f + double('Infinity')", {NONE}),
        ("f + double('NaN')", {NONE}),
        ("m + m", {RISES}),
    ],
)
def test_sums_rise(text, orders):
    assert set(order_of(text)) == orders


def order_of(text):
    schema = pa.schema(
        [
            *((name, pa.int64()) for name in "ij"),
            *((name, pa.float64()) for name in "fh"),
            ("m", pa.decimal128(3, 1)),
        ]
    )
    call = bind(text, schema)
    return FUNCTIONS[call.function].order(call)


@pytest.mark.parametrize(
    ("text", "orders"),
    [
        ("i - j", (RISES, FALLS)),
        ("m - 2", (RISES, FALLS)),
        ("f - h", (NONE, NONE)),
        ("f - 2D", (RISES, NONE)),
        ("f - 0D", (RISES, NONE)),
        ("f - double('-Infinity')", (NONE, NONE)),
        ("2D - f", (NONE, NONE)),
        ("i / 2", (RISES, NONE)),
        ("i div 2", (RISES, NONE)),
        ("i div -2", (FALLS, NONE)),
        ("m / -2", (FALLS, NONE)),
        ("f / -2D", (NONE, NONE)),
        ("f / 2D", (RISES, NONE)),
        ("f / double('Infinity')", (NONE, NONE)),
        ("f / double('NaN')", (NONE, NONE)),
        ("2D / f", (NONE, NONE)),
        ("i div 0", (NONE, NONE)),
        ("i div j", (NONE, NONE)),
        ("i % 2", (NONE, NONE)),
        ("pmod(i, 2)", (NONE, NONE)),
        ("-i", (FALLS,)),
        ("-m", (FALLS,)),
        ("-f", (NONE,)),
    ],
)
def test_orders_of_differences_quotients_and_negation(text, orders):
    assert order_of(text) == orders


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("i * 2", RISES),
        ("i * 1", RISES),
        ("i * -1", FALLS),
        ("m * 0.5", RISES),
        ("i * -2", FALLS),
        ("i * 0", NONE),
        ("i * j", NONE),
        ("m * 1.5", RISES),
        ("m * -1.5", FALLS),
        ("m * 0.0", NONE),
        ("f * 2D", RISES),
        ("f * -2D", NONE),
        ("f * 0D", NONE),
        ("f * double('Infinity')", NONE),
    ],
)
def test_a_product_with_a_constant_rises_or_falls(text, order):
    assert sorted(map(str, order_of(text))) == sorted(map(str, (order, NONE)))
