"""`sql`: one SELECT over a fact and its dimensions, in Spark's SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as replace_fields
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, overload

from msgspec.structs import replace

from projseg.algebra.expressions.binder_names import fixed_instant, may_depend_on_instant
from projseg.algebra.expressions.sql_parameters import (
    Arguments,
    ArgumentsLike,
    parameter_names,
    with_arguments,
)
from projseg.algebra.query.context import QueryContext, context_options, parse_context
from projseg.algebra.query.fact_table import orient
from projseg.algebra.query.join import Join, key_not_unique
from projseg.algebra.query.request import Query, texts_of
from projseg.algebra.query.select_names import warn_of_names
from projseg.algebra.query.select_query import SelectedQuery, select_query
from projseg.algebra.query.select_statement import SelectStatement, parse_select
from projseg.algebra.query.select_table import SelectedTable, WrittenJoin
from projseg.algebra.query.star import JoinedTable, joined_schema, path_of_columns
from projseg.algebra.query.star_names import StarScope, named_tables
from projseg.algebra.query.statement_words import explained_select, is_described, is_select
from projseg.algebra.query.unsupported_sql import bad_sql
from projseg.errors import LimitExceededError, ProjsegError
from projseg.memory.cache import KEPT
from projseg.memory.deadline import answered_within
from projseg.memory.door import through
from projseg.reader.dimensions import TableDimension, bound_star, joined_table
from projseg.table.earlier_answers import earlier_select
from projseg.table.inspection import TableInspection
from projseg.table.sql_statements import (
    BoundSelect,
    bind_select,
    described,
    described_table,
    snapshot_of,
    table_named,
    tables_by_name,
    unknown_table,
)
from projseg.table.version_reader import VersionReader, telling_why_no_view

if TYPE_CHECKING:
    import pyarrow as pa

    from projseg.explain import Explain


_STAR_BYTES: Final = 8192  # of a statement's query, about


@overload
def sql(
    text: str,
    tables: Mapping[str, TableInspection],
    *,
    context: Mapping[str, Any] | None = None,
    args: ArgumentsLike | None = None,
    explain: Literal[False] = False,
) -> pa.Table: ...


@overload
def sql(
    text: str,
    tables: Mapping[str, TableInspection],
    *,
    context: Mapping[str, Any] | None = None,
    args: ArgumentsLike | None = None,
    explain: Literal[True],
) -> Explain: ...


def sql(
    text: str,
    tables: Mapping[str, TableInspection],
    *,
    context: Mapping[str, Any] | None = None,
    args: ArgumentsLike | None = None,
    explain: bool = False,
) -> pa.Table | Explain:
    """Return the rows of one SELECT over a table, or over a star of several.

    One table is the fact: each of its rows is joined with at most one row of every other, by equal
    keys. That a key has one row is proved from the rows. So the fact's projections answer what is
    grouped or filtered by a dimension's columns, if they are grouped by its key.

    Parameters
    ----------
    text : str
        `SELECT ... FROM edits JOIN places d ON country = d.code ...`: INNER, LEFT, RIGHT, LEFT SEMI
        and LEFT ANTI JOIN, with ON or USING; commas, with the equalities in WHERE; and
        `x IN (SELECT y FROM d)`. Or EXPLAIN, DESCRIBE and SHOW as of `Table.sql`, of the table that
        they name.
    tables : mapping of str to Table
        The tables by their names in FROM, each at its version; VERSION AS OF and TIMESTAMP AS OF
        read another.
    context : mapping or None
        As of `Table.query`.
    args : mapping of str to value, sequence of values, or None
        As of `Table.query`.
    explain : bool
        Return how the statement is answered instead.

    Returns
    -------
    pa.Table or Explain
        The outputs in the order of the select list, with the names that Spark gives them.

    Raises
    ------
    InvalidInputError
        PROJSEG_JOIN_KEY_NOT_UNIQUE, with one value, if a row may match several of a dimension;
        PROJSEG_BAD_SQL; and as of `Table.sql`.
    UnsupportedFeatureError
        PROJSEG_NOT_A_STAR for other joins: by inequalities, by keys that are floating or may fail
        to become one type, of many rows with many; PROJSEG_UNSUPPORTED_SQL.
    LimitExceededError
        PROJSEG_JOIN_TOO_LARGE if a dimension has more rows than a join takes.
    ProjsegError
        As of `Table.query`.
    """
    limit = answered_within(parse_context(context).time_limit)
    with fixed_instant(), limit, through("sql"):
        if isinstance(text, str) and is_described(text):
            return _described(text, tables, context, args)
        if not is_select(text):
            raise bad_sql(
                "a statement over tables is a SELECT, EXPLAIN, DESCRIBE or SHOW, found "
                f"{text!r:.80}"
            )
        selected = _selected(text, tables, context, args)
        return selected.explain() if explain else selected.rows()


def _selected(
    text: str,
    tables: Mapping[str, TableInspection],
    context: Mapping[str, Any] | None,
    args: ArgumentsLike | None,
) -> BoundSelect:
    named, arguments = with_arguments(text, args)
    statement = parse_select(named, with_joins=True)
    found = bound_statement(statement, tables, None, context, arguments)
    warn_of_names(statement.quoted, *(table.schema for table in tables.values()))
    return found


def _described(
    text: str,
    tables: Mapping[str, TableInspection],
    context: Mapping[str, Any] | None,
    args: ArgumentsLike | None,
) -> pa.Table:
    """Return what EXPLAIN tells of a SELECT, or DESCRIBE and SHOW of the table that they name."""
    is_explain = explained_select(text) is not None
    if not is_explain:
        with_arguments("", args)
    name = None if is_explain else described_table(text)
    return described(
        None if name is None else table_named(".".join(name), tables),
        text,
        lambda select, analyze: _selected(select, tables, context, args).explain(analyze=analyze),
    )


def bound_statement(
    statement: SelectStatement,
    tables: Mapping[str, TableInspection],
    otherwise: VersionReader | None,
    context: Mapping[str, Any] | None,
    arguments: Arguments | None,
    fact: VersionReader | None = None,
) -> BoundSelect:
    """Return a SELECT bound to tables.

    Parameters
    ----------
    statement : SelectStatement
        The SELECT, whose parameters all have names.
    tables, context
        As of `sql`.
    otherwise : VersionReader or None
        What every other name in FROM means.
    arguments : Arguments or None
        The values of its parameters.
    fact : VersionReader or None
        The table that is the fact if it may be; None: the one with most rows.

    Raises
    ------
    ProjsegError
        As of `sql`.
    """
    by_name = tables_by_name(tables)

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
    """A SELECT over several tables, and what it is asked of."""

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
        found: tuple[int, SelectedQuery] = KEPT.get_or_load(key, self.star, lambda _: _STAR_BYTES)
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
        where = " AND ".join(f"({text})" for text in found.where) or None
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
    """A star around its fact.

    Parameters
    ----------
    scope : StarScope
        What names mean; it has the number of the fact.
    joins : tuple of Join
        The dimensions, each after those that it hangs on.
    where : tuple of str
        Conditions over the joined rows.
    visible : tuple of JoinedTable
        The dimensions whose columns may be named.
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

    Parameters
    ----------
    selected, versions : sequence
        The tables of FROM, in order, and their versions.
    written : sequence of WrittenJoin
        How each but the first is joined.
    terms : sequence of str
        The conjuncts of WHERE.
    context, arguments
        Of the query.
    preferred : str
        The location of the table that is the fact if it may be.
    titles : sequence of str or None
        What errors call the tables; None: as FROM does.

    Raises
    ------
    ProjsegError
        As of `sql`.
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
            " AND ".join(f"({on})" for on in step.on),
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
