"""Texts made of other values: joined, padded, repeated, letter by letter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.catalyst_call import ANY, TEXT, failing_call, spark_call
from projseg.algebra.expressions.coercion import bad_expression, cast_to
from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    as_array,
    cast_arguments,
    check_text_bytes,
    from_integers,
    valid_mask,
)
from projseg.algebra.expressions.functions.row_texts import numbers_of, texts_of, written_texts
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
from projseg.algebra.expressions.functions.text_cases import cased
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.errors import LimitExceededError
from projseg.memory.forks import late_import
from projseg.segment_format.arrow_arrays import (
    filled_values,
    primitive_array,
    scalar_of,
    text_array,
)
from projseg.segment_format.logical_types import type_name

_TEXT: Final = pa.string()
_TEXTS: Final = pa.list_(_TEXT)


def _build_concat_ws(arguments: tuple[Expression, ...], zone: str) -> Expression:
    separator, *parts = arguments
    for part in parts:
        if pa.types.is_list(part.type) and part.type != _TEXTS:
            raise bad_expression(
                f"concat_ws takes values and arrays of strings, not {type_name(part.type)}"
            )
    texts = [
        part if part.type == _TEXTS else cast_to(part, _TEXT, zone)
        for part in parts
        if not (isinstance(part, Literal) and part.value is None)
    ]
    return Call(_TEXT, "concat_ws", (cast_to(separator, _TEXT, zone), *texts))


def _concat_ws(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    separator, *parts = arguments
    separators = as_array(separator, row_count)
    check_text_bytes(
        sum(as_array(one, row_count).nbytes for one in arguments) + separators.nbytes * len(parts),
        arguments,
        row_count,
    )
    texts = [as_array(part, row_count) for part in parts]
    if any(one.type == _TEXTS for one in texts):
        return pc.binary_join(_items(texts, row_count), separators)
    if not texts:
        return pc.if_else(pc.is_valid(separators), "", separators)
    # Arrow 26 makes no row of nulls alone, so the first of them is made the empty text.
    is_some = reduce(pc.or_, (pc.is_valid(one) for one in texts))
    texts[0] = pc.if_else(is_some, texts[0], pc.coalesce(texts[0], ""))
    return pc.binary_join_element_wise(*texts, separators, null_handling="skip")


def _items(columns: Sequence[pa.Array], row_count: int) -> pa.Array:
    """Return an array for each row: its texts that are not null, those in arrays among them."""
    rows, items = [], []
    for column in columns:
        row = np.arange(row_count)
        if column.type == _TEXTS:
            row = np.repeat(row, filled_values(pc.list_value_length(column), 0))
            column = column.flatten()  # without items of null
        is_there = valid_mask(column, len(column))
        rows.append(row[is_there])
        items.append(column.drop_null())
    every = np.concatenate(rows)
    order = np.argsort(every, kind="stable")
    offsets = np.zeros(row_count + 1, np.int32)
    np.cumsum(np.bincount(every, minlength=row_count), out=offsets[1:])
    in_order = pa.concat_arrays(items).take(primitive_array(order))
    return pa.ListArray.from_arrays(primitive_array(offsets), in_order)


def _initcap(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    return cased(as_array(arguments[0], row_count), "title", "lower")


def _translate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    with late_import:
        from projseg.kernels.texts.text_changes import translated_rows
    text, letters, instead = map(texts_of, arguments)
    return written_texts(
        lambda valid, most: translated_rows(text, letters, instead, valid, most),
        arguments,
        row_count,
        call.type,
    )


def _ascii(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    with late_import:
        from projseg.kernels.texts.text_parts import first_codes
    text = as_array(arguments[0], row_count)
    return from_integers(first_codes(texts_of(text)), valid_mask(text, row_count), call.type)


def _base64(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    with late_import:
        from projseg.kernels.texts.text_changes import base64_rows
    content = texts_of(as_array(arguments[0], row_count))
    return written_texts(
        lambda valid, most: base64_rows(content, valid, most), arguments, row_count, call.type
    )


def _unhex(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    with late_import:
        from projseg.kernels.texts.text_changes import unhexed_rows
    text = as_array(arguments[0], row_count)
    offsets, content, is_hex = unhexed_rows(texts_of(text), valid_mask(text, row_count))
    return text_array(offsets, content, call.type, None if is_hex.all() else is_hex)


def _of_texts(
    name: str,
    evaluate: Evaluator,
    count: int = 1,
    *,
    wanted: pa.DataType = _TEXT,
    result: pa.DataType = _TEXT,
    null_only_from_null: Callable[[Call], bool] = always,
) -> ScalarFunction:
    """Return the record of a function of `count` texts, or of binaries."""

    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        return Call(result, name, cast_arguments(arguments, [wanted] * count, zone))

    return ScalarFunction(
        spellings=(Spelling(name, build, count, count),),
        evaluate=evaluate,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=null_only_from_null,
        may_fail=never,
        order=unordered,
    )


_BYTES: Final = pa.binary()
_INT: Final = pa.int32()
_CHARACTERS_MAX: Final = 1 << 20
"""A padded or repeated text may not be longer, so that one row cannot take all memory."""


def _pad(function: str, expression: str) -> Spelling:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        text, length, *rest = arguments
        is_bytes = all(part.type == _BYTES for part in (text, *rest))
        wanted = _BYTES if is_bytes else _TEXT
        pad = rest[0] if rest else Literal(wanted, b"\0" if is_bytes else " ")
        parts = cast_to(text, wanted, zone), cast_to(length, _INT, zone), cast_to(pad, wanted, zone)
        return Call(wanted, function, parts)

    return Spelling(function, build, 2, 3, catalyst=failing_call(expression, TEXT, ANY, ANY))


def _build_repeat(arguments: tuple[Expression, ...], zone: str) -> Expression:
    text, count = cast_to(arguments[0], _TEXT, zone), cast_to(arguments[1], _INT, zone)
    return Call(_TEXT, "repeat", (text, count))


def _build_octet_length(arguments: tuple[Expression, ...], zone: str) -> Expression:
    argument = arguments[0]
    if argument.type != pa.binary():
        argument = cast_to(argument, _TEXT, zone)
    return Call(_INT, "octet_length", (argument,))


def _padded(
    call: Call, arguments: Sequence[Datum], row_count: int, lengths: NDArray[np.int64]
) -> pa.Array:
    """Return the first argument in these lengths, by the last one beside it.

    Raises LimitExceededError if a row's text would be too long.
    """
    with late_import:
        from projseg.kernels.texts.text_changes import padded_rows
        from projseg.kernels.texts.text_parts import BYTES, CHARACTERS
    are_valid = all_valid(arguments, row_count)
    too_long = are_valid & (lengths > _CHARACTERS_MAX)
    if too_long.any():
        length = np.broadcast_to(lengths, row_count)[too_long.argmax()]
        raise LimitExceededError(
            "PROJSEG_TEXT_TOO_LONG",
            f"a text of {length} characters passes the limit of {_CHARACTERS_MAX} for padding",
        )
    text, pad = texts_of(arguments[0]), texts_of(arguments[-1])
    # What is padded has a byte for each character, or more: nothing is written that is too large.
    at_least = np.where(are_valid & (np.diff(pad[0]) > 0), lengths, 0)
    check_text_bytes(int(at_least[at_least > 0].sum()), arguments, row_count)
    unit = CHARACTERS if call.type == _TEXT else BYTES
    is_left = call.function == "lpad"
    return written_texts(
        lambda valid, most: padded_rows(
            text, lengths, pad, valid, unit=unit, is_left=is_left, most=most
        ),
        arguments,
        row_count,
        call.type,
    )


def _evaluate_pad(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    return _padded(call, arguments, row_count, numbers_of(arguments[1]))


def _repeat(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return a repeated text: the empty text, padded with the text."""
    text, count = arguments
    lengths = numbers_of(pc.utf8_length(as_array(text, 1))) * numbers_of(count)
    return _padded(call, (scalar_of("", _TEXT), count, text), row_count, lengths)


