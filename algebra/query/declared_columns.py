"""What a definition's columns mean to queries: casts of the columns that a table stores.

A query is bound to the declared names and types, and each name is then replaced by its expression.
So a declared type is a `CAST` that somebody wrote into every query, and a projection is matched
through it: a column that is stored in its declared type costs nothing.
"""

from __future__ import annotations

from dataclasses import replace as dataclass_replace

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.expressions.bind import NamedExpression, bind
from projseg.algebra.expressions.sql_words import backquoted
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.algebra.query.binding import bind_interval, bind_query
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.composition import composed
from projseg.algebra.query.request import Query
from projseg.algebra.query.time_bounds import intersection
from projseg.errors import InvalidInputError, UnsupportedFeatureError
from projseg.memory.forks import cached_property
from projseg.segment_format.layout.logical_types import parse_type_name, type_name


class DeclaredColumn(msgspec.Struct, frozen=True):
    """A column as queries see it.

    Parameters
    ----------
    name : str
        Its declared name.
    type : str
        Its declared type, in Spark's words.
    stored : str or None
        The table's column that has its values; None: there is none, and it is null.
    """

    name: str
    type: str
    stored: str | None


class DeclaredColumns(msgspec.Struct, frozen=True, dict=True):
    """The columns of a table as a definition declares them, in order; hashable.

    Parameters
    ----------
    columns : tuple of DeclaredColumn
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
        """Return each column as an expression over the table's.

        Parameters
        ----------
        schema : pa.Schema
            The table's columns.
        timezone : str
            The session's, for casts between texts, dates and times.

        Raises
        ------
        InvalidInputError
            PROJSEG_DECLARED_TYPE if a stored type is never cast to the declared one.
        """
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
    """Return a query over declared columns, bound to the columns of a table.

    Parameters
    ----------
    declared : DeclaredColumns
        The columns that the query's texts name.
    schema, time_column, query, has_instant
        As of `bind_query`. An interval is of the table's time column in its stored type.

    Raises
    ------
    InvalidInputError
        As of `bind_query`; PROJSEG_DECLARED_TYPE.
    UnsupportedFeatureError, LimitExceededError
        As of `bind_query` and `composed`.
    """
    outer = bind_query(
        declared.schema,
        declared.name_of(time_column),
        dataclass_replace(query, interval=None),
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
    """Return a query that is bound to declared columns, but for its interval, over a table's.

    Parameters
    ----------
    outer : QuerySpec
        The bound query.
    declared, schema, time_column, query
        As of `bind_declared`.
    """
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
