"""Texts made of other values: joined, padded, repeated, in hexadecimal, letter by letter."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import reduce
from string import hexdigits
from typing import Any, AnyStr, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.coercion import bad_expression, cast_to, is_numeric
from projseg.algebra.expressions.functions.datum import (
    Datum,
    as_array,
    by_row,
    cast_arguments,
    check_text_bytes,
    integers,
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
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.errors import LimitExceededError
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
        rows = zip(*(one.to_pylist() for one in texts), strict=True)
        joined = [
            None if between is None else between.join(_present(row))
            for between, row in zip(separators.to_pylist(), rows, strict=True)
        ]
        return pa.array(joined, _TEXT)
    if not texts:
        return pc.if_else(pc.is_valid(separators), "", separators)
    # Arrow 26 makes no row of nulls alone, so the first of them is made the empty text.
    is_some = reduce(pc.or_, (pc.is_valid(one) for one in texts))
    texts[0] = pc.if_else(is_some, texts[0], pc.coalesce(texts[0], ""))
    return pc.binary_join_element_wise(*texts, separators, null_handling="skip")


def _present(row: Sequence[Any]) -> list[str]:
    """Return the texts of a row that are not null, those in arrays among them."""
    parts = [one if isinstance(one, list) else [one] for one in row]
    return [text for part in parts for text in part if text is not None]


def _with_capitals(text: str) -> str:
    """Return a text with the first letter of each word large; spaces alone end words."""
    return " ".join(map(_capitalised, text.split(" ")))


def _capitalised(word: str) -> str:
    """Return a word in small letters, whose forms depend on the letters beside them, but one."""
    return word[:1].title() + word.lower()[len(word[:1].lower()) :]


def _translated(text: str, letters: str, instead: str) -> str:
    table: dict[int, str] = {}
    for place, letter in enumerate(letters):
        table.setdefault(ord(letter), instead[place : place + 1])
    return text.translate(table)


def _build_hex(arguments: tuple[Expression, ...], zone: str) -> Expression:
    value = arguments[0]
    wanted = pa.int64() if is_numeric(value.type) else _TEXT
    binary = value.type == pa.binary()
    return Call(_TEXT, "hex", (value if binary else cast_to(value, wanted, zone),))


def _hex(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    value = arguments[0]
    if value.type != pa.int64():
        return by_row(_hex_of_bytes, arguments, row_count, call.type)
    values, back = np.unique(integers(value, row_count), return_inverse=True)
    texts = pa.array([f"{one & 0xFFFF_FFFF_FFFF_FFFF:X}" for one in values.tolist()], _TEXT)
    return pc.if_else(as_array(value, row_count).is_valid(), texts.take(pa.array(back)), None)


def _hex_of_bytes(value: str | bytes) -> str:
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def _first_code(text: str) -> int:
    return ord(text[0]) if text else 0


def _in_base64(value: bytes) -> str:
    """Return lines of 76 characters, as MIME and Spark have them."""
    text = base64.b64encode(value).decode()
    return "\r\n".join(text[at : at + 76] for at in range(0, len(text), 76))


def _from_hex(text: str) -> bytes | None:
    """Return the bytes of hexadecimal digits, of which the first may be one alone."""
    if not all(letter in hexdigits for letter in text):
        return None
    return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")


def _by_row(compute: Callable[..., Any]) -> Evaluator:
    return lambda call, arguments, row_count: by_row(compute, arguments, row_count, call.type)


def _of_texts(
    name: str,
    compute: Callable[..., Any],
    count: int = 1,
    *,
    wanted: pa.DataType = _TEXT,
    result: pa.DataType = _TEXT,
    null_only_from_null: Callable[[Call], bool] = always,
) -> ScalarFunction:
    """Return the record of a function of so many texts, or of binaries."""

    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        return Call(result, name, cast_arguments(arguments, [wanted] * count, zone))

    return ScalarFunction(
        spellings=(Spelling(name, build, count, count),),
        evaluate=_by_row(compute),
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


def _pad(function: str) -> Spelling:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        text, length, *rest = arguments
        is_bytes = all(part.type == _BYTES for part in (text, *rest))
        wanted = _BYTES if is_bytes else _TEXT
        pad = rest[0] if rest else Literal(wanted, b"\0" if is_bytes else " ")
        parts = cast_to(text, wanted, zone), cast_to(length, _INT, zone), cast_to(pad, wanted, zone)
        return Call(wanted, function, parts)

    return Spelling(function, build, 2, 3)


def _build_repeat(arguments: tuple[Expression, ...], zone: str) -> Expression:
    text, count = cast_to(arguments[0], _TEXT, zone), cast_to(arguments[1], _INT, zone)
    return Call(_TEXT, "repeat", (text, count))


def _build_octet_length(arguments: tuple[Expression, ...], zone: str) -> Expression:
    argument = arguments[0]
    if argument.type != pa.binary():
        argument = cast_to(argument, _TEXT, zone)
    return Call(_INT, "octet_length", (argument,))


def _limited(length: int) -> int:
    if length > _CHARACTERS_MAX:
        raise LimitExceededError(
            "PROJSEG_TEXT_TOO_LONG",
            f"a text of {length} characters passes the limit of {_CHARACTERS_MAX} for padding",
        )
    return max(length, 0)


def _padding(text: AnyStr, length: int, pad: AnyStr) -> AnyStr:
    missing = max(_limited(length) - len(text), 0)
    return (pad * (missing // len(pad) + 1))[:missing] if pad else pad


def _left_padded(text: AnyStr, length: int, pad: AnyStr) -> AnyStr:
    return (_padding(text, length, pad) + text)[: _limited(length)]


def _right_padded(text: AnyStr, length: int, pad: AnyStr) -> AnyStr:
    return (text + _padding(text, length, pad))[: _limited(length)]


def _repeated(text: str, count: int) -> str:
    _limited(len(text) * count)
    return text * max(count, 0)


def _octet_length(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    return pc.binary_length(arguments[0])


def _lengthening(compute: Callable[..., Any], spelling: Spelling) -> ScalarFunction:
    """Return the record of a function that raises where its text is too long."""
    return ScalarFunction(
        spellings=(spelling,),
        evaluate=_by_row(compute),
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
    "initcap": _of_texts("initcap", _with_capitals),
    "ascii": _of_texts("ascii", _first_code, result=_INT),
    "base64": _of_texts("base64", _in_base64, wanted=_BYTES),
    "unhex": _of_texts("unhex", _from_hex, result=_BYTES, null_only_from_null=never),
    "translate": _of_texts("translate", _translated, 3),
    "hex": ScalarFunction(
        spellings=(Spelling("hex", _build_hex, 1, 1),),
        evaluate=_hex,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
    ),
    "lpad": _lengthening(_left_padded, _pad("lpad")),
    "rpad": _lengthening(_right_padded, _pad("rpad")),
    "repeat": _lengthening(_repeated, Spelling("repeat", _build_repeat, 2, 2)),
    "octet_length": ScalarFunction(
        spellings=(Spelling("octet_length", _build_octet_length, 1, 1),),
        evaluate=_octet_length,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
    ),
}
