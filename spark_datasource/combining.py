"""How Spark puts the answers of several tasks together: each aggregate as parts and their union.

A part is an aggregate that a task finishes; the union is Spark SQL over the parts of all tasks. An
aggregate that finished values cannot combine exactly (distinct counts, variances, decimal averages)
has none, and the query that asks for it runs in one task instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from projseg.algebra.aggregates.call import AggregateCall, result_type
from projseg.algebra.expressions.render import to_sql
from projseg.segment_format.types import type_name

PART_PREFIX: Final = "__part_"


@dataclass(frozen=True)
class CombinedAggregate:
    """One aggregate of a query, split between tasks and Spark.

    Parameters
    ----------
    parts : tuple of str
        Aggregates for the tasks, each with its alias.
    union : str
        Spark SQL over the aliases: the aggregate's final value.
    """

    parts: tuple[str, ...]
    union: str


@dataclass(frozen=True)
class _Split:
    """The rule of one function: `{0}`, `{1}` stand for the parts' names, `{type}` for the result's.

    `parts` are (function, how many of the call's arguments, from which one).
    """

    parts: tuple[tuple[str, slice], ...]
    union: str
    accepts: Callable[[pa.DataType], bool] = lambda _: True


_ALL: Final = slice(None)
_ORDERING: Final = slice(1, 2)
_SKETCHED: Final = frozenset({pa.int32(), pa.int64(), pa.string(), pa.binary()})


def _same(function: str) -> _Split:
    return _Split(((function, _ALL),), f"{function}({{0}})")


def _by(function: str, extremum: str) -> _Split:
    return _Split(((function, _ALL), (extremum, _ORDERING)), f"{function}({{0}}, {{1}})")


_SPLITS: Final[dict[str, _Split]] = {
    "count": _Split((("count", _ALL),), "coalesce(sum({0}), 0L)"),
    "sum": _Split((("sum", _ALL),), "cast(sum({0}) AS {type})"),
    "avg": _Split(
        (("sum", _ALL), ("count", _ALL)),
        "cast(sum({0}) AS double) / nullif(sum({1}), 0L)",
        lambda value_type: not pa.types.is_decimal(value_type),
    ),
    "min": _same("min"),
    "max": _same("max"),
    "bool_and": _same("bool_and"),
    "bool_or": _same("bool_or"),
    "bit_and": _same("bit_and"),
    "bit_or": _same("bit_or"),
    "bit_xor": _same("bit_xor"),
    "min_by": _by("min_by", "min"),
    "max_by": _by("max_by", "max"),
    "first": _by("min_by", "min"),
    "last": _by("max_by", "max"),
    "hll_sketch_agg": _Split((("hll_sketch_agg", _ALL),), "hll_union_agg({0})"),
    "approx_count_distinct": _Split(
        (("hll_sketch_agg", _ALL),),
        "hll_sketch_estimate(hll_union_agg({0}))",
        _SKETCHED.__contains__,
    ),
    "theta_sketch_agg": _Split((("theta_sketch_agg", _ALL),), "theta_union_agg({0})"),
}


def combine(call: AggregateCall, index: int) -> CombinedAggregate | None:
    """Return how tasks and Spark share an aggregate, or None if only one task can finish it.

    Parameters
    ----------
    call : AggregateCall
        The bound aggregate.
    index : int
        Its position in the query, which makes the parts' names unique.
    """
    split = _SPLITS.get(call.function)
    if split is None or (call.arguments and not split.accepts(call.arguments[0].type)):
        return None
    names = [f"{PART_PREFIX}{index}_{number}" for number in range(len(split.parts))]
    parts = tuple(
        f"{_part(call, function, chosen)} AS {name}"
        for (function, chosen), name in zip(split.parts, names, strict=True)
    )
    union = split.union.format(*names, type=type_name(result_type(call)))
    return CombinedAggregate(parts, union)


def _part(call: AggregateCall, function: str, chosen: slice) -> str:
    inputs = [to_sql(argument) for argument in call.arguments[chosen]] or ["*"]
    if function.endswith("sketch_agg"):
        inputs += [str(parameter) for parameter in call.parameters]
    condition = "" if call.filter is None else f" FILTER (WHERE {to_sql(call.filter)})"
    return f"{function}({', '.join(inputs)}){condition}"
