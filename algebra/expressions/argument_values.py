"""Values in any form that a caller has them, as the constants of expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa

from projseg.algebra.expressions.tree import (
    PRECISION_MAX,
    Literal,
    decimal_literal,
    integer_literal,
    literal,
    scalar_literal,
)
from projseg.algebra.time.duration import Span
from projseg.errors import InvalidInputError, ProjsegError
from projseg.segment_format.logical_types import (
    TIMESTAMP,
    TIMESTAMP_NTZ,
    is_nested,
    normal_type,
)

ArgumentValue: TypeAlias = Literal | tuple[Literal, ...] | Span
"""What a parameter stands for: a constant, the constants of a list, or a length of time."""

_ITEMS_MAX: Final = 100_000
"""The most values of one list."""

_LISTS: Final = (list, tuple, set, frozenset, range)
_ARROW_LISTS: Final = ("__arrow_c_array__", "__arrow_c_stream__", "__array__")
_NULLS_OF_PANDAS: Final = ("NAType", "NaTType")
_LENGTH_MICROS_MAX: Final = (1 << 63) - 1
_DAY_MICROS: Final = 86_400_000_000


def argument_value(name: str, given: object) -> ArgumentValue:
    """Return what a parameter stands for, a value or values of Python, NumPy, pandas or Arrow.

    A value is None, bool, int, float, Decimal, str, bytes, date, datetime, timedelta, UUID or a
    scalar; values are a list, tuple, set, array or Series of these. Raises PROJSEG_BAD_ARGUMENT if
    no constant is this value exactly.
    """
    items = _items(name, given)
    if items is None:
        return _value(name, given)
    found = tuple(_value(name, item) for item in items)
    for one in found:
        if isinstance(one, Span):
            raise bad_value(name, "holds a length of time, which has no place in a list")
    return found  # type: ignore[return-value]  # no span is in it


def bad_value(name: str, problem: str) -> InvalidInputError:
    """Return the error of a value that no constant is."""
    return InvalidInputError("PROJSEG_BAD_ARGUMENT", f"argument '{name}' {problem}")


def _items(name: str, given: Any) -> Iterable[object] | None:
    """Return the items of a list; None for what is no list."""
    if isinstance(given, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):
        given = given.values if given.is_valid else None
        if given is None:
            return None
    if isinstance(given, _LISTS):
        found = sorted(given, key=repr) if isinstance(given, set | frozenset) else given
    elif isinstance(given, pa.Array | pa.ChunkedArray):
        found = given
    elif not isinstance(given, np.generic) and any(hasattr(given, one) for one in _ARROW_LISTS):
        found = _arrow_array(name, given)
    else:
        return None
    if len(found) > _ITEMS_MAX:
        raise bad_value(name, f"has {len(found)} values, and a list may have {_ITEMS_MAX}")
    return found


def _arrow_array(name: str, given: Any) -> pa.Array | pa.ChunkedArray:
    try:
        if hasattr(given, "__arrow_c_stream__"):
            return pa.chunked_array(given)
        return pa.array(given)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise bad_value(name, f"is no list of values: {_first_line(error)}") from error


def _value(name: str, given: Any) -> Literal | Span:
    if given is None or type(given).__name__ in _NULLS_OF_PANDAS:
        return Literal(pa.null(), None)
    for kinds, convert in _CONVERTERS:
        if isinstance(given, kinds):
            return convert(name, given)
    raise bad_value(
        name,
        f"is of type {type(given).__name__}; give None, bool, int, float, Decimal, str, bytes, "
        "date, datetime, timedelta, UUID, a NumPy or Arrow scalar, or a list",
    )


def _text(name: str, given: str) -> str:
    text = str.__str__(given)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise bad_value(
            name,
            f"has half of a character, U+{ord(text[error.start]):04X}, at character "
            f"{error.start + 1}; texts are Unicode without lone surrogates",
        ) from error
    return text


def _whole(name: str, value: int) -> Literal:
    if abs(value) >= 10**PRECISION_MAX:
        raise bad_value(name, f"is a whole number of more than {PRECISION_MAX} digits")
    return integer_literal(value)


def _decimal(name: str, given: Decimal) -> Literal:
    if not given.is_finite():
        raise bad_value(name, f"is the decimal {given}; give float('{given}')")
    exponent = int(given.as_tuple().exponent)
    if given.adjusted() >= PRECISION_MAX or -exponent > PRECISION_MAX:
        raise bad_value(name, f"is a decimal of more than {PRECISION_MAX} digits")
    if exponent > 0:
        given = Decimal(int(given))
    try:
        return decimal_literal(given)
    except ProjsegError as error:
        raise bad_value(name, f"is a decimal of more than {PRECISION_MAX} digits") from error


def _moment(name: str, given: datetime) -> Literal:
    if getattr(given, "nanosecond", 0):
        raise bad_value(name, f"is {given}, of which microseconds are stored; round it")
    plain = datetime.combine(given.date(), given.timetz())
    if plain.utcoffset() is None:
        return Literal(TIMESTAMP_NTZ, plain.replace(tzinfo=None, fold=0))
    try:
        return Literal(TIMESTAMP, plain.astimezone(UTC))
    except OverflowError as error:
        raise bad_value(name, f"is {given}, in UTC outside years 1 to 9999") from error


def _length(name: str, micros: int) -> Span:
    if abs(micros) > _LENGTH_MICROS_MAX:
        raise bad_value(name, f"is longer than {_LENGTH_MICROS_MAX} microseconds")
    days, clock = divmod(abs(micros), _DAY_MICROS)
    span = Span(days=days, clock_micros=clock)
    return span.negated() if micros < 0 else span


def _numpy_value(name: str, given: np.generic) -> Literal | Span:
    if isinstance(given, np.datetime64 | np.timedelta64) and np.isnat(given):
        return Literal(pa.null(), None)
    try:
        return _arrow_value(name, pa.array(np.array([given]))[0])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise bad_value(
            name, f"is a {type(given).__name__} that Arrow does not read: {_first_line(error)}"
        ) from error


def _arrow_value(name: str, given: pa.Scalar) -> Literal | Span:
    kind = given.type
    if isinstance(given, pa.DictionaryScalar | pa.ExtensionScalar) and not given.is_valid:
        return Literal(pa.null(), None)
    if isinstance(given, pa.DictionaryScalar):
        return _arrow_value(name, given.value)
    is_foreign = pa.types.is_decimal(kind) and not pa.types.is_decimal128(kind)
    if isinstance(given, pa.ExtensionScalar) or is_foreign:
        return _value(name, given.as_py())
    if isinstance(given, pa.MonthDayNanoIntervalScalar) and given.is_valid:
        months, days, nanos = given.as_py()
        return _span(name, Span(months, days, _whole_micros(name, nanos)))
    if pa.types.is_duration(kind) and given.is_valid:
        return _length(name, _duration_micros(name, given))
    return _stored_value(name, given)


def _stored_value(name: str, given: pa.Scalar) -> Literal:
    """Return a scalar of a type that columns may have."""
    try:
        wanted = normal_type(given.type)
        if not is_nested(wanted):
            return scalar_literal(given.cast(wanted))
    except UnicodeDecodeError as error:
        raise bad_value(name, "is a text that is not UTF-8") from error
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise bad_value(name, f"is no value of a column: {_first_line(error)}") from error
    except ProjsegError as error:
        raise bad_value(name, f"is no value of a column: {error.message}") from error
    raise bad_value(name, f"is of type {given.type}; give one value, or a list of values")


def _duration_micros(name: str, given: pa.Scalar) -> int:
    count, unit = given.cast(pa.int64()).as_py(), given.type.unit
    if unit == "ns":
        return _whole_micros(name, count)
    return int(count * {"s": 1_000_000, "ms": 1000, "us": 1}[unit])


def _whole_micros(name: str, nanos: int) -> int:
    micros, rest = divmod(nanos, 1000)
    if rest:
        raise bad_value(name, "has nanoseconds, of which microseconds are stored; round it")
    return micros


def _span(name: str, span: Span) -> Span:
    if abs(span.micros) > _LENGTH_MICROS_MAX:
        raise bad_value(name, f"is longer than {_LENGTH_MICROS_MAX} microseconds")
    return span


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


_Converter: TypeAlias = Callable[[str, Any], Literal | Span]
_CONVERTERS: Final[tuple[tuple[type | tuple[type, ...], _Converter], ...]] = (
    (bool, lambda name, given: Literal(pa.bool_(), given)),
    (str, lambda name, given: Literal(pa.string(), _text(name, given))),
    (int, lambda name, given: _whole(name, int(given))),
    (float, lambda name, given: literal(float(given), pa.float64())),
    (Decimal, _decimal),
    (datetime, _moment),
    (date, lambda name, given: Literal(pa.date32(), date(given.year, given.month, given.day))),
    (timedelta, lambda name, given: _length(name, given // timedelta(microseconds=1))),
    (UUID, lambda name, given: Literal(pa.string(), str(given))),
    ((bytes, bytearray, memoryview), lambda name, given: Literal(pa.binary(), bytes(given))),
    (pa.Scalar, _arrow_value),
    (np.generic, _numpy_value),
)
"""From types to what makes a constant of their values; the first that fits counts."""
