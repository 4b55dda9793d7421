"""Which columns a plan reads from one source."""

from __future__ import annotations

from collections.abc import Sequence

from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.aggregates.state_columns import ROW_NUMBER, state_column_name
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.planning.source_plan import (
    AddFunction,
    AddRows,
    AddWeighted,
    Feed,
    FoldMultiple,
    FoldSeveral,
    MergeStates,
    SourcePlan,
)
from projseg.algebra.query.bound_query import QuerySpec


def columns_read(
    query: QuerySpec, source: SourcePlan, primitives: Sequence[Primitive] | None = None
) -> tuple[set[str], set[str]]:
    """Return the names of the columns and of the state columns that are read from a source.

    Parameters
    ----------
    query : QuerySpec
        What was asked.
    source : SourcePlan
        How one source of a segment answers it; not from metadata.
    primitives : sequence of Primitive or None
        What its feeds feed; None: the query's.
    """
    expressions = [*source.keys, *([] if source.filter is None else [source.filter])]
    states: set[str] = set()
    if source.present is not None:
        states.add(state_column_name(source.present, "count"))
    fed = query.primitives if primitives is None else primitives
    for primitive, feed in zip(fed, source.feeds, strict=True):
        _collect(feed, primitive, expressions, states)
    names = {name for expression in expressions for name in expression.columns}
    if source.needs_row_numbers:
        states.add(ROW_NUMBER)
    if source.interval is not None and source.time_column is not None:
        names.add(source.time_column)
    return names, states


def _collect(
    feed: Feed, primitive: Primitive, expressions: list[Expression], states: set[str]
) -> None:
    """Add what a feed reads: expressions over columns, and names of state columns."""
    match feed:
        case FoldSeveral():
            for part in feed.feeds:
                _collect(part, primitive, expressions, states)
        case FoldMultiple():
            expressions += feed.factors
            _collect(feed.feed, feed.primitive, expressions, states)
        case AddFunction():
            columns = feed.argument.walk()
            expressions += [c for c in columns if isinstance(c, Column) and c.name != feed.STATE]
            states |= {state_column_name(feed.prefix, p) for p, _ in feed.primitive.fields}
        case AddRows() | AddWeighted():
            expressions += feed.arguments
            if isinstance(feed, AddWeighted):
                states.add(state_column_name(feed.count_prefix, "count"))
        case MergeStates():
            states |= {state_column_name(feed.prefix, p) for p, _ in primitive.fields}
    condition = getattr(feed, "filter", None)
    if condition is not None:
        expressions.append(condition)
