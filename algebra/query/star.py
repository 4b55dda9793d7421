"""A query with joins as a query over its one table: joined columns are expressions over keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as replace_fields
from typing import Any, Final

import msgspec
import pyarrow as pa

from projseg.algebra.expressions.bind import NamedExpression, bind
from projseg.algebra.expressions.binder_names import fixed_instant
from projseg.algebra.expressions.canonical import canonical, conjunction, conjuncts
from projseg.algebra.expressions.coercion import cast_to, common_type, is_decimal, is_floating
from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.joined_values import (
    JoinPath,
    join_found,
    join_value,
)
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.sql_parameters import Arguments, bound_to, parameter_names
from projseg.algebra.expressions.sql_words import aliased, column_text, plain_name
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.declared_columns import composed, substituted
from projseg.algebra.query.join import Join, key_not_unique, not_a_star
from projseg.algebra.query.request import (
    Query,
    arguments_of,
    texts_of,
)
from projseg.errors import InvalidInputError
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import type_name

_JOINS_MAX: Final = 16
_JOINS_IN_A_ROW_MAX: Final = 4


class JoinedTable(msgspec.Struct, frozen=True):
    """A join, the table's columns as queries see them, and the same over stored columns.

    `dimension.repeated(path)` says which key several of its rows have.
    """

    join: Join
    schema: pa.Schema
    columns: Mapping[str, Expression]
    dimension: Any

    @property
    def name(self) -> str:
        """What its columns are written with."""
        return str(self.join.name)

    def column(self, name: str) -> str:
        """Return the name of a column in the joined rows."""
        return f"{self.name}.{name}"

    @property
    def own(self) -> dict[str, Expression]:
        """Its columns by their names in the joined rows."""
        return {self.column(name): value for name, value in self.columns.items()}

    @property
    def fields(self) -> list[pa.Field]:
        """Its columns as those of the joined rows."""
        return [field.with_name(self.column(field.name)) for field in self.schema]


def joined_schema(schema: pa.Schema, tables: Iterable[JoinedTable]) -> pa.Schema:
    """Return the columns of a fact, then those of its dimensions as `name.column`."""
    fields, names = list(schema), {name_key(name): "a column" for name in schema.names}
    for table in tables:
        if (other := names.get(name_key(table.name))) is not None:
            raise InvalidInputError(
                "PROJSEG_BAD_QUERY",
                f"a join is named '{table.name}', as is {other}; give it another name",
            )
        names[name_key(table.name)] = "another join"
        fields += table.fields
    return pa.schema(fields)


def bind_star(
    schema: pa.Schema, time_column: str | None, query: Query, tables: Sequence[JoinedTable]
) -> QuerySpec:
    """Return a query with joins, bound to the columns of its table alone.

    Its parameters all have names; the tables are those of its joins, in order.
    """
    visible = [table for table in tables if table.join.how in ("inner", "left")]
    with fixed_instant():
        joined_schema(schema, tables)
        star = _Star(schema, query)
        for table in tables:
            star.add(table)
        wide = joined_schema(schema, visible)
        bound = bind_query(wide, time_column, _over(query, wide, schema))
        return composed(bound, star.rows(wide, time_column), schema)


def _over(query: Query, wide: pa.Schema, schema: pa.Schema) -> Query:
    """Return a query's texts over the joined rows; plain columns are named without the table."""
    columns = query.columns
    if query.is_row_scan and (columns is None or tuple(columns) == ("*",)):
        columns = tuple(map(column_text, schema.names))
    given = arguments_of(query)
    if given is not None:
        query = replace_fields(query, joins=())
        given = given.only(frozenset[str]().union(*map(parameter_names, texts_of(query))))
    return replace_fields(
        query,
        joins=(),
        args=given,
        group_by=tuple(_titled(text, wide) for text in query.group_by),
        columns=columns and tuple(_titled(text, wide) for text in columns),
    )


def _titled(text: str, wide: pa.Schema) -> str:
    """Return a text with an alias if it is `name.column` alone: the column's name."""
    if "." not in text:
        return text
    name = plain_name(text)
    if name is None or len(name.parts) != 2:
        return text
    is_joined = name_key(".".join(name.parts)) in {name_key(one) for one in wide.names}
    return aliased(text, name.parts[1]) if is_joined else text


