"""Turn values into the text that Spark writes for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.coercion import is_floating
from projseg.algebra.expressions.functions.datum import from_integers, integers, valid_mask
from projseg.algebra.time.time_zones import zone_table
from projseg.errors import EvaluationError
from projseg.segment_format.layout.logical_types import TIMESTAMP, TIMESTAMP_NTZ
from projseg.segment_format.vectors.arrow_arrays import array_of, scalar_of


def to_text(array: pa.Array, zone: str) -> pa.Array:
    """Return each value's text, as `CAST(x AS STRING)` gives it.

    Raises
    ------
    EvaluationError
        PROJSEG_EVALUATION_BAD_CAST, if a binary value is not UTF-8 text.
    """
    if array.type == TIMESTAMP:
        micros = integers(array, len(array))
        last = int(micros.max()) if len(micros) else 0
        local = zone_table(zone, last).to_local(micros)
        array = from_integers(local, valid_mask(array, len(array)), TIMESTAMP_NTZ)
    if array.type == TIMESTAMP_NTZ:
        return _without_zeros(array.cast(pa.string()))
    if is_floating(array.type):
        return _floats(array)
    if pa.types.is_binary(array.type):
        try:
            return array.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise EvaluationError(
                "PROJSEG_EVALUATION_BAD_CAST", "a binary value is not UTF-8 text"
            ) from error
    if pa.types.is_decimal(array.type):
        return _distinct(array)
    return array.cast(pa.string())


def _without_zeros(text: pa.Array) -> pa.Array:
    """Drop trailing zeros of a fraction of a second, and a point with nothing after it."""
    return pc.replace_substring_regex(text, r"\.?0+$|(\.\d*?)0+$", r"\1")


def _floats(array: pa.Array) -> pa.Array:
    """Use Arrow's shortest digits where Java writes no exponent, else write each distinct value."""
    sizes = pc.abs(array)
    bounds = (scalar_of(bound, array.type) for bound in (1e-3, 1e7))
    low, high = bounds
    is_plain = pc.and_(pc.greater_equal(sizes, low), pc.less(sizes, high))
    plain = pc.fill_null(is_plain, scalar_of(True, pa.bool_()))
    text = pc.replace_substring_regex(array.cast(pa.string()), r"^(-?[0-9]+)$", r"\1.0")
    if pc.all(plain).as_py() is not False:
        return text
    return pc.if_else(plain, text, _distinct(pc.if_else(plain, scalar_of(None, array.type), array)))


def _distinct(array: pa.Array) -> pa.Array:
    encoded = array.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    texts: list[str | None]
    if pa.types.is_decimal(array.type):
        texts = [format(value, "f") for value in values]
    else:
        number = np.float32 if array.type == pa.float32() else np.float64
        texts = [None if v is None else _java_double(number(v)) for v in values]
    return array_of(texts, pa.string()).take(encoded.indices)


def _two_digits(value: np.floating[Any], mantissa: str, exponent: str) -> tuple[str, str]:
    """Return the nearest digits of two that read back, if there are, for the shortest of one."""
    nearest = f"{float(value):.1e}"
    if type(value)(nearest) != value:
        return mantissa, exponent
    nearer, exponent = nearest.split("e")
    return nearer, exponent


def _java_double(value: np.floating[Any]) -> str:
    """Return Java's `Double.toString`: the shortest digits that read back, with E from 1e7 on."""
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if np.signbit(value) else "0.0"
    if 1e-3 <= abs(value) < 1e7:
        return str(np.format_float_positional(value, unique=True, trim="0"))
    text = np.format_float_scientific(value, unique=True, trim="0", exp_digits=1)
    mantissa, exponent = text.split("e")
    if len(mantissa.lstrip("-")) == 3 and mantissa.endswith(".0"):
        mantissa, exponent = _two_digits(value, mantissa, exponent)
    return f"{mantissa}E{int(exponent)}"
