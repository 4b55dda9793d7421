"""Canonical Spark SQL text of expressions: `bind` in UTC reads it back to an equal tree.

Text that depends on a time zone is meant in UTC unless it is inside `in_zone('zone', ...)`, which
projseg reads and Spark does not.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from projseg.algebra.expressions.coercion import is_decimal
from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.sql_words import quoted_name, quoted_text, sql_type
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal, decimal_literal
from projseg.segment_format.logical_types import TIMESTAMP_NTZ

_SUFFIX: Final = {pa.int8(): "Y", pa.int16(): "S", pa.int32(): "", pa.int64(): "L"}


def to_sql(expression: Expression) -> str:
    """Return the canonical text of an expression."""
    text = _text(expression, "UTC")
    is_infix = isinstance(expression, Call) and text.startswith("(") and text.endswith(")")
    return text[1:-1] if is_infix else text


def _text(expression: Expression, zone: str) -> str:
    if isinstance(expression, Column):
        return quoted_name(expression.name)
    if isinstance(expression, Literal):
        return _literal(expression)
    if not isinstance(expression, Call):
        return str(expression)
    function = FUNCTIONS[expression.function]
    own = function.zone(expression)
    if own is not None and own != zone:
        return f"in_zone({quoted_text(own)}, {_text(expression, own)})"
    return function.text(expression, partial(_text, zone=zone))


def _literal(literal: Literal) -> str:
    value, arrow_type = literal.value, literal.type
    if value is None:
        return "NULL" if arrow_type == pa.null() else f"CAST(NULL AS {sql_type(arrow_type)})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return f"{value}{_SUFFIX[arrow_type]}"
    if is_decimal(arrow_type):
        assert isinstance(value, Decimal)
        is_natural = value.as_tuple().exponent and decimal_literal(value).type == arrow_type
        return f"{value:f}" if is_natural else f"CAST({value:f} AS {sql_type(arrow_type)})"
    if isinstance(value, float):
        return _floating(value, arrow_type)
    return _quoted_literal(value, arrow_type)


def _floating(value: float, arrow_type: pa.DataType) -> str:
    text = str(np.float32(value)) if arrow_type == pa.float32() else repr(value)
    if not math.isfinite(value):
        return f"CAST('{text}' AS {sql_type(arrow_type)})"
    return text + ("F" if arrow_type == pa.float32() else "D")


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
