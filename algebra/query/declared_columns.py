"""Queries over declared columns, or over the rows of another query, as queries over a table.

A declared column is a cast of a column that the table stores. A query is bound to the declared
names and types, and each name is then replaced by its expression. So a declared type is a `CAST`
that somebody wrote into every query, and a projection is matched through it: a column that is
stored in its declared type costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as replace_fields

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.aggregate_rewrites import with_filter
from projseg.algebra.aggregates.parse_aggregate import AggregateCall
from projseg.algebra.expressions.bind import NamedExpression, bind
from projseg.algebra.expressions.canonical import canonical, conjunction, conjuncts
from projseg.algebra.expressions.expression_limits import check_depth
from projseg.algebra.expressions.sql_words import backquoted
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.algebra.proofs.predicate_truth import intersection, split_time_bounds
from projseg.algebra.query.binding import bind_interval, bind_query
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.request import Query
from projseg.errors import InvalidInputError, UnsupportedFeatureError
from projseg.memory.forks import cached_property
from projseg.segment_format.logical_types import parse_type_name, type_name


class DeclaredColumn(msgspec.Struct, frozen=True):
    """A column as queries see it, of a type in Spark's words.

    Without a column of the table that has its values, `stored`, it is null.
    """

    name: str
    type: str
    stored: str | None


class DeclaredColumns(msgspec.Struct, frozen=True, dict=True):
    """The columns of a table as a definition declares them, in order; hashable.

    Names differ in more than case.
    """

    columns: tuple[DeclaredColumn, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that queries see."""
        return pa.schema([(one.name, parse_type_name(one.type)) for one in self.columns])

    def name_of(self, stored: str | None) -> str | None:
        """Return the declared name of one of the table's columns; None if it is not visible."""
        return next(
            (c.name for c in self.columns if stored is not None and c.stored == stored), None
        )

    def over(self, schema: pa.Schema, timezone: str) -> tuple[NamedExpression, ...]:
        """Return each column as an expression over the table's."""
        return tuple(
            NamedExpression(one.name, _expression(one, schema, timezone)) for one in self.columns
        )


def bind_declared(
    declared: DeclaredColumns,
    schema: pa.Schema,
    time_column: str | None,
    query: Query,
    *,
    has_instant: bool = True,
) -> QuerySpec:
    """Return a query over declared columns, bound to the columns of a table."""
    outer = bind_query(
        declared.schema,
        declared.name_of(time_column),
        replace_fields(query, interval=None),
        has_instant=has_instant,
    )
    return over_stored(outer, declared, schema, time_column, query)


def over_stored(
    outer: QuerySpec,
    declared: DeclaredColumns,
    schema: pa.Schema,
    time_column: str | None,
    query: Query,
) -> QuerySpec:
    """Return a query that is bound to declared columns, but for its interval, over a table's."""
    within = bind_interval(query, schema, time_column)
    columns = declared.over(schema, query.query_context.zone)
    inner = QuerySpec(
        columns=columns,
        time_column=time_column,
        time_type=None if time_column is None else schema.field(time_column).type,
        context=outer.context,
    )
    found = composed(outer, inner, schema)
    casts = tuple(one.expression for one in columns if isinstance(one.expression, Call))
    return replace(found, interval=intersection(found.interval, within), declared_casts=casts)


def _expression(column: DeclaredColumn, schema: pa.Schema, timezone: str) -> Expression:
    declared = parse_type_name(column.type)
    if column.stored is None:
        return Literal(declared, None)
    stored = schema.field(column.stored).type
    if stored == declared:
        return Column(stored, column.stored)
    try:
        return bind(
            f"CAST({backquoted(column.stored)} AS {column.type})", schema, timezone=timezone
        )
    except (InvalidInputError, UnsupportedFeatureError) as error:
        raise InvalidInputError(
            "PROJSEG_DECLARED_TYPE",
            f"column '{column.name}' is declared as {column.type} and stored as "
            f"{type_name(stored)}, which Spark does not cast to it; declare another type",
        ) from error


def keeps_rows(query: QuerySpec) -> bool:
    """Whether a query only filters rows and computes columns, so an outer one can include it."""
    return query.is_row_scan and query.limit is None and not query.order_by


def composed(outer: QuerySpec, inner: QuerySpec, schema: pa.Schema) -> QuerySpec:
    """Return the query over a table that means `outer` over the rows of `inner`, which keeps rows.

    The inner filter is applied first, so that the outer expressions meet none of the rows that it
    drops.
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
