"""Strings: their bytes are UTF-8, their lengths and positions count characters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.coercion import cast_to
from projseg.algebra.expressions.functions.rule import (
    Datum,
    Evaluator,
    Rule,
    all_valid,
    as_array,
    integers,
)
from projseg.algebra.expressions.functions.text_budget import (
    check_text_bytes,
    text_limit,
    texts_too_large,
)
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.errors import EvaluationError
from projseg.segment_format.arrow_arrays import array_of, scalar_of

_TEXT: Final = pa.string()
_INT: Final = pa.int32()
_OBJECT_ROWS: Final = 1 << 16  # rows whose values are Python objects at a time


def _rule(function: str, types: Sequence[pa.DataType], result: pa.DataType, fewest: int) -> Rule:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        pairs = zip(arguments, types[: len(arguments)], strict=True)
        return Call(result, function, tuple(cast_to(a, t, zone) for a, t in pairs))

    return Rule(build, fewest, len(types))


def _texts(function: str, count: int, result: pa.DataType = _TEXT) -> Rule:
    return _rule(function, [_TEXT] * count, result, count)


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


def _build_trim(function: str) -> Callable[[tuple[Expression, ...], str], Expression]:
    """`trim([characters,] text)`: the node has the text first."""

    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        texts = [cast_to(argument, _TEXT, zone) for argument in arguments]
        characters = texts[0] if len(texts) > 1 else Literal(_TEXT, " ")
        return Call(_TEXT, function, (texts[-1], characters))

    return build


def _build_left(arguments: tuple[Expression, ...], zone: str) -> Expression:
    one = Literal(_INT, 1)
    return SUBSTRING.build((arguments[0], one, arguments[1]), zone)


def _build_replace(arguments: tuple[Expression, ...], zone: str) -> Expression:
    texts = [cast_to(argument, _TEXT, zone) for argument in arguments]
    return Call(_TEXT, "replace", (*texts, Literal(_TEXT, ""))[:3])


def _build_right(arguments: tuple[Expression, ...], zone: str) -> Expression:
    texts = cast_to(arguments[0], _TEXT, zone), cast_to(arguments[1], _INT, zone)
    return Call(_TEXT, "right", texts)


def _right(text: str, length: int) -> str:
    return text[-length:] if length > 0 else ""


def _case(quick: Callable[[Any], Any], full: Callable[[str], str]) -> Evaluator:
    """Return an evaluator of lower or upper; Arrow's own maps one character to one only."""

    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        text = as_array(arguments[0], row_count)
        if pc.all(pc.string_is_ascii(text)).as_py() is not False:
            return quick(text)
        encoded = text.dictionary_encode()
        changed = [full(value) for value in encoded.dictionary.to_pylist()]
        return array_of(changed, _TEXT).take(encoded.indices)

    return evaluate


def _kernel(kernel: Callable[..., Any]) -> Evaluator:
    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        return kernel(*arguments)

    return evaluate


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


def by_row(
    compute: Callable[..., Any],
    arguments: Sequence[Datum],
    row_count: int,
    result: pa.DataType,
    *,
    takes_null: bool = False,
) -> pa.Array:
    """Return `compute(*values)` for each distinct row of arguments.

    For arguments that vary from row to row, which Arrow's kernels do not take. Null where one is
    null, unless `compute` takes None.

    Raises
    ------
    TextsTooLargeError
        If the values are texts that take too much together.
    """
    bytes_left = text_limit(arguments)
    valid = [True] * row_count if takes_null else all_valid(arguments, row_count)
    known: dict[tuple[Any, ...], Any] = {}
    parts: list[pa.Array] = []
    for start in range(0, max(row_count, 1), _OBJECT_ROWS):
        end = min(start + _OBJECT_ROWS, row_count)
        columns = [_objects(argument, start, end) for argument in arguments]
        values: list[Any] = []
        for is_valid, row in zip(valid[start:end], zip(*columns, strict=True), strict=True):
            if not is_valid:
                values.append(None)
                continue
            if row not in known:
                known[row] = compute(*row)
            value = known[row]
            if isinstance(value, str | bytes):
                bytes_left -= len(value)
                if bytes_left < 0 and row_count > 1:
                    raise texts_too_large(row_count)
            values.append(value)
        parts.append(array_of(values, result))
        if len(known) > _OBJECT_ROWS:
            known.clear()
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _objects(datum: Datum, start: int, end: int) -> list[Any]:
    if isinstance(datum, pa.Scalar):
        return [datum.as_py()] * (end - start)
    values: list[Any] = datum.slice(start, end - start).to_pylist()
    return values


def _constant(datum: Datum) -> Any:
    """Return the value of a datum that is the same in all rows, else None."""
    return datum.as_py() if isinstance(datum, pa.Scalar) else None


def _with_pattern(kernel: Callable[[Any, Any], Any], compute: Callable[..., Any]) -> Evaluator:
    """Return an evaluator that uses Arrow's kernel where the second argument is a constant."""

    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        pattern = _constant(arguments[1])
        if pattern is None or isinstance(arguments[0], pa.Scalar):
            return by_row(compute, arguments, row_count, call.type)
        return kernel(arguments[0], pattern)

    return evaluate


def _trim(kernel: Callable[..., Any], compute: Callable[[str, str], str]) -> Evaluator:
    return _with_pattern(lambda text, characters: kernel(text, characters=characters), compute)