def path_of_columns(
    table: JoinedTable,
    columns: Sequence[str],
    condition: str | None,
    zone: str,
    arguments: Arguments | None,
) -> JoinPath:
    """Return the path by plain columns of a table, among rows for which a condition is true.

    The condition is over its columns with its name before them.
    """
    keys = tuple(table.columns[name] for name in dict.fromkeys(columns))
    if condition is None:
        return _path_by(table, keys, None)
    with bound_to(arguments):
        bound = bind(condition, pa.schema(table.fields), timezone=zone)
    return _path_by(table, keys, canonical(substituted(bound, table.own)))


class _Star:
    """The joined columns as expressions over the fact, and the rows that the joins keep."""

    def __init__(self, schema: pa.Schema, query: Query) -> None:
        self._schema = schema
        self._zone = query.query_context.zone
        self._arguments = arguments_of(query)
        self._values: dict[str, Expression] = {
            field.name: Column(field.type, field.name) for field in schema
        }
        self._known = list(schema)
        self._conditions: list[Expression] = []
        self._count = 0

    def rows(self, wide: pa.Schema, time_column: str | None) -> QuerySpec:
        """Return the joined rows as a query that keeps rows of the fact."""
        return QuerySpec(
            columns=tuple(NamedExpression(name, self._values[name]) for name in wide.names),
            filter=conjunction(self._conditions),
            time_column=time_column,
            time_type=None if time_column is None else self._schema.field(time_column).type,
        )

    def add(self, table: JoinedTable) -> None:
        """Add a join."""
        self._count += 1
        if self._count > _JOINS_MAX:
            raise not_a_star(table.name, f"is beyond the {_JOINS_MAX} joins that a query may have")
        own = table.own
        pairs, conditions = self._on(table, own)
        arguments = tuple(self._over_fact(fact) for fact, _ in pairs)
        depth = max(map(_depth, arguments))
        if depth >= _JOINS_IN_A_ROW_MAX:
            raise not_a_star(
                table.name, f"hangs on {depth} others; {_JOINS_IN_A_ROW_MAX} in a row may be joined"
            )
        keys = tuple(canonical(substituted(key, own)) for _, key in pairs)
        there = [canonical(substituted(one, own)) for one in conditions]
        path = self._path(table, keys, conjunction(there))
        found = join_found(path, arguments)
        how = table.join.how
        if how == "anti":
            self._conditions.append(Call(pa.bool_(), "not", (found,)))
        elif how != "left":
            self._conditions.append(found)
        if how in ("semi", "anti"):
            return
        for name, value in own.items():
            found_in = {
                column.name: join_value(path, arguments, column.name, column.type)
                for column in value.walk()
                if isinstance(column, Column)
            }
            self._values[name] = substituted(value, found_in)
        if how == "inner":
            # Where a row is found its key equals what it was found by.
            found_by = zip(pairs, arguments, strict=True)
            self._values |= {
                k.name: a for (_, k), a in found_by if isinstance(k, Column) and a.type == k.type
            }
            if path.condition is None:
                self._conditions += map(self._over_fact, conditions)
        self._known += table.fields

    @staticmethod
    def _path(
        table: JoinedTable, keys: tuple[Expression, ...], condition: Expression | None
    ) -> JoinPath:
        """Return the path of a join, whose key is proved unique where it must be."""
        path, how = _path_by(table, keys, condition), table.join.how
        if how == "inner" and condition is not None:
            plain = _path_by(table, keys, None)
            # Where the key alone is unique, the path is the same as without the condition.
            path = plain if table.dimension.repeated(plain) is None else path
        value = table.dimension.repeated(path) if how in ("inner", "left") else None
        if value is not None:
            raise key_not_unique(table.name, path.names, value)
        return path

    def _on(
        self, table: JoinedTable, own: Mapping[str, Expression]
    ) -> tuple[list[tuple[Expression, Expression]], list[Expression]]:
        """Return the compared expressions, and the conditions on the dimension alone."""
        try:
            scope = pa.schema([*self._known, *table.fields])
            with bound_to(self._arguments):
                found = list(conjuncts(bind(table.join.on, scope, timezone=self._zone)))
                if table.join.where is not None:
                    there = pa.schema([*table.schema, *table.fields])
                    where = bind(table.join.where, there, timezone=self._zone)
                    found += conjuncts(_renamed(where, {n: table.column(n) for n in table.columns}))
        except InvalidInputError as error:
            raise type(error)(error.code, f"join '{table.name}': {error.message}") from error
        pairs, conditions = [], []
        for one in found:
            if not pa.types.is_boolean(one.type):
                raise not_a_star(table.name, f"has '{to_sql(one)}', which is no condition")
            if one.columns <= own.keys():
                conditions.append(one)
            else:
                pairs.append(self._pair(table, one, own.keys()))
        if not pairs:
            raise not_a_star(
                table.name, "has no equality between a column of it and what is joined before it"
            )
        return pairs, conditions

    def _pair(
        self, table: JoinedTable, condition: Expression, own: Iterable[str]
    ) -> tuple[Expression, Expression]:
        """Return the two sides of an equality: over what is known, and over the dimension."""
        names = frozenset(own)
        problem = f"has '{to_sql(condition)}'"
        if not isinstance(condition, Call) or condition.function != "=":
            raise not_a_star(table.name, f"{problem}, which is no equality of a column of it")
        other, key = condition.arguments
        if other.columns and other.columns <= names:
            other, key = key, other
        if not key.columns or not key.columns <= names or not other.columns.isdisjoint(names):
            raise not_a_star(table.name, f"{problem}, which mixes its columns with others")
        other, key = _in_common(other, key)
        inner = key.arguments[0] if isinstance(key, Call) and key.function == "cast" else key
        if not isinstance(inner, Column):
            raise not_a_star(table.name, f"{problem}: its side is an expression, and no column")
        key_of_rows = canonical(substituted(key, table.own))
        if is_floating(key.type):
            raise not_a_star(table.name, f"{problem}, of {type_name(key.type)}; keys are exact")
        if may_fail(key_of_rows) or _is_failing_cast(other):
            raise not_a_star(
                table.name,
                f"{problem}, of {type_name(inner.type)} and another type: a value may fail to "
                "become the other's; cast with try_cast",
            )
        return other, key

    def _over_fact(self, expression: Expression) -> Expression:
        return canonical(substituted(expression, self._values))


