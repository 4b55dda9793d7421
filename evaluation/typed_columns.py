"""Values of files as columns of declared types, from their own texts; those that do not fit.

A number never passes through a type that was guessed. Arrow converts what it takes exactly, Spark's
`TRY_CAST` the rest of a column, so a value means the same whatever stands beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.tree import Expression
from projseg.errors import EvaluationError, InvalidInputError, ProjsegError
from projseg.segment_format.cast_arrays import cast_array
from projseg.segment_format.logical_types import (
    DECIMAL_DIGITS_MAX,
    MICROS_A_DAY,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    is_nested,
    type_name,
)

HAS_ZONE: Final = r"[T ].*([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)$"
TIMES: Final = (TIMESTAMP, TIMESTAMP_NTZ)
UNITS: Final = {"s": 6, "ms": 3, "us": 0, "ns": -3}
"""The powers of ten that bring a number of units since 1970 to microseconds."""

_FINER: Final = r"[.,][0-9]{6}[0-9]*[1-9]"  # digits after the microseconds
_MICROS_MAX: Final = (MAXYEAR - 1969) * 366 * MICROS_A_DAY
_PLAIN: Final = re.compile(r"[+-]?(?P<whole>[0-9]+)(?:[.,](?P<fraction>[0-9]+))?")
_INT64_MAX: Final = 2**63 - 1
_INTEGER_DIGITS_MAX: Final = 40
_ARROW_ERRORS: Final = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError)

Bad = NDArray[np.bool_] | None


class Number(str):
    """A number of JSON with a point or an exponent, as it is written."""

    __slots__ = ()


class Converted(NamedTuple):
    """Values in a column's type, null where `bad` says that one does not fit it."""

    values: pa.Array
    bad: Bad = None


@dataclass(frozen=True)
class ValueForm:
    """How values are written as texts and numbers.

    `timezone` is that of times without a zone. `time_unit` is a key of `UNITS`, for numbers that
    are times, None for seconds as in SQL's CAST; `time_format` is as in `strptime`. With
    `cuts_times`, a time finer than a microsecond is cut and no bad value; with `is_sparks`, values
    that lose a part are taken as Spark's CAST takes them: a zone without a place in
    `timestamp_ntz`, parts of microseconds.
    """

    timezone: str = "UTC"
    time_unit: str | None = None
    time_format: str | None = None
    decimal_point: str = "."
    cuts_times: bool = False
    is_sparks: bool = False
    list_delimiter: str = "\x01"


