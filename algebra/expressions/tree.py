"""The typed expression tree, the constants in it, and the order of their values.

A tree is made by `bind` (text and schema in, canonical tree out), so two expressions that mean the
same in the ways `canonical.py` knows are equal as Python values and have equal `text`. The order
of values is Spark's: NaN after all numbers and equal to itself, -0.0 equal to 0.0, strings by code
point. Cuts are places between values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa

from projseg.errors import EvaluationError, InvalidInputError
from projseg.memory.forks import cached_property
from projseg.segment_format.arrow_arrays import array_of, scalar_of
from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ

PRECISION_MAX: Final = 38
"""The most digits of a decimal."""
_EPOCH: Final = datetime(1970, 1, 1)
_INTEGERS: Final = ((32, pa.int32()), (64, pa.int64()))
_FIRST_SURROGATE: Final = 0xD800  # no string holds a surrogate
_AFTER_SURROGATES: Final = 0xE000

Cut: TypeAlias = tuple[Any, ...]
"""BOTTOM, TOP, or (1, key, is after): just before the value of an `order_key`, or just after it."""
BOTTOM: Final[Cut] = (0,)
TOP: Final[Cut] = (2,)


@dataclass(frozen=True)
class Expression:
    """A node; `type` is the Arrow type of its value (see `logical_types`)."""

    type: pa.DataType

    @property
    def children(self) -> tuple[Expression, ...]:
        """The operands, in order."""
        return ()

    def walk(self) -> Iterator[Expression]:
        """Yield this node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def __getstate__(self) -> dict[str, object]:
        # Python hashes texts differently in each process.
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @cached_property
    def columns(self) -> frozenset[str]:
        """Names of the columns that the value depends on."""
        return frozenset(node.name for node in self.walk() if isinstance(node, Column))


@dataclass(frozen=True)
class Column(Expression):
    """The value of a column, in each row."""

    name: str

    @cached_property
    def _hash(self) -> int:
        return hash((self.type, self.name))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, eq=False)
class Literal(Expression):
    """A constant: bool, int, float, Decimal, str, bytes, date, datetime or None.

    Timestamps are aware datetimes in UTC, timestamp_ntz naive ones.

    Constants are equal if they are the same value, which differs from Python's `==`: 0.0 and -0.0
    are different, since they make different products, and NaN equals itself.
    """

    value: object

    @cached_property
    def _identity(self) -> object:
        value = self.value
        if isinstance(value, float):
            return "NaN" if math.isnan(value) else value.hex()
        return value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        return self.type == other.type and self._identity == other._identity

    @cached_property
    def _hash(self) -> int:
        return hash((self.type, self._identity))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class Call(Expression):
    """A function of its arguments.

    It is a key of the function table, lower case: "and", "=", "time_floor" or "cast". Parameters
    are hashable constants that are not values of the row: a Granularity, a time zone's name.
    """

    function: str
    arguments: tuple[Expression, ...]
    parameters: tuple[object, ...] = ()

    @property
    def children(self) -> tuple[Expression, ...]:
        """The operands, in order."""
        return self.arguments

    @cached_property
    def _hash(self) -> int:
        # Kept, because trees are looked up often and a hash needs those of all nodes below.
        return hash((self.type, self.function, self.arguments, self.parameters))

    def __hash__(self) -> int:
        return self._hash


TRUE: Final = Literal(pa.bool_(), True)
FALSE: Final = Literal(pa.bool_(), False)
UNKNOWN: Final = Literal(pa.bool_(), None)


def literal_scalar(literal: Literal) -> pa.Scalar:
    """Return the Arrow scalar of a constant."""
    value = literal.value
    if isinstance(value, datetime):
        return scalar_of(datetime_micros(value), pa.int64()).cast(literal.type)
    return scalar_of(value, literal.type)


def literal_array(values: Sequence[object], arrow_type: pa.DataType) -> pa.Array:
    """Return values, each as in a `Literal` of the type, as an array."""
    if not pa.types.is_timestamp(arrow_type):
        return array_of(values, arrow_type)
    micros = [datetime_micros(one) if isinstance(one, datetime) else None for one in values]
    return array_of(micros, pa.int64()).cast(arrow_type)


def scalar_literal(scalar: pa.Scalar) -> Literal:
    """Return the constant of an Arrow scalar.

    Raises PROJSEG_EVALUATION_OVERFLOW for a time outside years 1 to 9999, which a clock may show
    and no constant names.
    """
    if not scalar.is_valid:
        return literal(None, scalar.type)
    is_time = pa.types.is_timestamp(scalar.type)
    try:
        if is_time:
            value: object = micros_datetime(scalar.cast(pa.int64()).as_py(), scalar.type)
        else:
            value = scalar.as_py()
    except OverflowError as error:
        kind, unit = (pa.int64(), "microsecond") if is_time else (pa.int32(), "day")
        raise EvaluationError(
            "PROJSEG_EVALUATION_OVERFLOW",
            f"{unit} {scalar.cast(kind).as_py()} since 1970 lies outside years 1 to 9999",
        ) from error
    return literal(value, scalar.type)


