"""Logical types: Spark's names for them, their Arrow types, and their fixed-width form.

Everything inside projseg speaks Arrow types, restricted to one Arrow type for each Spark type.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.errors import InvalidInputError, UnsupportedFeatureError
from projseg.memory.memory_pool import empty
from projseg.segment_format.arrow_arrays import (
    WIDE,
    as_wide,
    halves,
    limits,
    numpy_dtype,
    primitive_array,
    primitive_values,
    scalar_of,
    to_objects,
    valid_values,
    validity_bitmap,
)
from projseg.segment_format.format_limits import NESTING_DEPTH_MAX

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ: Final = pa.timestamp("us")
MICROS_A_DAY: Final = 86_400_000_000
INTEGER_DIGITS: Final = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
DOUBLE_DIGITS: Final = 15  # a double holds every integer of so many digits
DECIMAL_DIGITS_MAX: Final = 38

_ARROW_BY_NAME: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
    "void": pa.null(),
}
_NAME_BY_ARROW: Final[dict[pa.DataType, str]] = {v: k for k, v in _ARROW_BY_NAME.items()}
_DECIMAL: Final = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")


def type_name(arrow_type: pa.DataType) -> str:
    """Return Spark's name of a type, such as `bigint` or `array<struct<a:int>>`."""
    if (name := _NAME_BY_ARROW.get(arrow_type)) is not None:
        return name
    if pa.types.is_decimal128(arrow_type):
        return f"decimal({arrow_type.precision},{arrow_type.scale})"
    if pa.types.is_list(arrow_type):
        return f"array<{type_name(arrow_type.value_type)}>"
    if pa.types.is_map(arrow_type):
        return f"map<{type_name(arrow_type.key_type)},{type_name(arrow_type.item_type)}>"
    if pa.types.is_struct(arrow_type):
        fields = (f"{_quoted(f.name)}:{type_name(f.type)}" for f in arrow_type)
        return f"struct<{','.join(fields)}>"
    raise UnsupportedFeatureError(
        "PROJSEG_UNSUPPORTED_TYPE", f"type {arrow_type} has no Spark type that projseg stores"
    )


@lru_cache(maxsize=4096)
def parse_type_name(name: str) -> pa.DataType:
    """Return the Arrow type of what `type_name` wrote."""
    parser = _TypeNameParser(name)
    parsed = parser.parse()
    parser.require(parser.position == len(name))
    return parsed


class _TypeNameParser:
    """Recursive descent over a type name, to a bounded depth."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0

    def require(self, condition: bool) -> None:
        if not condition:
            raise InvalidInputError(
                "PROJSEG_BAD_TYPE_NAME", f"'{self.text}' is not a type name projseg knows"
            )

    def accept(self, token: str) -> bool:
        found = self.text.startswith(token, self.position)
        self.position += len(token) if found else 0
        return found

    def parse(self) -> pa.DataType:
        self.require(self.depth <= NESTING_DEPTH_MAX)
        self.depth += 1
        parsed = self._parse_level()
        self.depth -= 1
        return parsed

    def _parse_level(self) -> pa.DataType:
        if self.accept("array<"):
            item = self.parse()
            self.require(self.accept(">"))
            return pa.list_(item)
        if self.accept("map<"):
            key = self.parse()
            self.require(self.accept(","))
            item = self.parse()
            self.require(self.accept(">"))
            return pa.map_(key, item)
        if self.accept("struct<"):
            return self._struct()
        if decimal := _DECIMAL.match(self.text, self.position):
            self.position = decimal.end()
            precision, scale = int(decimal[1]), int(decimal[2])
            self.require(1 <= precision <= DECIMAL_DIGITS_MAX and scale <= precision)
            return pa.decimal128(precision, scale)
        word = re.compile(r"[a-z_]+").match(self.text, self.position)
        self.require(word is not None and word[0] in _ARROW_BY_NAME)
        assert word is not None
        self.position = word.end()
        return _ARROW_BY_NAME[word[0]]

    def _struct(self) -> pa.DataType:
        fields: list[pa.Field] = []
        while not self.accept(">"):
            self.require(not fields or self.accept(","))
            quoted = re.compile(r"`((?:[^`]|``)*)`:|([A-Za-z_0-9]+):").match(
                self.text, self.position
            )
            self.require(quoted is not None)
            assert quoted is not None
            self.position = quoted.end()
            name = quoted[2] if quoted[1] is None else quoted[1].replace("``", "`")
            fields.append(pa.field(name, self.parse()))
        return pa.struct(fields)


def _quoted(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_0-9]+", name)
    return name if plain else "`" + name.replace("`", "``") + "`"


def normal_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the one Arrow type projseg uses for values of `arrow_type`.

    Foreign widths, units and encodings are mapped to the type that holds every value (uint8 to
    smallint, large_string to string, dictionary and runs to their value type); timestamps become
    microseconds, with a time zone UTC or without one.
    """
    t = pa.types
    if t.is_dictionary(arrow_type) or t.is_run_end_encoded(arrow_type):
        return normal_type(arrow_type.value_type)
    if t.is_decimal(arrow_type):
        return _normal_decimal(arrow_type)
    if t.is_nested(arrow_type):
        try:
            return _normal_nested(arrow_type)
        except RecursionError as error:
            raise UnsupportedFeatureError(
                "PROJSEG_UNSUPPORTED_TYPE",
                f"a type has more than {NESTING_DEPTH_MAX} arrays, structs and maps inside each "
                "other",
            ) from error
    if t.is_timestamp(arrow_type):
        return TIMESTAMP_NTZ if arrow_type.tz is None else TIMESTAMP
    if t.is_fixed_size_binary(arrow_type):
        return pa.binary()
    widened = _WIDENED.get(arrow_type, arrow_type)
    if isinstance(arrow_type, pa.BaseExtensionType):
        widened = _EXTENSIONS.get(arrow_type.extension_name, arrow_type)
    type_name(widened)
    return widened


