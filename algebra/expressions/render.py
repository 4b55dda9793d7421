"""Canonical Spark SQL text of expressions: `bind` in UTC reads it back to an equal tree.

What depends on a time zone is text of UTC unless it stands inside `in_zone('zone', ...)`, which
projseg reads and Spark does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions.coercion import is_decimal
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.expressions.duration_text import Span
from projseg.algebra.expressions.functions.time_fields import CLOCK_FIELDS, DATE_FIELDS
from projseg.algebra.expressions.literals import decimal_literal
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.algebra.time.granularity import Granularity
from projseg.algebra.time.period import DAY
from projseg.algebra.time.time_zones import is_fixed, zone_table
from projseg.errors import InvalidInputError
from projseg.segment_format.types import TIMESTAMP, TIMESTAMP_NTZ, is_nested, type_name

_INFIX: Final = frozenset(
    {"=", "!=", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "&", "|", "^"}
    | {"and", "or", "like", "rlike"}
)
_SUFFIX: Final = {pa.int8(): "Y", pa.int16(): "S", pa.int32(): "", pa.int64(): "L"}
_UNITS: Final = {
    "P1Y": "YEAR",
    "P3M": "QUARTER",
    "P1M": "MONTH",
    "P1W": "WEEK",
    "P1D": "DAY",
    "PT1H": "HOUR",
    "PT1M": "MINUTE",
    "PT1S": "SECOND",
}
_ZONE_FREE: Final = frozenset({"P1D", "PT1H", "PT1M", "PT1S"})


def to_sql(expression: Expression) -> str:
    """Return the canonical text of an expression."""
    text = _text(expression, "UTC")
    is_infix = isinstance(expression, Call) and text.startswith("(") and text.endswith(")")
    return text[1:-1] if is_infix else text


def quoted_name(name: str) -> str:
    """Return a column's name as SQL, in backticks where it would read as something else."""
    return name if _is_plain(name) else "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """Return a string as an SQL constant."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@lru_cache(maxsize=4096)
def _is_plain(name: str) -> bool:
    if not (name.isascii() and name.isidentifier()):
        return False
    for before, after in (("", " = 1"), ("", " IS NULL"), ("", " IN (1)"), ("f(", ")")):
        try:
            tree = parse_sql(before + name + after)
        except InvalidInputError:
            return False
        names = [column.sql() for column in tree.find_all(exp.Column)]
        if names != [name] or tree.find(exp.Alias, exp.Cast) is not None:
            return False
    return True


def _text(expression: Expression, zone: str) -> str:
    if isinstance(expression, Column):
        return quoted_name(expression.name)
    if isinstance(expression, Literal):
        return _literal(expression)
    assert isinstance(expression, Call)
    own = _zone_of(expression)
    if own is not None and own != zone:
        return f"in_zone({quoted_text(own)}, {_text(expression, own)})"
    if expression.function in _INFIX:
        joint = f" {expression.function.upper()} "
        return f"({joint.join(_text(argument, zone) for argument in expression.arguments)})"
    special = _SPECIAL.get(expression.function, _plain_call)
    return special(expression, zone)


def _zone_of(call: Call) -> str | None:
    """Return the zone in which the text of the call itself must be read, if it matters."""
    if call.function == "time_floor":
        granularity = call.parameters[0]
        assert isinstance(granularity, Granularity)
        return granularity.timezone if call.type == TIMESTAMP else None
    if call.function == "add_interval":
        return str(call.parameters[3]) if len(call.parameters) > 3 else None
    has_zone = call.function in _ZONED and bool(call.parameters)
    return str(call.parameters[-1]) if has_zone else _field_zone(call)


_ZONED: Final = frozenset(
    {"cast", "hour", "minute", "second", "second_with_fraction", "time_bucket"}
)


def _field_zone(call: Call) -> str | None:
    """Return the zone of a date's field that is written over the timestamp itself."""
    if call.function not in DATE_FIELDS:
        return None
    inner = call.arguments[0]
    stripped = _without_floor(call)
    is_zoned = stripped is not inner and stripped.type == TIMESTAMP
    return str(inner.parameters[0]) if is_zoned and isinstance(inner, Call) else None


def _plain_call(call: Call, zone: str) -> str:
    return f"{call.function}({', '.join(_text(argument, zone) for argument in call.arguments)})"


def _not(call: Call, zone: str) -> str:
    inner = call.arguments[0]
    if isinstance(inner, Call) and inner.function == "is_null":
        return f"({_text(inner.arguments[0], zone)} IS NOT NULL)"
    if isinstance(inner, Call) and inner.function == "in":
        return _in(inner, zone, " NOT IN ")
    return f"(NOT {_text(inner, zone)})"


def _in(call: Call, zone: str, joint: str = " IN ") -> str:
    value, *options = (_text(argument, zone) for argument in call.arguments)
    return f"({value}{joint}({', '.join(options)}))"


def _is_null(call: Call, zone: str) -> str:
    return f"({_text(call.arguments[0], zone)} IS NULL)"


def _whole_divide(call: Call, zone: str) -> str:
    left, right = (_text(argument, zone) for argument in call.arguments)
    return f"({left} DIV {right})"


def _cast(call: Call, zone: str) -> str:
    inner = call.arguments[0]
    if call.type == pa.date32():
        inner = _stripped(inner, "P1D")
    return f"CAST({_text(inner, zone)} AS {_written(call.type)})"


def _case(call: Call, zone: str) -> str:
    *pairs, default = (_text(argument, zone) for argument in call.arguments)
    whens = [f"WHEN {c} THEN {v}" for c, v in zip(pairs[::2], pairs[1::2], strict=True)]
    return f"CASE {' '.join(whens)} ELSE {default} END"


