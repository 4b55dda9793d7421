"""Quantiles, ranks and numbers of values of KLL sketches, as Spark's functions read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.coercion import bad_expression, cast_to
from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    as_array,
    require_type,
    valid_mask,
)
from projseg.algebra.expressions.functions.scalar_function import (
    Nulls,
    ScalarFunction,
    Spelling,
    always,
    never,
    unordered,
)
from projseg.algebra.expressions.tree import Call, Expression
from projseg.errors import CorruptSegmentError, EvaluationError
from projseg.memory.late_import import late_import
from projseg.segment_format.encodings.text_encoding import text_parts
from projseg.segment_format.layout.logical_types import type_name
from projseg.segment_format.vectors.arrow_arrays import (
    filled_values,
    primitive_array,
    primitive_values,
)

_ITEMS: Final = {"bigint": pa.int64(), "float": pa.float32(), "double": pa.float64()}
_ROUNDED: Final = (
    10_000_000  # DataSketches rounds ranks to so many parts, of at most so many values
)

_Keys = NDArray[np.int64]


def _item_of(function: str) -> pa.DataType:
    return _ITEMS[function.rsplit("_", 1)[1]]


def _maker(function: str) -> str:
    """Return the aggregate that makes what a function reads."""
    return f"kll_sketch_agg_{function.rsplit('_', 1)[1]}"


class _SortedSketches(msgspec.Struct, frozen=True):
    """Sketch i has keys[starts[i] : starts[i + 1]], ascending.

    A key's rank is how many of the sketch's values are at most as great. As DataSketches has it,
    that of the least value is 1 or more, and only the greatest has that of all values.
    """

    starts: _Keys
    keys: _Keys
    ranks: _Keys
    totals: _Keys

    def at_shares(self, sketches: _Keys, shares: NDArray[np.float64]) -> _Keys:
        """Return the least keys of which the rank is a share of all, int64[m]."""
        totals = self.totals[sketches]
        wanted = shares * totals
        rounded = np.floor(wanted * _ROUNDED + 0.5) / _ROUNDED
        wanted = np.ceil(np.where(totals <= _ROUNDED, rounded, wanted)).astype(np.int64)
        wanted = np.clip(wanted, 1, totals)
        before = np.cumsum(self.totals) - self.totals
        through = self.ranks + np.repeat(before, np.diff(self.starts))
        return self.keys[np.searchsorted(through, before[sketches] + wanted)]

    def shares_of(self, sketches: _Keys, keys: _Keys) -> NDArray[np.float64]:
        """Return the shares of all values that are at most as great as keys, float64[m]."""
        first, end = self.starts[sketches], self.starts[sketches + 1]
        low, high = first.copy(), end.copy()
        while (is_open := low < high).any():
            middle = np.where(is_open, (low + high) // 2, first)
            is_within = is_open & (self.keys[middle] <= keys)
            low = np.where(is_within, middle + 1, low)
            high = np.where(is_open & ~is_within, middle, high)
        ranks = np.where(low > first, self.ranks[np.maximum(low - 1, 0)], 0)
        return np.asarray(ranks / self.totals[sketches])


def _sorted_sketches(function: str, sketches: pa.Array) -> _SortedSketches:
    """Return the values of sketches; a null has none.

    Raises
    ------
    EvaluationError
        PROJSEG_EVALUATION_BAD_ARGUMENT, if one is not a sketch of values of the function's type.
    """
    with late_import:
        from projseg.kernels.sketches.kll_bytes import parse_klls
    item = _item_of(function)
    if pc.any(pc.equal(pc.binary_length(sketches), 0)).as_py():
        raise _bad_argument(function, "a binary is empty")
    try:
        starts, words, weights = parse_klls(
            *text_parts(sketches.fill_null(b"")), item.bit_width // 8, 0
        )
        keys = _keys_of_words(words, item)
    except CorruptSegmentError as error:
        raise _bad_argument(function, error.message) from error
    rows = np.repeat(np.arange(len(sketches)), np.diff(starts))
    order = np.lexsort((keys, rows))
    keys = keys[order]
    through = np.concatenate([np.zeros(1, np.int64), np.cumsum(weights[order])])
    totals = np.diff(through[starts])
    ranks = through[1:] - through[starts[:-1]][rows]
    if len(keys):
        greatest = keys[np.maximum(starts[1:] - 1, 0)][rows]
        ranks = np.where(keys < greatest, np.minimum(ranks, totals[rows] - 1), ranks)
    return _SortedSketches(starts, keys, np.maximum(ranks, 1), totals)


def _keys_of_words(words: NDArray[np.uint64], item: pa.DataType) -> _Keys:
    if pa.types.is_integer(item):
        return words.view(np.int64)
    is_narrow = item == pa.float32()
    values = words.astype(np.uint32).view(np.float32) if is_narrow else words.view(np.float64)
    if np.isnan(values).any():
        raise CorruptSegmentError("PROJSEG_CORRUPT_SEGMENT", "a KLL sketch holds a NaN")
    return _keys_of(values)


def _keys_of(values: NDArray[Any]) -> _Keys:
    """Return integers in the order of numbers."""
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    with late_import:
        from projseg.kernels.rows.order_keys import float_order_keys
    return float_order_keys(values)


def _values_of(keys: _Keys, item: pa.DataType) -> pa.Array:
    if pa.types.is_integer(item):
        return primitive_array(keys)
    with late_import:
        from projseg.kernels.rows.order_keys import float_of_order_keys
    return primitive_array(float_of_order_keys(keys)).cast(item)


def _bad_argument(function: str, problem: str) -> EvaluationError:
    return EvaluationError(
        "PROJSEG_EVALUATION_BAD_ARGUMENT",
        f"{function} reads sketches as {_maker(function)} makes them, and {problem}",
    )


def _count(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    sketches = as_array(arguments[0], row_count)
    totals = _sorted_sketches(call.function, sketches).totals
    return primitive_array(totals, valid_mask(sketches, row_count))


def _quantiles(
    function: str, sketches: _SortedSketches, rows: _Keys, asked: NDArray[Any]
) -> pa.Array:
    if not ((asked >= 0) & (asked <= 1)).all():
        wrong = asked[~((asked >= 0) & (asked <= 1))][0]
        raise EvaluationError(
            "PROJSEG_EVALUATION_BAD_ARGUMENT", f"{function} takes a rank from 0 to 1, found {wrong}"
        )
    return _values_of(sketches.at_shares(rows, asked), _item_of(function))


def _ranks(function: str, sketches: _SortedSketches, rows: _Keys, asked: NDArray[Any]) -> pa.Array:
    if asked.dtype.kind == "f" and np.isnan(asked).any():
        raise EvaluationError(
            "PROJSEG_EVALUATION_BAD_ARGUMENT",
            f"{function} takes a value that sketches may hold, found NaN, which they leave out",
        )
    return primitive_array(sketches.shares_of(rows, _keys_of(asked)))


def _asking(
    answer: Callable[[str, _SortedSketches, _Keys, NDArray[Any]], pa.Array],
    call: Call,
    arguments: Sequence[Datum],
    row_count: int,
) -> pa.Array:
    """Answer one value, or each value of an array, from the sketch of the same row."""
    valid = all_valid(arguments, row_count)
    sketches, asked = (as_array(argument, row_count) for argument in arguments)
    sketches = pc.if_else(primitive_array(valid), sketches, pa.scalar(None, pa.binary()))
    rows, items = np.flatnonzero(valid), asked.filter(primitive_array(valid))
    is_array = pa.types.is_list(asked.type)
    if is_array:
        sizes = np.diff(primitive_values(items.offsets))
        rows, items = np.repeat(rows, sizes), items.flatten()
        if items.null_count:
            raise EvaluationError(
                "PROJSEG_EVALUATION_BAD_ARGUMENT", f"{call.function} takes no null in an array"
            )
    found = _sorted_sketches(call.function, sketches)
    if (found.totals[rows] == 0).any():
        counted = call.function.replace("quantile", "n").replace("rank", "n")
        raise EvaluationError(
            "PROJSEG_EVALUATION_BAD_ARGUMENT",
            f"{call.function} is asked of a sketch without values; ask where {counted} of it is "
            "not 0, with CASE or HAVING",
        )
    answers = answer(call.function, found, rows, filled_values(items, 0))
    if not is_array:
        places = np.maximum(np.cumsum(valid) - 1, 0)
        return answers.take(pa.array(places, mask=~valid))
    ends = np.zeros(row_count + 1, np.int32)
    ends[1:][valid] = sizes
    offsets = np.cumsum(ends, dtype=np.int32)
    bounds = pa.array(offsets, mask=np.append(~valid, False))
    return pa.ListArray.from_arrays(bounds, answers).cast(call.type)


def _sketch(function: str, argument: Expression, zone: str) -> Expression:
    is_binary = argument.type in (pa.binary(), pa.null())
    require_type(is_binary, function, argument, f"a sketch, as {_maker(function)} makes it")
    return cast_to(argument, pa.binary(), zone)


def _counting(function: str) -> Spelling:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        return Call(pa.int64(), function, (_sketch(function, arguments[0], zone),))

    return Spelling(function, build, 1, 1)


def _asked_as(function: str, asked: Expression, item: pa.DataType, zone: str) -> Expression:
    """Return what is asked for, cast to an item or to an array of them."""
    if not pa.types.is_list(asked.type):
        return cast_to(asked, item, zone)
    if isinstance(asked, Call) and asked.function == "array":
        return Call(pa.list_(item), "array", tuple(cast_to(a, item, zone) for a in asked.arguments))
    if asked.type.value_type != item:
        raise bad_expression(
            f"{function} takes {type_name(item)} or an array of it, not {type_name(asked.type)}"
        )
    return asked


def _spelling(function: str, asked_item: pa.DataType, item: pa.DataType) -> Spelling:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        asked = _asked_as(function, arguments[1], asked_item, zone)
        result = pa.list_(item) if pa.types.is_list(asked.type) else item
        return Call(result, function, (_sketch(function, arguments[0], zone), asked))

    return Spelling(function, build, 2, 2)


def _record(evaluate: Callable[..., pa.Array], spelling: Spelling) -> ScalarFunction:
    return ScalarFunction(
        spellings=(spelling,),
        evaluate=evaluate,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=unordered,
    )


def _records(name: str, item: pa.DataType) -> dict[str, ScalarFunction]:
    """Return the three functions of sketches of one type."""
    count, quantile, rank = (f"kll_sketch_get_{what}_{name}" for what in ("n", "quantile", "rank"))
    return {
        count: _record(_count, _counting(count)),
        quantile: _record(partial(_asking, _quantiles), _spelling(quantile, pa.float64(), item)),
        rank: _record(partial(_asking, _ranks), _spelling(rank, item, pa.float64())),
    }


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    function: record
    for name, item in _ITEMS.items()
    for function, record in _records(name, item).items()
}
