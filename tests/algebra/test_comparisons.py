"""Comparisons, AND, OR, CASE and their kin over every pair of a few awkward values of each type."""

import datetime
import math
import operator
from decimal import Decimal
from itertools import product

import pyarrow as pa
import pytest
from expressions import order_key

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import Column
from projseg.errors import InvalidInputError, ProjsegError

NUMBERS = [-1.5, -0.0, 0.0, 1.5, math.inf, -math.inf, math.nan]
VALUES = {
    "TINYINT": (pa.int8(), [-128, -1, 0, 127]),
    "BIGINT": (pa.int64(), [-(2**63), 0, 2**53, 2**53 + 1, 2**63 - 1]),
    "FLOAT": (pa.float32(), NUMBERS),
    "DOUBLE": (pa.float64(), NUMBERS),
    "STRING": (pa.string(), ["", "a", "ab", "é", "\ue000", "\U0001f600"]),
    "BOOLEAN": (pa.bool_(), [False, True]),
    "DECIMAL(3, 1)": (pa.decimal128(3, 1), [Decimal("-0.1"), Decimal("0.0"), Decimal("99.9")]),
    "DATE": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
}
TESTS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compared(function, left, right):
    if function == "<=>":
        return (left is None) == (right is None) and (left is None or same_key(left, right))
    if left is None or right is None:
        return None
    return TESTS[function](order_key(left), order_key(right))


def same_key(left, right):
    return order_key(left) == order_key(right)


def constant(value, type_text):
    if value is None:
        return f"CAST(NULL AS {type_text})"
    text = "Infinity" if value == math.inf else "-Infinity" if value == -math.inf else value
    return f"CAST('{text}' AS {type_text})"


def evaluated(text, **columns):
    schema = pa.schema([(name, column.type) for name, column in columns.items()])
    row_count = len(next(iter(columns.values())))
    found = evaluate(bind(text, schema), columns, row_count)
    return found.to_pylist()


def pairs_of(first, second):
    pairs = list(product([*first[1], None], [*second[1], None]))
    columns = zip(*pairs, strict=True)
    x, y = (pa.array(c, t) for c, t in zip(columns, (first[0], second[0]), strict=True))
    return pairs, {"x": x, "y": y}


@pytest.mark.parametrize("type_text", VALUES)
@pytest.mark.parametrize("function", [*TESTS, "<=>"])
def test_values_of_one_type_are_compared_in_sparks_order(function, type_text):
    arrow_type, values = VALUES[type_text]
    pairs, columns = pairs_of(VALUES[type_text], VALUES[type_text])
    expected = [compared(function, x, y) for x, y in pairs]
    assert evaluated(f"x {function} y", **columns) == expected
    column = pa.array([*values, None], arrow_type)
    for value in [*values, None]:
        text = constant(value, type_text)
        expected = [compared(function, x, value) for x in column.to_pylist()]
        assert evaluated(f"x {function} {text}", x=column) == expected, text
        expected = [compared(function, value, x) for x in column.to_pylist()]
        assert evaluated(f"{text} {function} x", x=column) == expected, text


@pytest.mark.parametrize("function", [*TESTS, "<=>"])
def test_decimals_of_two_scales_and_whole_numbers_are_compared_exactly(function):
    one = (pa.decimal128(21, 1), [Decimal("-1.0"), Decimal("0.1"), Decimal("99999999999999999999")])
    finer = (pa.decimal128(38, 18), [Decimal("-1"), Decimal("0.100000000000000001")])
    whole = (pa.int64(), [-1, 0, 10**18])
    for first, second in product((one, finer, whole), repeat=2):
        pairs, columns = pairs_of(first, second)
        expected = [compared(function, x, y) for x, y in pairs]
        assert evaluated(f"x {function} y", **columns) == expected