def _octet_length(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    return pc.binary_length(arguments[0])


def _lengthening(evaluate: Evaluator, spelling: Spelling) -> ScalarFunction:
    """Return the record of a function that raises where its text is too long."""
    return ScalarFunction(
        spellings=(spelling,),
        evaluate=evaluate,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=unordered,
    )


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "concat_ws": ScalarFunction(
        spellings=(Spelling("concat_ws", _build_concat_ws, 1, 1000),),
        evaluate=_concat_ws,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.OWN,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
    ),
    "initcap": _of_texts("initcap", _initcap),
    "ascii": _of_texts("ascii", _ascii, result=_INT),
    "base64": _of_texts("base64", _base64, wanted=_BYTES),
    "unhex": _of_texts("unhex", _unhex, result=_BYTES, null_only_from_null=never),
    "translate": _of_texts("translate", _translate, 3),
    "lpad": _lengthening(_evaluate_pad, _pad("lpad", "StringLPad")),
    "rpad": _lengthening(_evaluate_pad, _pad("rpad", "StringRPad")),
    "repeat": _lengthening(
        _repeat,
        Spelling("repeat", _build_repeat, 2, 2, catalyst=failing_call("StringRepeat", TEXT, ANY)),
    ),
    "octet_length": ScalarFunction(
        spellings=(
            Spelling(
                "octet_length", _build_octet_length, 1, 1, catalyst=spark_call("OctetLength", TEXT)
            ),
        ),
        evaluate=_octet_length,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
    ),
}
