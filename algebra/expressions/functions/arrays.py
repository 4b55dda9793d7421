"""Arrays, made of values or of the parts of a text, with items and sizes; fields of structs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.catalyst_call import ANY, CONSTANT, TEXT, failing_call
from projseg.algebra.expressions.coercion import (
    bad_expression,
    cast_to,
    common_type,
    is_integral,
    is_lossless,
    unify,
)
from projseg.algebra.expressions.functions.comparison import equal
from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    as_array,
    from_integers,
    integers,
    literal_of,
    require_type,
    true_mask,
    valid_mask,
    whole_of,
)
from projseg.algebra.expressions.functions.row_texts import texts_of
from projseg.algebra.expressions.functions.scalar_function import (
    NoBlocks,
    Nulls,
    ScalarFunction,
    Spelling,
    Writer,
    always,
    never,
    unordered,
    written_as_call,
)
from projseg.algebra.expressions.patterns import (
    accepted_pattern,
    check_pattern,
    pattern_may_fail,
    read_splitter,
)
from projseg.algebra.expressions.sql_words import quoted_name
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.errors import EvaluationError
from projseg.memory.forks import late_import
from projseg.segment_format.arrow_arrays import primitive_array, primitive_values, text_array
from projseg.segment_format.logical_types import is_nested, type_name

_TEXT: Final = pa.string()
_INT: Final = pa.int32()
_WITHOUT_LIMIT: Final = -1


def _item_type(function: str, array: Expression) -> pa.DataType:
    require_type(pa.types.is_list(array.type), function, array, "an array")
    return array.type.value_type


def item_at(array: Expression, index: Expression, zone: str) -> Expression:
    """Return the node of `array[index]`, which counts from 0."""
    return _item("item", array, index, zone)


def _item(function: str, array: Expression, index: Expression, zone: str) -> Expression:
    found = _item_type("[ ]" if function == "item" else function, array)
    index_type = _INT if index.type == pa.null() or function == "get" else index.type
    is_whole = is_integral(index.type) or index.type == pa.null()
    require_type(is_whole, "the index of an array", index, "a whole number")
    return Call(found, function, (array, cast_to(index, index_type, zone)))


def _item_spelling(function: str) -> Spelling:
    return Spelling(function, lambda a, z: _item(function, a[0], a[1], z), 2, 2)


def _build_split(arguments: tuple[Expression, ...], zone: str) -> Expression:
    text = cast_to(arguments[0], _TEXT, zone)
    pattern = str(literal_of(arguments, 1, "the pattern of split"))
    limit = whole_of(arguments, 2, "the limit of split") if len(arguments) > 2 else 0
    check_pattern(read_splitter, pattern)
    limit = limit if limit > 0 else _WITHOUT_LIMIT
    parts = text, Literal(_TEXT, pattern), Literal(_INT, limit)
    return Call(pa.list_(_TEXT), "split", parts)


def _build_array(arguments: tuple[Expression, ...], zone: str) -> Expression:
    items = unify(arguments, "array", zone)
    if is_nested(items[0].type) or items[0].type == pa.null():
        raise bad_expression(f"an array of {type_name(items[0].type)} is not supported")
    return Call(pa.list_(items[0].type), "array", items)


def _build_contains(arguments: tuple[Expression, ...], zone: str) -> Expression:
    array, value = arguments
    item_type = _item_type("array_contains", array)
    wanted = None if is_nested(item_type) else common_type(item_type, value.type)
    is_kept = wanted is not None and (wanted == item_type or is_lossless(item_type, wanted))
    is_mixed = _TEXT in (item_type, value.type) and item_type != value.type
    if wanted is None or not is_kept or is_mixed or value.type == pa.null():
        raise bad_expression(
            f"array_contains cannot look for {type_name(value.type)} in {type_name(array.type)}; "
            "cast the value to the type of the items"
        )
    return Call(pa.bool_(), "array_contains", (array, cast_to(value, wanted, zone)))


def _build_size(arguments: tuple[Expression, ...], zone: str) -> Expression:
    _item_type("size", arguments[0])
    return Call(_INT, "size", arguments)


def _split(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    pattern, limit = (a.value for a in call.arguments[1:] if isinstance(a, Literal))
    found = accepted_pattern(read_splitter, str(pattern))
    texts = as_array(arguments[0], row_count)
    if found.one_or_more is None or found.is_plain:
        return found.split(texts, int(str(limit)))
    with late_import:
        from projseg.kernels.texts.text_bytes import gathered
        from projseg.kernels.texts.text_sets import character_set, split_runs
    bounds, is_run = found.one_or_more
    present = texts_of(texts.fill_null("") if texts.null_count else texts)
    places, (starts, sizes) = split_runs(
        present, character_set(bounds), int(str(limit)), is_run=is_run
    )
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    parts = text_array(offsets, gathered(starts, sizes, present[1]), _TEXT, None)
    nulls = texts.is_null() if texts.null_count else None
    return pa.ListArray.from_arrays(primitive_array(places), parts, mask=nulls)


def _array(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    columns = pa.concat_arrays([as_array(argument, row_count) for argument in arguments])
    rows = np.arange(len(columns), dtype=np.int64).reshape(len(arguments), row_count)
    items = columns.take(primitive_array(np.ascontiguousarray(rows.T).ravel()))
    offsets = np.arange(row_count + 1, dtype=np.int32) * np.int32(len(arguments))
    return pa.ListArray.from_arrays(primitive_array(offsets), items)


def _bounds(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where in `array.values` the items of each row begin, int64[n], and their number."""
    offsets = primitive_values(array.offsets).astype(np.int64)
    return offsets[:-1], np.diff(offsets)


