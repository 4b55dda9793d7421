"""Padding and repetition of strings, and their size in bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, AnyStr, Final

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.coercion import cast_to
from projseg.algebra.expressions.functions.datum import Datum
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    Nulls,
    ScalarFunction,
    Spelling,
    always,
    never,
    unordered,
)
from projseg.algebra.expressions.functions.text.text_rows import by_row
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.errors import LimitExceededError

_TEXT: Final = pa.string()
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


def _by_row(compute: Callable[..., Any]) -> Evaluator:
    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        return by_row(compute, arguments, row_count, call.type)

    return evaluate


def _octet_length(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    return pc.binary_length(arguments[0])


def _lengthening(compute: Callable[..., Any], spelling: Spelling) -> ScalarFunction:
    """Return the record of a function that raises where its text is too long."""
    return ScalarFunction(
        spellings=(spelling,),
        evaluate=_by_row(compute),
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=unordered,
    )


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "lpad": _lengthening(_left_padded, _pad("lpad")),
    "rpad": _lengthening(_right_padded, _pad("rpad")),
    "repeat": _lengthening(_repeated, Spelling("repeat", _build_repeat, 2, 2)),
    "octet_length": ScalarFunction(
        spellings=(Spelling("octet_length", _build_octet_length, 1, 1),),
        evaluate=_octet_length,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
    ),
}