def test_decimals_that_38_digits_hold_are_compared_as_they_are():
    schema = pa.schema({"x": pa.decimal128(21, 1), "y": pa.decimal128(38, 18)})
    found = bind("x = y", schema)
    assert [type(argument) for argument in found.arguments] == [Column, Column]


def test_where_38_digits_hold_not_both_they_are_rounded_as_spark_does():
    x = pa.array([Decimal("1.00000000000000000001"), Decimal("1.1")], pa.decimal128(38, 20))
    assert evaluated("x = y", x=x, y=pa.array([1, 1])) == [True, False]


@pytest.mark.parametrize("scale", [37, 38])
def test_a_whole_number_beside_a_decimal_has_its_own_digits(scale):
    least = Decimal(4).scaleb(-30)
    assert evaluated("x > 0", x=pa.array([least, -least], pa.decimal128(38, scale))) == [
        True,
        False,
    ]


def test_a_decimal_beside_a_double_or_a_text_is_a_double():
    decimals = pa.array([Decimal("0.1"), Decimal("0.2")], pa.decimal128(3, 1))
    assert evaluated("x = 0.1D", x=decimals) == [True, False]
    assert evaluated("x < double('NaN')", x=decimals) == [True, True]
    assert evaluated("y = x", x=decimals, y=pa.array([0.1, 0.3])) == [True, False]
    assert evaluated("x = '0.1'", x=decimals) == [True, False]


@pytest.mark.parametrize("type_text", VALUES)
def test_in_is_equality_with_any_of_the_list(type_text):
    arrow_type, values = VALUES[type_text]
    column = pa.array([*values, None], arrow_type)
    for options in product([*values, None], repeat=2):
        found = evaluated(f"x IN ({', '.join(constant(o, type_text) for o in options)})", x=column)
        each = [[compared("=", x, o) for o in options] for x in column.to_pylist()]
        assert found == [True if True in e else None if None in e else False for e in each], options


def test_in_of_decimals_of_two_scales_and_of_columns():
    x = pa.array([Decimal("1.0"), Decimal("1.5"), None], pa.decimal128(3, 1))
    y = pa.array([Decimal("1.00"), Decimal("1.51"), Decimal(0)], pa.decimal128(5, 2))
    assert evaluated("x IN (y, 1.5)", x=x, y=y) == [True, True, None]
    assert evaluated("x IN (1.50, 7)", x=x) == [False, True, None]
    assert evaluated("1 IN (1, NULL)", x=x) == [True, True, True]
    assert evaluated("1 IN (2, NULL)", x=x) == [None, None, None]


@pytest.mark.parametrize("text", ["NULL = NULL", "NULL < NULL", "x = NULL", "x IN (NULL)"])
def test_comparing_with_null_is_null(text):
    assert evaluated(text, x=pa.array([1, None])) == [None, None]


@pytest.mark.parametrize("text", ["a = a", "a < 1", "1 <=> a", "a IN (1)", "i IN (a, 1)"])
def test_what_has_no_order_is_refused(text):
    nested = pa.array([[1]], pa.list_(pa.int64()))
    with pytest.raises(InvalidInputError, match="cannot compare"):
        evaluated(text, a=nested, i=pa.array([1]))


def test_tests_for_null_and_nan():
    x = pa.array([1.0, math.nan, None])
    assert evaluated("x IS NULL", x=x) == evaluated("isnull(x)", x=x) == [False, False, True]
    assert evaluated("x IS NOT NULL", x=x) == evaluated("isnotnull(x)", x=x) == [True, True, False]
    assert evaluated("isnan(x)", x=x) == [False, True, False]
    assert evaluated("isnan(y)", y=pa.array([1, None])) == [False, False]
    assert evaluated("isnan(y)", y=pa.array([math.nan], pa.float32())) == [True]
    assert evaluated("equal_null(x, x)", x=x) == [True, True, True]


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        *((name, {1}) for name in ("isnull", "isnotnull", "isnan")),
        *((name, {2}) for name in ("equal_null", "nullif", "nvl", "ifnull")),
        *((name, {3}) for name in ("if", "nvl2")),
        ("coalesce", set(range(1, 8))),
    ],
)
def test_a_function_takes_so_many_arguments(name, counts):
    for count in range(7):
        arguments = ["b"] * count
        if count in counts:
            evaluated(f"{name}({', '.join(arguments)})", b=pa.array([True]))
        else:
            with pytest.raises(ProjsegError):
                evaluated(f"{name}({', '.join(arguments)})", b=pa.array([True]))