def _field_access(call: Call, zone: str) -> str:
    return f"{_text(call.arguments[0], zone)}.{quoted_name(str(call.parameters[0]))}"


def _time_floor(call: Call, zone: str) -> str:
    granularity = call.parameters[0]
    assert isinstance(granularity, Granularity)
    argument, period = _text(call.arguments[0], zone), granularity.period_text
    unit = _UNITS.get(period) if granularity.has_default_origin else None
    if unit is not None and call.type == TIMESTAMP:
        return f"date_trunc('{unit}', {argument})"
    if unit is not None and call.type == pa.date32() and period not in _ZONE_FREE:
        return f"trunc({argument}, '{unit}')"
    if granularity.has_default_origin:
        return f"timestamp_floor({argument}, '{period}')"
    return f"timestamp_floor({argument}, '{period}', {_origin(granularity, call.type)})"


def _origin(granularity: Granularity, arrow_type: pa.DataType) -> str:
    local = np.array([granularity.origin], dtype=np.int64)
    if arrow_type != TIMESTAMP:
        return f"TIMESTAMP_NTZ '{np.datetime64(granularity.origin, 'us')}'"
    instant = zone_table(granularity.timezone, granularity.origin).to_utc(local)[0]
    return f"TIMESTAMP '{np.datetime64(int(instant), 'us')}Z'"


_TRIMS: Final = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}


def _trim(call: Call, zone: str) -> str:
    text, characters = call.arguments
    if isinstance(characters, Literal) and characters.value == " ":
        return f"{call.function}({_text(text, zone)})"
    side = _TRIMS[call.function]
    return f"trim({side} {_text(characters, zone)} FROM {_text(text, zone)})"


def _prefix(call: Call, zone: str) -> str:
    return f"({call.function}{_text(call.arguments[0], zone)})"


def _add_interval(call: Call, zone: str) -> str:
    months, days, micros = (int(str(part)) for part in call.parameters[:3])
    return f"({_text(call.arguments[0], zone)} + INTERVAL '{Span(months, days, micros).text}')"


def _time_bucket(call: Call, zone: str) -> str:
    months, micros, origin = (int(str(part)) for part in call.parameters[:3])
    size = Span(months, micros // DAY, micros % DAY).text
    origin_text = f"TIMESTAMP '{np.datetime64(origin, 'us')}Z'"
    return f"time_bucket(INTERVAL '{size}', {_text(call.arguments[0], zone)}, {origin_text})"


def _time_field(call: Call, zone: str) -> str:
    return f"{call.function}({_text(_without_floor(call), zone)})"


def _without_floor(call: Call) -> Expression:
    """Return the argument of a time field without the floor that reading it back puts in."""
    period = DATE_FIELDS.get(call.function) or CLOCK_FIELDS[call.function]
    inner = call.arguments[0]
    if isinstance(inner, Call) and inner.function == "cast":
        stripped = _stripped(inner.arguments[0], period)
        return inner if stripped is inner.arguments[0] else stripped
    return _stripped(inner, period)


def _stripped(expression: Expression, period: str) -> Expression:
    if not isinstance(expression, Call) or expression.function != "time_floor":
        return expression
    granularity = expression.parameters[0]
    assert isinstance(granularity, Granularity)
    is_period = granularity.period_text == period and granularity.has_default_origin
    is_implied = is_period and (granularity.by_clock or is_fixed(granularity.timezone))
    return expression.arguments[0] if is_implied else expression


def _literal(literal: Literal) -> str:
    value, arrow_type = literal.value, literal.type
    if value is None:
        return "NULL" if arrow_type == pa.null() else f"CAST(NULL AS {_written(arrow_type)})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return f"{value}{_SUFFIX[arrow_type]}"
    if is_decimal(arrow_type):
        assert isinstance(value, Decimal)
        is_natural = value.as_tuple().exponent and decimal_literal(value).type == arrow_type
        return f"{value:f}" if is_natural else f"CAST({value:f} AS {_written(arrow_type)})"
    if isinstance(value, float):
        return _floating(value, arrow_type)
    return _quoted_literal(value, arrow_type)


def _floating(value: float, arrow_type: pa.DataType) -> str:
    text = str(np.float32(value)) if arrow_type == pa.float32() else repr(value)
    if not math.isfinite(value):
        return f"CAST('{text}' AS {_written(arrow_type)})"
    return text + ("F" if arrow_type == pa.float32() else "D")


def _written(arrow_type: pa.DataType) -> str:
    name = type_name(arrow_type)
    return name if is_nested(arrow_type) else name.upper()


def _quoted_literal(value: Any, arrow_type: pa.DataType) -> str:
    if isinstance(value, datetime):
        text = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        iso = text.isoformat(sep=" ")
        return f"TIMESTAMP_NTZ '{iso}'" if arrow_type == TIMESTAMP_NTZ else f"TIMESTAMP '{iso}Z'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    return quoted_text(str(value))


_SPECIAL: Final[dict[str, Callable[[Call, str], str]]] = {
    "not": _not,
    "in": _in,
    "is_null": _is_null,
    "div": _whole_divide,
    "cast": _cast,
    "case": _case,
    "field": _field_access,
    "trim": _trim,
    "ltrim": _trim,
    "rtrim": _trim,
    "~": _prefix,
    "add_interval": _add_interval,
    "time_bucket": _time_bucket,
    "time_floor": _time_floor,
    **dict.fromkeys((*DATE_FIELDS, *CLOCK_FIELDS), _time_field),
}