def literal(value: object, arrow_type: pa.DataType) -> Literal:
    """Return a constant; every NaN becomes the same NaN."""
    if isinstance(value, float) and math.isnan(value):
        value = math.nan
    return Literal(arrow_type, value)


def without_negative_zero(constant: Literal) -> Literal:
    """Return the constant with 0.0 for -0.0; the two are equal only where values are compared."""
    is_zero = isinstance(constant.value, float) and constant.value == 0
    return Literal(constant.type, 0.0) if is_zero else constant


def integer_literal(value: int) -> Literal:
    """Return a whole number as Spark types it: int, else bigint, else decimal."""
    for width, arrow_type in _INTEGERS:
        if -(1 << (width - 1)) <= value < 1 << (width - 1):
            return Literal(arrow_type, value)
    return decimal_literal(Decimal(value))


def decimal_literal(value: Decimal) -> Literal:
    """Return a decimal constant of the smallest type that holds it; -0 becomes 0.

    Raises PROJSEG_BAD_EXPRESSION if the value has more digits than any decimal type.
    """
    if value.is_zero():
        value = value.copy_abs()
    sign_digits_exponent = value.as_tuple()
    exponent = int(sign_digits_exponent.exponent)
    if exponent > 0:
        value = value.quantize(Decimal(1))
    scale = max(-exponent, 0)
    precision = max(len(value.as_tuple().digits), scale, 1)
    if precision > PRECISION_MAX:
        raise InvalidInputError(
            "PROJSEG_BAD_EXPRESSION",
            f"a constant has {precision} digits, but a decimal has up to {PRECISION_MAX};"
            " write it as a double, such as 1.5e40",
        )
    return Literal(pa.decimal128(precision, scale), value)


def datetime_micros(value: datetime) -> int:
    """Return microseconds since 1970; the reading of a naive datetime counts as UTC."""
    naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return (naive - _EPOCH) // timedelta(microseconds=1)


def micros_datetime(micros: int, arrow_type: pa.DataType) -> datetime:
    """Return the datetime of a timestamp (aware, UTC) or timestamp_ntz (naive)."""
    moment = _EPOCH + timedelta(microseconds=micros)
    return moment.replace(tzinfo=UTC) if arrow_type == TIMESTAMP else moment


def is_timestamp(arrow_type: pa.DataType) -> bool:
    """Whether it is timestamp or timestamp_ntz."""
    return arrow_type in (TIMESTAMP, TIMESTAMP_NTZ)


def cut_at(value: object, arrow_type: pa.DataType, *, after: bool) -> Cut | None:
    """Return the cut just before or just after a value; None if it is not of the type.

    For integers, dates and timestamps the cut after a value is the cut before the next one, so
    that `> 3` and `>= 4` are the same set.
    """
    key = order_key(value, arrow_type)
    if key is None:
        return None
    if isinstance(key, int):
        return (1, key + after, 0)
    return (1, key, int(after))


def end_of_prefix(prefix: str) -> Cut:
    """Return the cut after all strings that begin with a prefix."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return TOP
    following = ord(kept[-1]) + 1
    if following == _FIRST_SURROGATE:
        following = _AFTER_SURROGATES
    return (1, kept[:-1] + chr(following), 0)


def order_key(value: object, arrow_type: pa.DataType) -> Any:
    """Return a key that sorts as Spark sorts `value`; None if the value is not of the type.

    It is an int for booleans, integers, dates (days) and timestamps (microseconds), and
    (is NaN, value) for float and double; decimals, strings and binaries are their own keys.
    """
    for is_kind, key_of in _KEYS:
        if is_kind(arrow_type):
            return key_of(value)
    return None


def _integer_key(value: object) -> Any:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _float_key(value: object) -> Any:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return (True, 0.0) if math.isnan(value) else (False, value)


def _timestamp_key(value: object) -> Any:
    return datetime_micros(value) if isinstance(value, datetime) else _integer_key(value)


def _date_key(value: object) -> Any:
    if isinstance(value, datetime) or not isinstance(value, date):
        return None
    return (value - _EPOCH.date()).days


_KEYS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[object], Any]], ...]] = (
    (pa.types.is_boolean, lambda value: int(value) if isinstance(value, bool) else None),
    (pa.types.is_integer, _integer_key),
    (pa.types.is_floating, _float_key),
    (
        pa.types.is_decimal,
        lambda value: Decimal(value) if isinstance(value, int | Decimal) else None,
    ),
    (pa.types.is_timestamp, _timestamp_key),
    (pa.types.is_date32, _date_key),
    (pa.types.is_string, lambda value: value if isinstance(value, str) else None),
    (pa.types.is_binary, lambda value: value if isinstance(value, bytes) else None),
)