def _replace(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    search, replacement = _constant(arguments[1]), _constant(arguments[2])
    if search is None or replacement is None or isinstance(arguments[0], pa.Scalar):
        return by_row(_replaced, arguments, row_count, call.type)
    if search == "":
        return arguments[0]
    if len(replacement) > len(search):
        found = pc.sum(pc.count_substring(arguments[0], search)).as_py() or 0
        grown = found * (len(replacement.encode()) - len(search.encode()))
        check_text_bytes(arguments[0].nbytes + grown, arguments, row_count)
    return pc.replace_substring(arguments[0], pattern=search, replacement=replacement)


def _replaced(text: str, search: str, replacement: str) -> str:
    return text.replace(search, replacement) if search else text


def _substring(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    constants = [_constant(argument) for argument in arguments[1:]]
    is_slice = None not in constants and constants[0] >= 0 and constants[-1] >= 0
    if not is_slice or isinstance(arguments[0], pa.Scalar) or call.type != _TEXT:
        return by_row(substring, arguments, row_count, call.type)
    start = max(constants[0] - 1, 0)
    stop = start + constants[1] if len(constants) > 1 else None
    return pc.utf8_slice_codeunits(arguments[0], start, stop)


def substring(text: Any, position: int, length: int = 2**31 - 1) -> Any:
    """Return what Spark's substring does: 1 and 0 are the first, -1 the last character."""
    start = position - 1 if position > 0 else position + len(text) if position < 0 else 0
    return text[max(start, 0) : max(start + length, 0)]


def _split_part(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    if np.any(all_valid(arguments, row_count) & (integers(arguments[2], row_count) == 0)):
        raise EvaluationError(
            "PROJSEG_EVALUATION_BAD_ARGUMENT", "split_part counts parts from 1 or from -1, not 0"
        )
    return by_row(split_part, arguments, row_count, call.type)


def split_part(text: str, delimiter: str, index: int) -> str:
    """Return the part at a 1-based index, from the end if negative; empty where there is none."""
    parts = text.split(delimiter) if delimiter else [text]
    position = index - 1 if index > 0 else len(parts) + index
    return parts[position] if 0 <= position < len(parts) else ""


def _position(text_part: str | None, text: str | None, start: int | None = 1) -> int | None:
    """Return what Spark's locate does: 0 where no start is known, 1 for the empty text."""
    if start is None or start < 1:
        return 0 if start is None or None not in (text_part, text) else None
    if text_part is None or text is None:
        return None
    return text.find(text_part, start - 1) + 1 if text_part else 1


def _build_position(arguments: tuple[Expression, ...], zone: str) -> Expression:
    types = (_TEXT, _TEXT, _INT)
    pairs = zip(arguments, types[: len(arguments)], strict=True)
    return Call(_INT, "position", tuple(cast_to(a, t, zone) for a, t in pairs))


def _build_instr(arguments: tuple[Expression, ...], zone: str) -> Expression:
    return _build_position((arguments[1], arguments[0]), zone)


def _evaluate_position(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    return by_row(_position, arguments, row_count, call.type, takes_null=True)


def _build_substring(arguments: tuple[Expression, ...], zone: str) -> Expression:
    text = arguments[0]
    if text.type != pa.binary():
        text = cast_to(text, _TEXT, zone)
    numbers = tuple(cast_to(argument, _INT, zone) for argument in arguments[1:])
    return Call(text.type, "substring", (text, *numbers))


SUBSTRING: Final = Rule(_build_substring, 2, 3)

RULES: Final[dict[str, Rule]] = {
    "lower": _texts("lower", 1),
    "lcase": _texts("lower", 1),
    "upper": _texts("upper", 1),
    "ucase": _texts("upper", 1),
    "concat": Rule(_build_concat, 1, 1000),
    "length": Rule(_build_length, 1, 1),
    "len": Rule(_build_length, 1, 1),
    "char_length": Rule(_build_length, 1, 1),
    "character_length": Rule(_build_length, 1, 1),
    "trim": Rule(_build_trim("trim"), 1, 2),
    "btrim": Rule(lambda a, z: _build_trim("trim")(a[::-1], z), 1, 2),
    "ltrim": Rule(_build_trim("ltrim"), 1, 2),
    "rtrim": Rule(_build_trim("rtrim"), 1, 2),
    "reverse": _texts("reverse", 1),
    "replace": Rule(_build_replace, 2, 3),
    "startswith": _texts("startswith", 2, pa.bool_()),
    "endswith": _texts("endswith", 2, pa.bool_()),
    "contains": _texts("contains", 2, pa.bool_()),
    "substring": SUBSTRING,
    "substr": SUBSTRING,
    "left": Rule(_build_left, 2, 2),
    "right": Rule(_build_right, 2, 2),
    "split_part": _rule("split_part", [_TEXT, _TEXT, _INT], _TEXT, 3),
    "position": Rule(_build_position, 2, 3),
    "locate": Rule(_build_position, 2, 3),
    "instr": Rule(_build_instr, 2, 2),
}
EVALUATORS: Final[dict[str, Evaluator]] = {
    "lower": _case(pc.ascii_lower, str.lower),
    "upper": _case(pc.ascii_upper, str.upper),
    "right": lambda call, data, count: by_row(_right, data, count, call.type),
    "reverse": _kernel(pc.utf8_reverse),
    "concat": _concat,
    "length": _length,
    "trim": _trim(pc.utf8_trim, str.strip),
    "ltrim": _trim(pc.utf8_ltrim, str.lstrip),
    "rtrim": _trim(pc.utf8_rtrim, str.rstrip),
    "replace": _replace,
    "startswith": _with_pattern(pc.starts_with, str.startswith),
    "endswith": _with_pattern(pc.ends_with, str.endswith),
    "contains": _with_pattern(pc.match_substring, lambda text, part: part in text),
    "substring": _substring,
    "split_part": _split_part,
    "position": _evaluate_position,
}