@dataclass(frozen=True)
class Casts:
    """Converts columns of texts, of values of JSON, and of Arrow's types."""

    form: ValueForm = ValueForm()
    _bound: dict[tuple[pa.DataType, pa.DataType], Expression] = field(default_factory=dict)

    def texts(self, texts: pa.Array, target: pa.DataType) -> Converted:
        """Return texts in a type; a text of CSV, or one within JSON."""
        if pa.types.is_string(target):
            return Converted(texts)
        if is_nested(target):
            return self._parted(texts, target)
        form = self.form
        is_time = target in TIMES or pa.types.is_date(target)
        if is_time and form.time_format is not None:
            return self._by_format(texts, form.time_format, target)
        if is_time and form.time_unit is not None:
            return self.numbers(texts, target)
        is_number = not is_time and not pa.types.is_binary(target)
        if is_number and form.decimal_point != ".":
            swapped = pc.replace_substring(texts, ".", "?")  # a point is no part of such a number
            texts = pc.replace_substring(swapped, form.decimal_point, ".")
        found = self._by_arrow(texts, target)
        if found is not None:
            return Converted(found)
        values = self._evaluated(texts, target, "TRY_CAST")
        bad = _lost(texts, values)
        if target in TIMES:
            bad = self._checked_times(texts, target, bad)
        return _column(values, bad)

    def numbers(self, texts: pa.Array, target: pa.DataType) -> Converted:
        """Return numbers since 1970, as texts, in a type of times."""
        power = UNITS[self.form.time_unit or "s"]
        try:
            whole = texts.cast(pa.int64())
            micros = _scaled(whole, power, cuts=self.form.cuts_times)
        except _ARROW_ERRORS:
            found = [self._micros(text, power) for text in texts.to_pylist()]
            micros = pa.array(found, pa.int64())
        values = micros.cast(pa.timestamp("us"))
        # Arrow takes a timestamp without a zone for one in UTC.
        values = values.cast(target) if target in TIMES else pc.floor_temporal(values, unit="day")
        return _column(values.cast(target), _lost(texts, micros))

    def arrow(self, array: pa.Array, target: pa.DataType) -> Converted:
        """Return an array of Arrow in a type."""
        found = array.type
        if found == target:
            return Converted(array)
        is_number = pa.types.is_integer(found) or pa.types.is_decimal(found)
        if target in TIMES and (is_number or pa.types.is_floating(found)):
            return self.numbers(array.cast(pa.string()), target)
        if pa.types.is_string(found) and not is_nested(target):
            return self.texts(array, target)
        if self.form.cuts_times:
            return Converted(cast_array(array, target, cuts_times=True))
        return Converted(array.cast(target))

    def json(self, values: Sequence[Any], target: pa.DataType) -> Converted:
        """Return values of JSON, whose numbers are integers or `Number`, in a type."""
        if pa.types.is_list(target):
            return self._list(values, target)
        if pa.types.is_struct(target):
            return self._struct(values, target)
        if pa.types.is_map(target):
            return self._map(values, target)
        if target in TIMES:
            return self._json_times(values, target)
        text_of = _text_of_integer if pa.types.is_integer(target) else _text
        texts = pa.array([None if v is None else text_of(v) for v in values], pa.string())
        column = self.texts(texts, target)
        return _column(column.values, _either(column.bad, _not_null(values, texts)))

    def error(self, text: str, target: pa.DataType) -> ProjsegError:
        """Return the error of Spark's CAST for a text that does not become a type."""
        try:
            if not is_nested(target):
                self._evaluated(pa.array([text]), target, "CAST")
        except ProjsegError as error:
            return error
        return EvaluationError(
            "PROJSEG_EVALUATION_BAD_CAST", f"{text[:80]!r} is not of {type_name(target)}"
        )

    def _json_times(self, values: Sequence[Any], target: pa.DataType) -> Converted:
        """Return texts of times as such, and numbers since 1970."""
        is_number = [type(value) in (int, Number) for value in values]
        texts = pa.array(
            [_text(v) if n else None for v, n in zip(values, is_number, strict=True)], pa.string()
        )
        column = self.numbers(texts, target)
        if all(n or value is None for value, n in zip(values, is_number, strict=True)):
            return column
        others = [value if type(value) is str else None for value in values]
        said = self.texts(pa.array(others, pa.string()), target)
        merged = pc.if_else(pa.array(is_number), column.values, said.values)
        odd = [
            not n and value is not None and type(value) is not str
            for value, n in zip(values, is_number, strict=True)
        ]
        return _column(merged, _either(_either(column.bad, said.bad), np.array(odd, bool)))

    def _parted(self, texts: pa.Array, target: pa.DataType) -> Converted:
        """Return texts parted at the delimiter of lists, their items in the items' type."""
        if not pa.types.is_list(target):
            raise InvalidInputError(
                "PROJSEG_SCHEMA_MISMATCH", f"a text does not become {type_name(target)}"
            )
        parts = pc.split_pattern(texts, self.form.list_delimiter)
        inner = self.texts(parts.flatten(), target.value_type)
        lengths = pc.fill_null(pc.list_value_length(parts), 0).to_numpy()
        array = pa.ListArray.from_arrays(
            _offsets(lengths), inner.values, type=target, mask=texts.is_null()
        )
        return _column(array, _above(inner.bad, lengths))

    def _list(self, values: Sequence[Any], target: pa.DataType) -> Converted:
        kept, bad = _of_kind(values, list)
        lengths = np.array([0 if one is None else len(one) for one in kept], np.int64)
        inner = self.json([item for one in kept for item in one or ()], target.value_type)
        array = pa.ListArray.from_arrays(
            _offsets(lengths), inner.values, type=target, mask=_nulls(kept)
        )
        return _column(array, _either(bad, _above(inner.bad, lengths)))

    def _struct(self, values: Sequence[Any], target: pa.DataType) -> Converted:
        kept, bad = _of_kind(values, dict)
        fields = []
        for one in target:
            column = self.json([v and v.get(one.name) for v in kept], one.type)
            fields.append(column.values)
            bad = _either(bad, column.bad)
        nulls = _nulls(kept)
        if not fields:
            return _column(pa.array([v and {} for v in kept], target), bad)
        return _column(pa.StructArray.from_arrays(fields, fields=list(target), mask=nulls), bad)

    def _map(self, values: Sequence[Any], target: pa.DataType) -> Converted:
        kept, bad = _of_kind(values, dict)
        lengths = np.array([0 if one is None else len(one) for one in kept], np.int64)
        keys = self.json([key for one in kept for key in one or ()], target.key_type)
        items = self.json([v for one in kept for v in (one or {}).values()], target.item_type)
        array = pa.MapArray.from_arrays(
            _offsets(lengths), keys.values, items.values, type=target, mask=_nulls(kept)
        )
        return _column(array, _either(bad, _above(_either(keys.bad, items.bad), lengths)))

    def _by_arrow(self, texts: pa.Array, target: pa.DataType) -> pa.Array | None:
        """Return texts as Arrow converts them, where that is what Spark says; else None.

        It takes no time finer than a microsecond, and no zone in a time that has none.
        """
        if pa.types.is_decimal(target):
            return _exact_decimals(texts, target)
        is_hex = pa.types.is_integer(target) and _holds(texts, b"xX")  # 0x1F is a number to Arrow
        if is_hex or pa.types.is_binary(target):
            return None
        try:
            return texts.cast(target)
        except _ARROW_ERRORS:
            if target != TIMESTAMP or self.form.timezone != "UTC":
                return None
        try:
            return texts.cast(TIMESTAMP_NTZ).cast(TIMESTAMP)
        except _ARROW_ERRORS:
            return None

    def _evaluated(self, texts: pa.Array, target: pa.DataType, verb: str) -> pa.Array:
        key = (verb, target)
        if key not in self._bound:
            text = f"{verb}(x AS {type_name(target)})"
            schema = pa.schema([("x", texts.type)])
            self._bound[key] = bind(text, schema, timezone=self.form.timezone)
        return evaluate(self._bound[key], {"x": texts}, len(texts))

    def _by_format(self, texts: pa.Array, pattern: str, target: pa.DataType) -> Converted:
        found = pc.strptime(texts, format=pattern, unit="us", error_is_null=True)
        if target == TIMESTAMP and self.form.timezone != "UTC":
            found = pc.assume_timezone(found, self.form.timezone, ambiguous="earliest")
        return _column(found.cast(target, safe=False), _lost(texts, found))

    def _checked_times(self, texts: pa.Array, target: pa.DataType, bad: Bad) -> Bad:
        """Add to the bad ones times that would be stored as others."""
        if self.form.is_sparks:
            return bad
        if target == TIMESTAMP_NTZ:
            bad = _either(bad, _mask(pc.match_substring_regex(texts, HAS_ZONE)))
        if not self.form.cuts_times:
            bad = _either(bad, _mask(pc.match_substring_regex(texts, _FINER)))
        return bad

    def _micros(self, text: str | None, power: int) -> int | None:
        if text is None:
            return None
        try:
            exact = Decimal(text).scaleb(power)
            whole = exact.to_integral_value(ROUND_FLOOR)
        except InvalidOperation:
            return None
        is_kept = abs(whole) <= _MICROS_MAX and (whole == exact or self.form.cuts_times)
        return int(whole) if is_kept else None


