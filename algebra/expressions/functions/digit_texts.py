"""Numbers and bytes in digits of base 2 and 16."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from projseg.algebra.expressions.catalyst_call import ANY, spark_call
from projseg.algebra.expressions.coercion import cast_to, is_numeric
from projseg.algebra.expressions.functions.datum import (
    Datum,
    as_array,
    check_text_bytes,
    integers,
    require_type,
    valid_mask,
)
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    NoBlocks,
    Nulls,
    ScalarFunction,
    Spelling,
    always,
    never,
    unordered,
)
from projseg.algebra.expressions.tree import Call, Expression
from projseg.memory.forks import late_import
from projseg.segment_format.arrow_arrays import text_array
from projseg.segment_format.encodings.text_encoding import text_parts

_TEXT: Final = pa.string()
_HEX_PAIRS: Final = np.frombuffer(bytes(range(256)).hex().upper().encode(), np.uint16)


def _build_bin(arguments: tuple[Expression, ...], zone: str) -> Expression:
    number = arguments[0]
    is_number = is_numeric(number.type) or number.type in (_TEXT, pa.null())
    require_type(is_number, "bin", number, "a number")
    return Call(_TEXT, "bin", (cast_to(number, pa.int64(), zone),))


def _build_hex(arguments: tuple[Expression, ...], zone: str) -> Expression:
    value = arguments[0]
    wanted = pa.int64() if is_numeric(value.type) else _TEXT
    binary = value.type == pa.binary()
    return Call(_TEXT, "hex", (value if binary else cast_to(value, wanted, zone),))


def _bin(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    return _number_digits(arguments[0], row_count, bits=1)


def _hex(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    if arguments[0].type == pa.int64():
        return _number_digits(arguments[0], row_count, bits=4)
    array = as_array(arguments[0], row_count)
    valid = valid_mask(array, row_count)
    offsets, content = text_parts(array)
    check_text_bytes(2 * len(content), [array], row_count)
    pairs = _HEX_PAIRS[content].view(np.uint8)
    return text_array((2 * offsets).astype(np.int32), pairs, _TEXT, None if valid.all() else valid)


def _number_digits(datum: Datum, row_count: int, bits: int) -> pa.Array:
    """Return numbers in digits of `bits` bits each; a negative number has 64 bits."""
    with late_import:
        from projseg.kernels.byte_hashes import digit_counts, number_digits
    valid = valid_mask(datum, row_count)
    values = integers(datum, row_count).view(np.uint64)
    ends = np.cumsum(np.where(valid, digit_counts(values, bits), 0))
    check_text_bytes(int(ends[-1]) if row_count else 0, [datum], row_count)
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    content = number_digits(values, bits, offsets)
    return text_array(offsets, content, _TEXT, None if valid.all() else valid)


def _record(
    evaluate: Evaluator,
    spelling: Spelling,
    null_only_from_null: Callable[[Call], bool] = always,
    in_blocks: NoBlocks = NoBlocks.NO_NUMBERS,
    *,
    canonical_folds_null: bool = False,
) -> ScalarFunction:
    return ScalarFunction(
        spellings=(spelling,),
        evaluate=evaluate,
        in_blocks=in_blocks,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=null_only_from_null,
        may_fail=never,
        order=unordered,
        canonical_folds_null=canonical_folds_null,
    )


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "bin": _record(
        _bin,
        Spelling("bin", _build_bin, 1, 1, catalyst=spark_call("Bin", ANY)),
        in_blocks=NoBlocks.COLUMNS,
        canonical_folds_null=True,
    ),
    "hex": _record(_hex, Spelling("hex", _build_hex, 1, 1)),
}