def test_coalesce_takes_up_to_1000_arguments():
    x = pa.array([None, 7])
    nulls = "x" + ", if(x = 7, 7, x)" * 998
    assert evaluated(f"coalesce({nulls}, 5)", x=x) == [5, 7]
    with pytest.raises(ProjsegError, match="arguments"):
        evaluated(f"coalesce({nulls}, x, 5)", x=x)


@pytest.mark.parametrize("function", ["AND", "OR"])
def test_three_valued_logic(function):
    deciding = function == "OR"
    pairs, columns = pairs_of(VALUES["BOOLEAN"], VALUES["BOOLEAN"])
    both = [[x, y] for x, y in pairs]
    expected = [deciding if deciding in e else None if None in e else not deciding for e in both]
    assert evaluated(f"x {function} y", **columns) == expected
    assert (
        evaluated(f"x {function} (if(y, 1, 0) / if(y IS NULL, NULL, 1) = 1)", **columns) == expected
    )
    inverse = [None if e is None else not e for e in expected]
    assert evaluated(f"NOT (x {function} y)", **columns) == inverse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x != 0 AND 1 / x > 0", [False, True, None]),
        ("x = 0 OR 1 / x > 0", [True, True, None]),
        ("1 / nullif(x, 0) > 0 OR x = 0", [True, True, None]),
        ("CASE WHEN x = 0 THEN 7 ELSE 4 div x END", [7, 2, None]),
        ("CASE WHEN x = 0 THEN 7 WHEN 4 div x = 2 THEN 8 END", [7, 8, None]),
        ("CASE WHEN x = 0 THEN 7 WHEN 4 div x = 2 THEN 4 div x ELSE 1 END", [7, 2, 1]),
        ("if(x = 0, 7, 4 div x)", [7, 2, None]),
        ("nvl2(nullif(x, 0), 4 div x, 9)", [9, 2, 9]),
        ("coalesce(nullif(x, 0), 6)", [6, 2, 6]),
        ("coalesce(x, x, x)", [0, 2, None]),
        ("coalesce(if(x = 0, 5, NULL), 4 div x)", [5, 2, None]),
        ("coalesce(if(x = 0, 5, NULL), 4 div x, 3)", [5, 2, 3]),
        ("coalesce(7 + abs(coalesce(x, 1)), 1 div 0)", [7, 9, 8]),
        ("nvl(nullif(x, 2), 3)", [0, 3, 3]),
    ],
)
def test_only_what_is_needed_is_computed(text, expected):
    column = pa.array([0, 2, None])
    assert evaluated(text, x=column) == expected


def test_parts_of_a_condition_that_fail_are_left_for_rows_still_open():
    x = pa.array([None, 0])
    with pytest.raises(ProjsegError, match="DIVIDE_BY_ZERO"):
        evaluated("x IS NULL OR 1 / x > 0", x=x)
    assert evaluated("x = 0 OR 1 / x > 0", x=x) == [None, True]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("NOT x IN (1, 2)", "x NOT IN (1, 2)"),
        ("NOT x IS NULL", "x IS NOT NULL"),
        ("NOT isnan(y)", "NOT isnan(y)"),
    ],
)
def test_the_text_of_not(text, canonical):
    schema = pa.schema([("x", pa.int32()), ("y", pa.float64())])
    assert to_sql(bind(text, schema)) == canonical
    assert bind(canonical, schema) == bind(text, schema)
