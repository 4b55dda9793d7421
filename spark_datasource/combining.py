"""How Spark puts the answers of several tasks together: each aggregate as parts and their union.

A part is an aggregate that a task finishes; the union is Spark SQL over the parts of all tasks. An
aggregate that finished values cannot combine exactly (distinct counts, variances, decimal averages)
has none, and the query that asks for it runs in one task instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from projseg.algebra.aggregates.call import AggregateCall, result_type
from projseg.algebra.aggregates.functions import FUNCTIONS
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


def combine(call: AggregateCall, index: int) -> CombinedAggregate | None:
    """Return how tasks and Spark share an aggregate, or None if only one task can finish it.

    Parameters
    ----------
    call : AggregateCall
        The bound aggregate.
    index : int
        Its position in the query, which makes the parts' names unique.
    """
    split = FUNCTIONS[call.function].combination
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
    if FUNCTIONS[function].lg_k is not None:
        inputs += [str(parameter) for parameter in call.parameters]
    condition = "" if call.filter is None else f" FILTER (WHERE {to_sql(call.filter)})"
    return f"{function}({', '.join(inputs)}){condition}"
