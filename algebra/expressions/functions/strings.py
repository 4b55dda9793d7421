"""Strings: their bytes are UTF-8, their lengths and positions count characters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.catalyst_call import (
    ANY,
    TEXT,
    CatalystCall,
    spark_call,
    spark_call_of_all,
)
from projseg.algebra.expressions.coercion import cast_to
from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    as_array,
    cast_arguments,
    check_text_bytes,
    constant_of,
)
from projseg.algebra.expressions.functions.row_texts import (
    parts_of,
    texts_of,
    truths,
    written_texts,
)
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    NoBlocks,
    Nulls,
    Order,
    Orders,
    ScalarFunction,
    Spelling,
    Writer,
    always,
    never,
    unordered,
    written_as_call,
)
from projseg.algebra.expressions.functions.text_cases import Case, cased
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.memory.forks import late_import
from projseg.segment_format.arrow_arrays import scalar_of

_TEXT: Final = pa.string()
_INT: Final = pa.int32()


def _spelling(
    function: str, types: Sequence[pa.DataType], result: pa.DataType = _TEXT, **names: Any
) -> Spelling:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        return Call(result, function, cast_arguments(arguments, types, zone))

    return Spelling(function, build, len(types), len(types), **names)


def _build_concat(arguments: tuple[Expression, ...], zone: str) -> Expression:
    is_binary = all(a.type == pa.binary() for a in arguments)
    wanted = pa.binary() if is_binary else _TEXT
    parts = tuple(cast_to(argument, wanted, zone) for argument in arguments)
    return parts[0] if len(parts) == 1 else Call(wanted, "concat", parts)


def _build_length(arguments: tuple[Expression, ...], zone: str) -> Expression:
    argument = arguments[0]
    if argument.type != pa.binary():
        argument = cast_to(argument, _TEXT, zone)
    return Call(_INT, "length", (argument,))


def _build_reverse(arguments: tuple[Expression, ...], zone: str) -> Expression:
    argument = arguments[0]
    if argument.type != pa.binary():
        argument = cast_to(argument, _TEXT, zone)
    return Call(argument.type, "reverse", (argument,))


def _build_trim(function: str) -> Callable[[tuple[Expression, ...], str], Expression]:
    """Build `trim([characters,] text)`; in the node the text comes first."""

    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        texts = [cast_to(argument, _TEXT, zone) for argument in arguments]
        characters = texts[0] if len(texts) > 1 else Literal(_TEXT, " ")
        return Call(_TEXT, function, (texts[-1], characters))

    return build


def _build_replace(arguments: tuple[Expression, ...], zone: str) -> Expression:
    texts = [cast_to(argument, _TEXT, zone) for argument in arguments]
    return Call(_TEXT, "replace", (*texts, Literal(_TEXT, ""))[:3])


def _case(quick: Callable[[Any], Any], case: Case) -> Evaluator:
    """Return an evaluator of lower or upper; Arrow's own maps a character to just one other."""

    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        text = as_array(arguments[0], row_count)
        if pc.all(pc.string_is_ascii(text)).as_py() is not False:
            return quick(text)
        return cased(text, case, case)

    return evaluate