def normal_type_of(field: pa.Field) -> pa.DataType:
    """Return the type that projseg uses for a column's values; an error names the column."""
    try:
        return normal_type(field.type)
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(
            error.code, f"column '{field.name}': {error.message}; leave it out, or cast it"
        ) from error


_WIDENED: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}
_EXTENSIONS: Final = {
    "arrow.bool8": pa.bool_(),
    "arrow.json": pa.string(),
    "arrow.uuid": pa.binary(),
}


def _normal_decimal(arrow_type: pa.DataType) -> pa.DataType:
    """Return decimals of any width and scale as Spark has them: no scale passes the digits."""
    scale = max(arrow_type.scale, 0)
    digits = max(arrow_type.precision + scale - arrow_type.scale, scale)
    if digits > DECIMAL_DIGITS_MAX:
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_TYPE",
            f"type {arrow_type} has values of {digits} digits, and Spark's decimals have at most "
            f"{DECIMAL_DIGITS_MAX}; cast it to such a type",
        )
    return pa.decimal128(digits, scale)


def _normal_nested(arrow_type: pa.DataType) -> pa.DataType:
    t = pa.types
    if t.is_map(arrow_type):
        return pa.map_(normal_type(arrow_type.key_type), normal_type(arrow_type.item_type))
    if t.is_struct(arrow_type):
        return pa.struct([pa.field(f.name, normal_type(f.type)) for f in arrow_type])
    if t.is_union(arrow_type):
        type_name(arrow_type)
    return pa.list_(normal_type(arrow_type.value_type))


def is_nested(arrow_type: pa.DataType) -> bool:
    """Whether values are arrays, structs or maps."""
    return bool(pa.types.is_nested(arrow_type))


def is_text(arrow_type: pa.DataType) -> bool:
    """Whether values are strings or binary."""
    return bool(pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type))


def is_fixed_width(arrow_type: pa.DataType) -> bool:
    """Whether values have a `Numbers` form."""
    return not is_nested(arrow_type) and not is_text(arrow_type) and arrow_type != pa.null()


