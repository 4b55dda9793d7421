"""Which expressions may raise for some value, and so must not be computed where not asked for."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from projseg.algebra.expressions.coercion import is_floating, is_integral
from projseg.algebra.expressions.regex import read_pattern
from projseg.algebra.expressions.tree import Call, Expression, Literal

_SAFE: Final = frozenset(
    [
        "=",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "<=>",
        "in",
        "is_null",
        "isnan",
        "and",
        "or",
        "not",
        "case",
        "coalesce",
        "time_floor",
        "lower",
        "upper",
        "year",
        "quarter",
        "month",
        "day",
        "dayofweek",
        "weekday",
        "dayofyear",
        "weekofyear",
        "yearofweek",
        "hour",
        "minute",
        "second",
        "second_with_fraction",
        "length",
        "concat",
        "trim",
        "ltrim",
        "rtrim",
        "replace",
        "startswith",
        "endswith",
        "contains",
        "substring",
        "field",
        "sign",
        "datediff",
        "last_day",
        "octet_length",
    ]
)
_ARITHMETIC: Final = frozenset(["+", "-", "*", "negative", "abs"])


def may_fail(expression: Expression) -> bool:
    """Whether evaluating it may raise an EvaluationError for some row."""
    return any(isinstance(node, Call) and _call_may_fail(node) for node in expression.walk())


def _call_may_fail(call: Call) -> bool:
    if call.function in ("like", "rlike"):
        return _pattern_may_fail(call)
    if call.function in _SAFE:
        return False
    if call.function in _ARITHMETIC:
        return not is_floating(call.type)
    if call.function == "cast":
        source, wanted = call.arguments[0].type, call.type
        is_safe = pa.types.is_temporal(source) and pa.types.is_temporal(wanted)
        is_text = wanted == pa.string() and source != pa.binary()
        return not (is_safe or is_text or is_lossless(source, wanted))
    return True


def _pattern_may_fail(call: Call) -> bool:
    pattern = call.arguments[1]
    if not isinstance(pattern, Literal):
        return True
    is_regex = call.function == "rlike" and isinstance(pattern.value, str)
    # `bind` has read a constant pattern, so this refuses none.
    return is_regex and read_pattern(str(pattern.value)).may_fail


def is_lossless(source: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast keeps every value and their order, so that it cannot fail either."""
    integral = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    if is_integral(source) and is_integral(wanted):
        return integral.index(source) <= integral.index(wanted)
    if is_floating(source) and is_floating(wanted):
        return bool(source == pa.float32() or wanted == pa.float64())
    if is_integral(source) and pa.types.is_decimal128(wanted):
        digits = (3, 5, 10, 19)[integral.index(source)]
        return bool(wanted.precision - wanted.scale >= digits)
    if is_integral(source) and is_floating(wanted):
        return source in integral[:2] or (source == pa.int32() and wanted == pa.float64())
    if pa.types.is_decimal128(source) and pa.types.is_decimal128(wanted):
        whole = wanted.precision - wanted.scale >= source.precision - source.scale
        return bool(whole and wanted.scale >= source.scale)
    return False
