"""One SELECT over a fact and its dimensions, bound to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as replace_fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from projseg.algebra.expressions.binder_names import may_depend_on_instant
from projseg.algebra.expressions.sql_parameters import (
    Arguments,
    parameter_names,
)
from projseg.algebra.expressions.sql_words import conjoined
from projseg.algebra.query.context import QueryContext, context_options, parse_context
from projseg.algebra.query.fact_table import orient
from projseg.algebra.query.join import Join, key_not_unique
from projseg.algebra.query.request import Query, texts_of
from projseg.algebra.query.select_query import SelectedQuery, select_query
from projseg.algebra.query.select_statement import SelectStatement, statement_bytes
from projseg.algebra.query.select_table import SelectedTable, WrittenJoin
from projseg.algebra.query.star import JoinedTable, joined_schema, path_of_columns
from projseg.algebra.query.star_names import StarScope, named_tables
from projseg.errors import LimitExceededError, ProjsegError
from projseg.memory.cache import KEPT
from projseg.reader.dimensions import TableDimension, bound_star, joined_table
from projseg.table.earlier_answers import earlier_select
from projseg.table.sql_statements import (
    BoundSelect,
    bind_select,
    snapshot_of,
    unknown_table,
)
from projseg.table.version_reader import VersionReader, telling_why_no_view

if TYPE_CHECKING:
    pass


_STAR_BYTES: Final = 8192  # of a statement's query, about


def bound_statement(
    statement: SelectStatement,
    tables: Mapping[str, VersionReader],
    otherwise: VersionReader | None,
    context: Mapping[str, Any] | None,
    arguments: Arguments | None,
    fact: VersionReader | None = None,
) -> BoundSelect:
    """Return a SELECT bound to tables by their names, or to `otherwise`; `fact` is tried first."""
    by_name = {name.casefold(): table for name, table in tables.items()}

    def version_of(table: SelectedTable) -> VersionReader:
        found = by_name.get(table.written.casefold(), otherwise)
        if found is None:
            raise unknown_table(table.written, tables)
        if not table.is_versioned:
            return found
        return found.at(snapshot_of(found, table, context))

    def star(inner: SelectStatement) -> BoundSelect:
        selected = [inner.table, *(join.table for join in inner.joins)]
        versions = tuple(map(version_of, selected))
        preferred = "" if fact is None else fact.location
        asked = _Asked(inner, versions, parse_context(context), arguments, preferred)
        seconds = asked.context.max_staleness
        with telling_why_no_view([version.snapshot for version in versions]):
            bound = asked.bound()
        return bound if seconds is None else earlier_select(bound, versions, seconds, asked.at)

    return bind_select(statement, version_of, context, arguments, star)


class _Asked(NamedTuple):
    """A SELECT over several tables, and the versions that it reads."""

    statement: SelectStatement
    versions: tuple[VersionReader, ...]
    context: QueryContext
    arguments: Arguments | None
    preferred: str = ""  # the location of the table that is the fact if it may be

    def bound(self) -> BoundSelect:
        """Return the statement, bound to its fact."""
        number, found = self.kept_star()
        version = self.versions[number]
        return BoundSelect(
            version, found, bound_star(version.snapshot, found.query, version.declared)
        )

    def at(self, view: str, versions: Sequence[VersionReader]) -> BoundSelect:
        """Return the statement, bound to other versions and answered by a view."""
        context = replace(self.context, use_view=view)
        return self._replace(versions=tuple(versions), context=context).bound()

    def kept_star(self) -> tuple[int, SelectedQuery]:
        """Return what `star` does; it is cached by the content of all tables."""
        statement = self.statement
        texts = [one.text for one in statement.items]
        texts += [*statement.terms, *(term for join in statement.joins for term in join.terms)]
        texts += [*(statement.group_by or ()), *statement.order_by, statement.having or ""]
        texts += [text for join in statement.joins for text in join.where]
        if any(map(may_depend_on_instant, texts)):
            return self.star()
        contents = tuple(
            (TableDimension(version.snapshot).identity, version.declared)
            for version in self.versions
        )
        key = ("star statement", self.statement, contents, self.context, self.arguments,
               self.preferred)  # fmt: skip
        found: tuple[int, SelectedQuery] = KEPT.get_or_load(
            key, self.star, lambda star: _STAR_BYTES + statement_bytes(str(star[1].query))
        )
        return found

    def star(self) -> tuple[int, SelectedQuery]:
        """Return the number of the fact, and the query of it with joins."""
        statement, versions = self.statement, self.versions
        selected = [statement.table, *(join.table for join in statement.joins)]
        found = oriented(
            selected, versions, statement.joins, statement.terms, self.context,
            self.arguments, self.preferred,
        )  # fmt: skip
        fact, scope = versions[found.scope.fact], found.scope
        where = conjoined(found.where)
        query = select_query(
            replace(statement, where=where),
            joined_schema(fact.schema, found.visible),
            fact.time_column,
            context_options(self.context),
            self.arguments,
            scope,
        )
        whole = _with_joins(query.query, found.joins, self.arguments)
        return scope.fact, replace(query, query=whole)


class OrientedStar(NamedTuple):
    """A star around its fact: its dimensions, each after those that it hangs on, and conditions.

    The scope has what names mean, and the number of the fact; conditions are over the joined rows;
    the columns of visible dimensions may be named.
    """

    scope: StarScope
    joins: tuple[Join, ...]
    where: tuple[str, ...]
    visible: tuple[JoinedTable, ...]


def oriented(
    selected: Sequence[SelectedTable],
    versions: Sequence[VersionReader],
    written: Sequence[WrittenJoin],
    terms: Sequence[str],
    context: QueryContext,
    arguments: Arguments | None = None,
    preferred: str = "",
    titles: Sequence[str] | None = None,
) -> OrientedStar:
    """Return the star that joined tables are, whose keys are proved from their rows.

    The table at the location `preferred` is the fact if it may be; `titles` are what errors call
    the tables.
    """
    columns = [version.schema.names for version in versions]
    named = named_tables(selected, columns, titles or [one.names[-1] for one in selected])
    tables = [
        joined_table(Join(version, "TRUE", table.alias), context.zone)
        for table, version in zip(named, versions, strict=True)
    ]

    def repeated(
        number: int, columns: tuple[str, ...], condition: str | None
    ) -> ProjsegError | None:
        table = tables[number]
        try:
            path = path_of_columns(table, columns, condition, context.zone, arguments)
            value = table.dimension.repeated(path)
        except LimitExceededError as error:
            return error
        return None if value is None else key_not_unique(table.name, columns, value)

    star = orient(named, written, terms, _ranks(versions, preferred), repeated)
    joins = tuple(
        Join(
            versions[step.table],
            conjoined(step.on) or "",
            named[step.table].alias,
            step.how,
        )
        for step in star.steps
    )
    visible = tuple(tables[step.table] for step in star.steps if step.how in ("inner", "left"))
    return OrientedStar(star.scope, joins, star.where, visible)


def _ranks(versions: Sequence[VersionReader], preferred: str) -> list[int]:
    """Return which table is tried first as the fact: the one preferred, with views, or largest."""
    most = 1 + max(version.snapshot.row_count for version in versions)
    return [
        version.snapshot.row_count
        + most * (2 * (version.location == preferred) + version.has_views)
        for version in versions
    ]


def _with_joins(query: Query, joins: tuple[Join, ...], arguments: Arguments | None) -> Query:
    """Return a query with joins, and the values of the parameters in them."""
    joined = replace_fields(query, args=None, joins=joins)
    if arguments is None:
        return joined
    names = frozenset[str]().union(*map(parameter_names, texts_of(joined)))
    return replace_fields(joined, args=arguments.only(names))