def _reverse(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    kernel = pc.utf8_reverse if call.type == _TEXT else pc.binary_reverse
    return kernel(arguments[0])


def _concat(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    separator = scalar_of("" if call.type == _TEXT else b"", call.type)
    check_text_bytes(sum(_byte_count(a, row_count) for a in arguments), arguments, row_count)
    return pc.binary_join_element_wise(*arguments, separator, null_handling="emit_null")


def _byte_count(text: Datum, row_count: int) -> int:
    if isinstance(text, pa.Scalar):
        return row_count * len(text.as_buffer() or b"")
    return int(text.nbytes)


def _length(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    kernel = pc.utf8_length if arguments[0].type == _TEXT else pc.binary_length
    return kernel(arguments[0])


def _holding(quick: Callable[[Any, Any], Any], place: int) -> Evaluator:
    """Return an evaluator that uses Arrow's kernel where the second argument is a constant."""

    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        text, part = arguments
        if isinstance(part, pa.Scalar) and part.is_valid and isinstance(text, pa.Array):
            return quick(text, part.as_py())
        with late_import:
            from projseg.kernels.texts.text_parts import holding_rows
        found = holding_rows(texts_of(text), texts_of(part), place)
        return truths(found, all_valid(arguments, row_count))

    return evaluate


def _trim(quick: Callable[..., Any], sides: int) -> Evaluator:
    """Return an evaluator that uses Arrow's kernel where the second argument is a constant."""

    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        text, letters = arguments
        if isinstance(letters, pa.Scalar) and letters.is_valid and isinstance(text, pa.Array):
            return quick(text, characters=letters.as_py())
        with late_import:
            from projseg.kernels.texts.text_parts import trimmed_rows
        spans = trimmed_rows(texts_of(text), texts_of(letters), sides)
        return parts_of(arguments, spans, row_count)

    return evaluate


def _replace(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    text, *others = arguments
    search, replacement = map(constant_of, others)
    if search is None or replacement is None or isinstance(text, pa.Scalar):
        return _replace_by_row(arguments, row_count)
    if search == "":
        return text
    if len(replacement) > len(search):
        found = pc.sum(pc.count_substring(text, search)).as_py() or 0
        grown = found * (len(replacement.encode()) - len(search.encode()))
        check_text_bytes(text.nbytes + grown, arguments, row_count)
    return pc.replace_substring(text, pattern=search, replacement=replacement)


def _replace_by_row(arguments: Sequence[Datum], row_count: int) -> pa.Array:
    with late_import:
        from projseg.kernels.texts.text_changes import replaced_rows
    text, search, instead = map(texts_of, arguments)
    return written_texts(
        lambda valid, most: replaced_rows(text, search, instead, valid, most),
        arguments,
        row_count,
        _TEXT,
    )


def _record(
    evaluate: Evaluator,
    *spellings: Spelling,
    may_fail: Callable[[Call], bool] = never,
    order: Orders = unordered,
    canonical_folds_null: bool = False,
    text: Callable[[Call, Writer], str] = written_as_call,
) -> ScalarFunction:
    """Return the record of a function of texts that never raises."""
    return ScalarFunction(
        spellings=spellings,
        evaluate=evaluate,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=may_fail,
        order=order,
        canonical_folds_null=canonical_folds_null,
        text=text,
    )


def _concat_order(call: Call) -> tuple[Order, ...]:
    """Rise in the last part only: 'a' < 'ab', but 'a' || 'z' > 'ab' || 'z'."""
    return (*[Order.NONE] * (len(call.arguments) - 1), Order.RISES)


_SIDES: Final = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}


def _trim_text(call: Call, write: Writer) -> str:
    text, characters = call.arguments
    if isinstance(characters, Literal) and characters.value == " ":
        return f"{call.function}({write(text)})"
    return f"trim({_SIDES[call.function]} {write(characters)} FROM {write(text)})"


def _trim_calls(expression: str, side: str) -> tuple[CatalystCall, ...]:
    """Return how Spark trims spaces, and other characters."""
    return (
        CatalystCall(expression, (TEXT,), text=f"trim({side} ' ' FROM {{0}})"),
        CatalystCall(expression, (TEXT, TEXT), text=f"trim({side} {{1}} FROM {{0}})"),
    )


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "lower": _record(
        _case(pc.ascii_lower, "lower"),
        _spelling(
            "lower",
            [_TEXT],
            aliases=("lcase",),
            druid_names=("lower",),
            catalyst=spark_call("Lower", TEXT),
        ),
        canonical_folds_null=True,
    ),
    "upper": _record(
        _case(pc.ascii_upper, "upper"),
        _spelling(
            "upper",
            [_TEXT],
            aliases=("ucase",),
            druid_names=("upper",),
            catalyst=spark_call("Upper", TEXT),
        ),
        canonical_folds_null=True,
    ),
    "concat": _record(
        _concat,
        Spelling(
            "concat",
            _build_concat,
            1,
            1000,
            druid_names=("concat",),
            catalyst=spark_call_of_all("Concat", TEXT),
        ),
        order=_concat_order,
    ),
    "length": _record(
        _length,
        Spelling(
            "length",
            _build_length,
            1,
            1,
            aliases=("len", "char_length", "character_length"),
            druid_names=("strlen",),
            catalyst=spark_call("Length", TEXT),
        ),
    ),
    "trim": _record(
        _trim(pc.utf8_trim, 1 + 2),
        Spelling(
            "trim",
            _build_trim("trim"),
            1,
            2,
            druid_names=("trim",),
            catalyst=_trim_calls("StringTrim", "BOTH"),
        ),
        Spelling("btrim", lambda a, z: _build_trim("trim")(a[::-1], z), 1, 2),
        text=_trim_text,
    ),
    "ltrim": _record(
        _trim(pc.utf8_ltrim, 1),
        Spelling(
            "ltrim", _build_trim("ltrim"), 1, 2, catalyst=_trim_calls("StringTrimLeft", "LEADING")
        ),
        text=_trim_text,
    ),
    "rtrim": _record(
        _trim(pc.utf8_rtrim, 2),
        Spelling(
            "rtrim", _build_trim("rtrim"), 1, 2, catalyst=_trim_calls("StringTrimRight", "TRAILING")
        ),
        text=_trim_text,
    ),
    "reverse": _record(
        _reverse,
        Spelling("reverse", _build_reverse, 1, 1, catalyst=spark_call("Reverse", TEXT)),
        may_fail=always,
    ),
    "replace": _record(
        _replace,
        Spelling(
            "replace",
            _build_replace,
            2,
            3,
            druid_names=("replace",),
            catalyst=spark_call("StringReplace", TEXT, ANY, ANY),
        ),
    ),
    "startswith": _record(
        _holding(pc.starts_with, 0),
        _spelling(
            "startswith", [_TEXT, _TEXT], pa.bool_(), catalyst=spark_call("StartsWith", ANY, ANY)
        ),
    ),
    "endswith": _record(
        _holding(pc.ends_with, 1),
        _spelling(
            "endswith", [_TEXT, _TEXT], pa.bool_(), catalyst=spark_call("EndsWith", ANY, ANY)
        ),
    ),
    "contains": _record(
        _holding(pc.match_substring, 2),
        _spelling(
            "contains", [_TEXT, _TEXT], pa.bool_(), catalyst=spark_call("Contains", ANY, ANY)
        ),
    ),
}