def _from_0(index: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    return index


def _from_1_or_end(index: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return positions from 0 of those from 1, or from -1 at the end; 0 itself is none."""
    return np.where(index > 0, index - 1, np.where(index == 0, -1, index + size))


def _item_record(
    place: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]],
    *,
    is_strict: bool,
    text: Callable[[Call, Writer], str] = written_as_call,
    spellings: tuple[Spelling, ...] = (),
) -> ScalarFunction:
    """Return the record of an item by its position; a strict one raises where there is none."""

    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        array = as_array(arguments[0], row_count)
        index, valid = integers(arguments[1], row_count), all_valid(arguments, row_count)
        starts, sizes = _bounds(array)
        if place is _from_1_or_end and np.any(valid & (index == 0)):
            raise _no_item(f"{call.function} counts items from 1 or from -1, not 0")
        positions = place(index, sizes)
        inside = (positions >= 0) & (positions < sizes)
        if is_strict and not np.all(inside | ~valid):
            row = int(np.argmax(valid & ~inside))
            raise _no_item(
                f"an array of {sizes[row]} items has no item {index[row]}; "
                "use get or try_element_at for null instead"
            )
        found = valid & inside
        return array.values.take(primitive_array(np.where(found, starts + positions, 0), found))

    can_fail = is_strict or place is _from_1_or_end
    return ScalarFunction(
        spellings=spellings,
        evaluate=evaluate,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always if can_fail else never,
        order=unordered,
        text=text,
    )


def _no_item(message: str) -> EvaluationError:
    return EvaluationError("PROJSEG_EVALUATION_BAD_ARGUMENT", message)


def _contains(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    array, value = (as_array(argument, row_count) for argument in arguments)
    starts, sizes = _bounds(array)
    valid = all_valid((array, value), row_count)
    rows = np.repeat(np.arange(row_count), sizes)
    first = int(starts[0]) if row_count else 0
    items = array.values.slice(first, len(rows)).cast(value.type)
    same = equal(items, value.take(primitive_array(rows)))
    is_found = np.bincount(rows, true_mask(same, len(rows)), row_count) > 0
    has_null = np.bincount(rows, ~valid_mask(items, len(rows)), row_count) > 0
    return primitive_array(is_found, valid & (is_found | ~has_null))


def _size(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    array = as_array(arguments[0], row_count)
    return from_integers(_bounds(array)[1], valid_mask(array, row_count), call.type)


def _item_text(call: Call, write: Writer) -> str:
    """Return `array[index]`; in brackets if it is `array(...)`, which sqlglot misreads."""
    array, index = call.arguments
    is_made = isinstance(array, Call) and array.function == "array"
    written = f"({write(array)})" if is_made else write(array)
    return f"{written}[{write(index)}]"


def _split_text(call: Call, write: Writer) -> str:
    text, pattern, limit = call.arguments
    is_limited = isinstance(limit, Literal) and limit.value != _WITHOUT_LIMIT
    written = [write(text), write(pattern), *([write(limit)] if is_limited else [])]
    return f"split({', '.join(written)})"


def _split_may_fail(call: Call) -> bool:
    pattern = call.arguments[1]
    return isinstance(pattern, Literal) and pattern_may_fail(read_splitter, str(pattern.value))


def _record(
    evaluate: Callable[..., Any],
    spelling: Spelling,
    *,
    nulls: Nulls = Nulls.FROM_ANY,
    null_only_from_null: Callable[[Call], bool] = always,
    may_fail: Callable[[Call], bool] = never,
    text: Callable[[Call, Writer], str] = written_as_call,
) -> ScalarFunction:
    return ScalarFunction(
        spellings=(spelling,),
        evaluate=evaluate,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=nulls,
        null_only_from_null=null_only_from_null,
        may_fail=may_fail,
        order=unordered,
        text=text,
    )


def _field(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return a field's values; null where the struct is null."""
    names = [field.name for field in call.arguments[0].type]
    return pc.struct_field(arguments[0], [names.index(str(call.parameters[0]))])


def _field_text(call: Call, write: Writer) -> str:
    return f"{write(call.arguments[0])}.{quoted_name(str(call.parameters[0]))}"


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "split": _record(
        _split,
        Spelling(
            "split", _build_split, 2, 3, catalyst=failing_call("StringSplit", TEXT, CONSTANT, ANY)
        ),
        null_only_from_null=never,
        may_fail=_split_may_fail,
        text=_split_text,
    ),
    "array": _record(_array, Spelling("array", _build_array, 1, 1000), nulls=Nulls.NEVER),
    "array_contains": _record(
        _contains,
        Spelling("array_contains", _build_contains, 2, 2),
        null_only_from_null=never,
    ),
    "size": _record(
        _size, Spelling("size", _build_size, 1, 1, aliases=("cardinality", "array_size"))
    ),
    "item": _item_record(_from_0, is_strict=True, text=_item_text),
    "get": _item_record(_from_0, is_strict=False, spellings=(_item_spelling("get"),)),
    "element_at": _item_record(
        _from_1_or_end, is_strict=True, spellings=(_item_spelling("element_at"),)
    ),
    "try_element_at": _item_record(
        _from_1_or_end, is_strict=False, spellings=(_item_spelling("try_element_at"),)
    ),
    "field": ScalarFunction(
        evaluate=_field,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=never,
        order=unordered,
        text=_field_text,
    ),
}