def _is_failing_cast(expression: Expression) -> bool:
    """Whether an expression is a cast that some value of its argument makes fail."""
    if isinstance(expression, Call) and expression.function == "cast":
        return FUNCTIONS["cast"].may_fail(expression)
    return False


def _in_common(one: Expression, other: Expression) -> tuple[Expression, Expression]:
    """Return decimals of different types in a type that holds the values of both."""
    if one.type == other.type or not (is_decimal(one.type) and is_decimal(other.type)):
        return one, other
    wide = common_type(one.type, other.type)
    if wide is None:
        return one, other
    both = [canonical(cast_to(side, wide, "UTC")) for side in (one, other)]
    return both[0], both[1]


def _path_by(
    table: JoinedTable, keys: tuple[Expression, ...], condition: Expression | None
) -> JoinPath:
    """Return the path by keys of a table, over its stored columns."""
    text = None if condition is None else to_sql(condition)
    names = tuple(map(_key_name, keys))
    return JoinPath(table.dimension, keys, names, condition, text)


def _key_name(key: Expression) -> str:
    """Return a key as texts have it: the column, unless how it is cast depends on a zone."""
    if isinstance(key, Call) and FUNCTIONS[key.function].zone(key) is None:
        key = key.arguments[0] if isinstance(key.arguments[0], Column) else key
    return key.name if isinstance(key, Column) else to_sql(key)


def _renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    """Return an expression in which columns have other names."""
    if isinstance(expression, Column):
        return Column(expression.type, names.get(expression.name, expression.name))
    if isinstance(expression, Call):
        arguments = tuple(_renamed(one, names) for one in expression.arguments)
        return replace_fields(expression, arguments=arguments)
    return expression


def _depth(expression: Expression) -> int:
    """Return how many joins in a row an expression reads."""
    below = max(map(_depth, expression.children), default=0)
    is_join = isinstance(expression, Call) and expression.function in ("join_value", "join_found")
    return below + is_join
