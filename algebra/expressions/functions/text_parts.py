"""Parts of strings, and their positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.catalyst_call import ANY, TEXT, spark_call
from projseg.algebra.expressions.coercion import cast_to
from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    cast_arguments,
    constant_of,
    from_integers,
    integers,
    valid_mask,
)
from projseg.algebra.expressions.functions.row_texts import numbers_of, parts_of, texts_of
from projseg.algebra.expressions.functions.scalar_function import (
    NoBlocks,
    Nulls,
    Order,
    ScalarFunction,
    Spelling,
    always,
    never,
    unordered,
)
from projseg.algebra.expressions.tree import (
    BOTTOM,
    TOP,
    Call,
    Cut,
    Expression,
    Literal,
    end_of_prefix,
)
from projseg.errors import EvaluationError
from projseg.memory.forks import late_import
from projseg.segment_format.arrow_arrays import scalar_of

_TEXT: Final = pa.string()
_INT: Final = pa.int32()
_INT_MAX: Final = 2**31 - 1


def _build_left(arguments: tuple[Expression, ...], zone: str) -> Expression:
    return _build_substring((arguments[0], Literal(_INT, 1), arguments[1]), zone)


def _build_right(arguments: tuple[Expression, ...], zone: str) -> Expression:
    texts = cast_to(arguments[0], _TEXT, zone), cast_to(arguments[1], _INT, zone)
    return Call(_TEXT, "right", texts)


def _right(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    with late_import:
        from projseg.kernels.texts.text_parts import CHARACTERS, substring_rows
    text, counts = texts_of(arguments[0]), numbers_of(arguments[1])
    lengths = np.maximum(counts, 0)
    return parts_of(arguments, substring_rows(text, -lengths, lengths, CHARACTERS), row_count)


def _substring(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    constants = [constant_of(argument) for argument in arguments[1:]]
    is_slice = None not in constants and constants[0] >= 0 and constants[-1] >= 0
    if is_slice and isinstance(arguments[0], pa.Array) and call.type == _TEXT:
        start = max(constants[0] - 1, 0)
        stop = start + constants[1] if len(constants) > 1 else None
        return pc.utf8_slice_codeunits(arguments[0], start, stop)
    with late_import:
        from projseg.kernels.texts.text_parts import BYTES, CHARACTERS, substring_rows
    text, *numbers = arguments
    positions, lengths = (*map(numbers_of, numbers), np.array([_INT_MAX]))[:2]
    unit = CHARACTERS if call.type == _TEXT else BYTES
    return parts_of(arguments, substring_rows(texts_of(text), positions, lengths, unit), row_count)


def _split_part(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    if np.any(all_valid(arguments, row_count) & (integers(arguments[2], row_count) == 0)):
        raise EvaluationError(
            "PROJSEG_EVALUATION_BAD_ARGUMENT", "split_part counts parts from 1 or from -1, not 0"
        )
    with late_import:
        from projseg.kernels.texts.text_parts import split_rows
    text, delimiter, index = arguments
    spans = split_rows(texts_of(text), texts_of(delimiter), numbers_of(index))
    return parts_of(arguments, spans, row_count)


def _build_position(arguments: tuple[Expression, ...], zone: str) -> Expression:
    return Call(_INT, "position", cast_arguments(arguments, (_TEXT, _TEXT, _INT), zone))


def _build_instr(arguments: tuple[Expression, ...], zone: str) -> Expression:
    return _build_position((arguments[1], arguments[0]), zone)


def _position(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return Spark's locate: 0 if the start is null, 1 if the empty text is looked for."""
    with late_import:
        from projseg.kernels.texts.text_parts import found_rows
    part, text, *given = arguments
    start = given[0] if given else scalar_of(1, _INT)
    found = found_rows(texts_of(text), texts_of(part), numbers_of(start))
    valid = all_valid((part, text), row_count) | ~valid_mask(start, row_count)
    return from_integers(found, valid, call.type)


def _build_substring(arguments: tuple[Expression, ...], zone: str) -> Expression:
    text = arguments[0]
    if text.type != pa.binary():
        text = cast_to(text, _TEXT, zone)
    numbers = tuple(cast_to(argument, _INT, zone) for argument in arguments[1:])
    return Call(text.type, "substring", (text, *numbers))


def _substring_order(call: Call) -> tuple[Order, ...]:
    """Rise in the text if its first characters are taken, since texts are ordered by these."""
    start = call.arguments[1]
    is_prefix = isinstance(start, Literal) and start.value in (0, 1)
    return (Order.RISES if is_prefix else Order.NONE, *[Order.NONE] * (len(call.arguments) - 1))


def _prefix_inverse(call: Call, cut: Cut) -> tuple[Cut, ...] | None:
    """Return which texts begin with characters that lie after a cut."""
    start, *rest = (a.value if isinstance(a, Literal) else None for a in call.arguments[1:])
    if start not in (0, 1) or call.type != _TEXT or not all(isinstance(n, int) for n in rest):
        return None
    if len(cut) == 1:
        return (BOTTOM, TOP) if cut == BOTTOM else ()
    text, is_after = cut[1], bool(cut[2])
    length = max(int(str(rest[0])), 0) if rest else len(text) + 1
    if len(text) > length:  # a shorter text never equals it
        text, is_after = text[:length], True
    after = (1, text, 1) if len(text) < length else end_of_prefix(text)
    begin = after if is_after else (1, text, 0)
    return () if begin == TOP else (begin, TOP)


def _build_split_part(arguments: tuple[Expression, ...], zone: str) -> Expression:
    return Call(_TEXT, "split_part", cast_arguments(arguments, (_TEXT, _TEXT, _INT), zone))


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "substring": ScalarFunction(
        spellings=(
            Spelling(
                "substring",
                _build_substring,
                2,
                3,
                aliases=("substr",),
                catalyst=spark_call("Substring", TEXT, ANY, ANY),
            ),
            Spelling("left", _build_left, 2, 2),
        ),
        evaluate=_substring,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=never,
        order=_substring_order,
        inverse=_prefix_inverse,
    ),
    # This and position cannot fail, but stored hashes contain conditions in an order that assumed
    # they may.
    "right": ScalarFunction(
        spellings=(Spelling("right", _build_right, 2, 2),),
        evaluate=_right,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=always,
        order=unordered,
    ),
    "position": ScalarFunction(
        spellings=(
            Spelling(
                "position",
                _build_position,
                2,
                3,
                aliases=("locate",),
                catalyst=spark_call("StringLocate", ANY, TEXT, ANY),
            ),
            Spelling("instr", _build_instr, 2, 2, catalyst=spark_call("StringInstr", TEXT, ANY)),
        ),
        evaluate=_position,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.OWN,
        null_only_from_null=always,
        may_fail=always,
        order=unordered,
    ),
    "split_part": ScalarFunction(
        spellings=(Spelling("split_part", _build_split_part, 3, 3),),
        evaluate=_split_part,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=unordered,
    ),
}
