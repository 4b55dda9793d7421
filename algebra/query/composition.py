"""One question over the rows that another returns, as one question over that one's table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as replace_fields

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.aggregate_rewrites import with_filter
from projseg.algebra.aggregates.call import AggregateCall
from projseg.algebra.expressions.bind import NamedExpression
from projseg.algebra.expressions.canonical import canonical, conjunction, conjuncts
from projseg.algebra.expressions.expression_limits import check_depth
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.time_bounds import intersection, split_time_bounds


def keeps_rows(query: QuerySpec) -> bool:
    """Whether a query only filters rows and computes columns of each, so that it composes."""
    return query.is_row_scan and query.limit is None and not query.order_by


def composed(outer: QuerySpec, inner: QuerySpec, schema: pa.Schema) -> QuerySpec:
    """Return the query over a table that means `outer` over the rows of `inner`.

    The inner filter is applied first, so that the outer expressions meet none of the rows that it
    drops.

    Parameters
    ----------
    outer : QuerySpec
        Over the columns of `inner`.
    inner : QuerySpec
        Over the table; `keeps_rows` is true of it.
    schema : pa.Schema
        The table's columns.

    Raises
    ------
    LimitExceededError
        If an expression becomes too deep.
    """
    values = {named.name: named.expression for named in inner.columns}

    def over_table(expression: Expression) -> Expression:
        found = canonical(substituted(expression, values))
        check_depth(found)
        return found

    def named_over_table(named: NamedExpression) -> NamedExpression:
        return replace(named, expression=over_table(named.expression))

    def call_over_table(call: AggregateCall) -> AggregateCall:
        return with_filter(
            replace(
                call,
                arguments=tuple(map(over_table, call.arguments)),
                filter=None if call.filter is None else over_table(call.filter),
            )
        )

    condition = conjunction((*conjuncts(inner.filter), *map(over_table, outer.conditions)))
    bounds, rest = split_time_bounds(
        condition if condition is None else canonical(condition), inner.time_column, schema
    )
    return replace(
        outer,
        keys=tuple(map(named_over_table, outer.keys)),
        aggregates=tuple(map(call_over_table, outer.aggregates)),
        columns=tuple(map(named_over_table, outer.columns)),
        filter=conjunction(rest),
        interval=intersection(intersection(inner.interval, outer.interval), bounds),
        time_column=inner.time_column,
        time_type=inner.time_type,
        declared_casts=inner.declared_casts,
    )


def substituted(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """Return an expression, not yet canonical, in which columns are other expressions."""
    if isinstance(expression, Column):
        return values[expression.name]
    if isinstance(expression, Call):
        arguments = tuple(substituted(argument, values) for argument in expression.arguments)
        return replace_fields(expression, arguments=arguments)
    return expression
