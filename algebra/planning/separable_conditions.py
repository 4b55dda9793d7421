"""Conditions of a query that decide which rows it reads, and nothing else of how it is answered.

A condition is separable if nothing else depends on its columns: no aggregate, no other condition
and no FILTER or filter of a projection. Then it proves nothing about the rest of the query, and
whether a projection can check it depends on its own columns. So projections are matched without it,
once for all queries that differ in the constants of such conditions, and it is added afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa

from projseg.algebra.expressions.canonical import conjunction
from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.query.bound_query import QuerySpec
from projseg.memory.forks import cached_property


class SeparatedQuery(msgspec.Struct, frozen=True, dict=True):
    """A query without its separable conditions; queries with equal ones are matched alike.

    Parameters
    ----------
    rest : QuerySpec
        The query without them.
    columns : tuple of Column
        Their columns, in order of their names.
    has_interval : bool
        Whether an interval is among them.
    """

    rest: QuerySpec
    columns: tuple[Column, ...] = ()
    has_interval: bool = False

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of their columns."""
        return frozenset(column.name for column in self.columns)

    @property
    def is_whole(self) -> bool:
        """Whether nothing was separated."""
        return not self.columns and not self.has_interval


def separated(query: QuerySpec, decided: frozenset[str]) -> SeparatedQuery:
    """Return a query without its separable conditions.

    Parameters
    ----------
    query : QuerySpec
        The query.
    decided : frozenset of str
        The columns that filters and aggregators of projections read.
    """
    taken = decided.union(
        *(argument.columns for p in query.primitives for argument in p.arguments),
        *(p.filter.columns for p in query.primitives if p.filter is not None),
    )
    apart: list[Expression] = []
    rest: list[Expression] = []
    for condition in query.conditions:
        (apart if _is_separable(condition) else rest).append(condition)
    while True:
        taken = taken.union(*(condition.columns for condition in rest))
        rest = [condition for condition in apart if not condition.columns.isdisjoint(taken)]
        if not rest:
            break
        apart = [condition for condition in apart if condition.columns.isdisjoint(taken)]
    has_interval = query.interval is not None and query.time_column not in taken
    if not apart and not has_interval:
        return SeparatedQuery(query)
    left_out = set(map(id, apart))  # thousands of conditions take seconds to compare
    kept = conjunction(c for c in query.conditions if id(c) not in left_out)
    interval = None if has_interval else query.interval
    rows = query.among(kept if apart else query.filter, interval)
    return SeparatedQuery(rows, _columns(apart), has_interval)


def decided_columns(spec: ProjectionSpec) -> frozenset[str]:
    """Return the base columns that a projection's filter and aggregators read."""
    conditions = (*spec.filter_conjuncts, *(p.filter for p in spec.primitives))
    trees = (*conditions, *(tree for p in spec.primitives for tree in p.arguments))
    return frozenset[str]().union(*(tree.columns for tree in trees if tree is not None))


def _is_separable(condition: Expression) -> bool:
    """Whether a condition cannot fail, and depends on columns in a way that matching need not know.

    Of functions of a time a segment may know the value, or a projection the floor.
    """
    if not condition.columns or may_fail(condition):
        return False
    of_time = any(pa.types.is_temporal(column.type) for column in _columns([condition]))
    return not of_time or (
        isinstance(condition, Call)
        and all(isinstance(one, Column | Literal) for one in condition.arguments)
    )


def _columns(conditions: Iterable[Expression]) -> tuple[Column, ...]:
    nodes = (node for condition in conditions for node in condition.walk())
    found = {node.name: node for node in nodes if isinstance(node, Column)}
    return tuple(found[name] for name in sorted(found))