def _exact_decimals(texts: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Return decimals; None where a text is none, or Arrow would drop digits of it.

    It does so for exponents and for more than 38 digits, and does not check the precision.
    """
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest > DECIMAL_DIGITS_MAX or _holds(texts, b"eE"):
        return None
    try:
        found = texts.cast(target)
        found.validate(full=True)
    except _ARROW_ERRORS:
        return None
    return found


def _holds(texts: pa.Array, signs: bytes) -> bool:
    """Whether some of the texts holds one of some signs."""
    stored = texts.buffers()[2]
    data = b"" if stored is None else stored.to_pybytes()  # also that of nulls and of other slices
    if not any(sign in data for sign in signs):
        return False
    return bool(pc.any(pc.match_substring_regex(texts, f"[{signs.decode()}]")).as_py())


def exact_type(texts: Sequence[str]) -> pa.DataType:
    """Return a decimal that holds all digits of some numbers; text, if none does."""
    found = [_PLAIN.fullmatch(text) for text in texts]
    whole = max((len(one["whole"]) for one in found if one), default=0)
    scale = max((len(one["fraction"] or "") for one in found if one), default=0)
    is_held = all(found) and whole + scale <= DECIMAL_DIGITS_MAX
    return pa.decimal128(DECIMAL_DIGITS_MAX, scale) if is_held else pa.string()


def _scaled(whole: pa.Array, power: int, *, cuts: bool) -> pa.Array:
    """Return integers as microseconds; null where they would be another time, or none."""
    limit = _MICROS_MAX // 10**power if power >= 0 else _INT64_MAX
    is_time = pc.and_(pc.less_equal(whole, limit), pc.greater_equal(whole, -limit))
    if power >= 0:
        kept = pc.if_else(is_time, whole, None)
        return pc.multiply(kept, 10**power)
    values = whole.fill_null(0).to_numpy()
    micros = pa.array(values // 10**-power)
    is_whole = pa.array((values % 10**-power == 0) | cuts)
    return pc.if_else(pc.and_(is_time, is_whole), micros, None)


def _text(value: Any) -> str | None:
    """Return a scalar of JSON as it is written; None for a list and an object."""
    if isinstance(value, str):
        return value
    if value is True or value is False:
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else None


def _text_of_integer(value: Any) -> str | None:
    """Return the text of a value; the digits of a number such as 1.0 or 1e3."""
    if type(value) is not Number:
        return _text(value)
    exact = Decimal(value)
    is_short = exact.is_finite() and exact.adjusted() < _INTEGER_DIGITS_MAX
    return str(int(exact)) if is_short and exact == exact.to_integral_value() else value


def _of_kind(values: Sequence[Any], kind: type) -> tuple[list[Any], Bad]:
    kept = [value if isinstance(value, kind) else None for value in values]
    bad = [value is not None and one is None for value, one in zip(values, kept, strict=True)]
    return kept, np.array(bad, bool)


def _offsets(lengths: NDArray[np.int64]) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))


def _nulls(values: Sequence[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def _above(bad: Bad, lengths: NDArray[np.int64]) -> Bad:
    """Return which lists hold a bad item."""
    if bad is None:
        return None
    owners = np.repeat(np.arange(len(lengths)), lengths)
    found = np.zeros(len(lengths), bool)
    found[owners[bad]] = True
    return found


def _lost(before: pa.Array, after: pa.Array) -> Bad:
    return _mask(pc.and_(pc.is_valid(before), pc.is_null(after)))


def _not_null(values: Sequence[Any], texts: pa.Array) -> Bad:
    if texts.null_count == 0:
        return None
    nulls = np.array([value is None for value in values], bool)
    return _mask(texts.is_null()) & ~nulls if texts.null_count else None


def _mask(found: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), bool)


def _either(one: Bad, other: Bad) -> Bad:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _column(values: pa.Array, bad: Bad) -> Converted:
    """Return a column whose bad values are null, if there are any."""
    if bad is None or not bad.any():
        return Converted(values)
    return Converted(pc.if_else(pa.array(bad), pa.scalar(None, values.type), values), bad)