def number_limits(arrow_type: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest integer that a type which is no float holds."""
    if pa.types.is_boolean(arrow_type):
        return 0, 1
    if pa.types.is_decimal(arrow_type):
        edge = 10**arrow_type.precision - 1
        return -edge, edge
    edge = 1 << (arrow_type.bit_width - 1)
    return -edge, edge - 1


def arrow_to_numbers(array: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return the fixed-width form of an Arrow array: (values[n], validity[n] or None).

    Values are int64, float32, float64, or object where a decimal passes 64 bits; nulls hold 0.
    See `vectors.Numbers` for the meaning by type.
    """
    validity = None
    if array.null_count:
        validity = valid_values(array)
    arrow_type = array.type
    if pa.types.is_decimal(arrow_type):
        values = decimal_integers(array)
        return (to_objects(values) if values.dtype == WIDE else values), validity
    if pa.types.is_floating(arrow_type):
        physical, zero = arrow_type, 0.0
    else:
        physical, zero = pa.int64(), 0
    if pa.types.is_date32(arrow_type):
        array = array.cast(pa.int32())
    filled = array.cast(physical) if array.type != physical else array
    if validity is not None:
        filled = filled.fill_null(scalar_of(zero, physical))
    # Arrow's own memory is read-only, for which every kernel would be compiled a second time.
    return primitive_values(filled).copy(), validity


def decimal_integers(array: pa.Array) -> NDArray[Any]:
    """Return the unscaled values of decimals, int64[n], or WIDE[n] where one passes 64 bits.

    Nulls hold 0.
    """
    pairs = np.frombuffer(array.buffers()[1], dtype="<i8").reshape(-1, 2)
    pairs = pairs[array.offset : array.offset + len(array)]
    low, high = pairs[:, 0], pairs[:, 1]
    if array.null_count:
        valid = valid_values(array)
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    if np.array_equal(high, low >> 63):
        return low.copy()
    wide = np.empty(len(array), WIDE)
    wide["low"], wide["high"] = low, high
    return wide


def numbers_to_arrow(
    values: NDArray[Any],
    arrow_type: pa.DataType,
    validity: NDArray[np.bool_] | None = None,
    base: int = 0,
) -> pa.Array:
    """Return an Arrow array of `arrow_type` from its fixed-width form (see `arrow_to_numbers`).

    Values of any width are shared with the result where they are as wide as the type; `base`, 0 for
    floats and objects, is added. Raises ValueError or pa.ArrowInvalid if a value does not fit.
    """
    if pa.types.is_floating(arrow_type):
        exact = values.astype(numpy_dtype(arrow_type), copy=False)
        return primitive_array(exact, validity)
    if pa.types.is_decimal(arrow_type):
        return _numbers_to_decimal(_widened(values, base), arrow_type, validity)
    if pa.types.is_boolean(arrow_type):
        return primitive_array(values != -base, validity)
    physical = np.dtype(f"i{arrow_type.bit_width // 8}")
    if _surely_fit(values, base, physical):
        exact = np.ascontiguousarray(values)
        if base or values.dtype != physical:
            exact = empty(len(values), physical)
            np.copyto(exact, values, casting="unsafe")
            exact += physical.type(base)
        bitmap, null_count = validity_bitmap(validity)
        buffers = [bitmap, pa.py_buffer(exact)]
        return pa.Array.from_buffers(arrow_type, len(values), buffers, null_count)
    plain = primitive_array(_widened(values, base).astype(np.int64, copy=False), validity)
    if pa.types.is_date32(arrow_type):
        plain = plain.cast(pa.int32())
    return plain.cast(arrow_type)


def _widened(values: NDArray[Any], base: int) -> NDArray[Any]:
    is_wide = values.dtype in (object, WIDE)
    wide = values if is_wide else values.astype(np.int64, copy=False)
    return wide + base if base else wide


def _surely_fit(values: NDArray[Any], base: int, physical: np.dtype[Any]) -> bool:
    """Whether every `base + value` fits `physical`; False also where that takes a closer look."""
    if values.dtype.kind not in "iu" or len(values) == 0:
        return False
    found, target = np.iinfo(values.dtype), np.iinfo(physical)
    low, high = found.min, found.max
    if not (target.min <= low + base and high + base <= target.max):
        low, high = int(values.min()), int(values.max())
    return bool(
        target.min <= base <= target.max and target.min <= low + base and high + base <= target.max
    )


def _numbers_to_decimal(
    values: NDArray[Any], arrow_type: pa.DataType, validity: NDArray[np.bool_] | None
) -> pa.Array:
    largest = 10**arrow_type.precision - 1
    low_value, high_value = limits(values)
    if high_value > largest or low_value < -largest:
        raise ValueError(f"a value passes {type_name(arrow_type)}")
    bitmap, null_count = validity_bitmap(validity)
    buffers = [bitmap, pa.py_buffer(halves(as_wide(values)))]
    return pa.Array.from_buffers(arrow_type, len(values), buffers, null_count)
