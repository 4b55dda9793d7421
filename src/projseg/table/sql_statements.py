"""SQL statements over one version of a table: a SELECT, and what tells of tables and plans."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as replace_fields
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.expressions.sql_parameters import Arguments, ArgumentsLike
from projseg.algebra.expressions.sql_words import NAME, name_parts
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.context import parse_context
from projseg.algebra.query.declared_columns import composed, keeps_rows
from projseg.algebra.query.select_query import SelectedQuery, select_query
from projseg.algebra.query.select_statement import SelectStatement, parse_asked
from projseg.algebra.query.select_table import SelectedTable
from projseg.algebra.query.statement_words import (
    explained_select,
    is_described,
    is_select,
    without_comments,
)
from projseg.algebra.query.unsupported_sql import bad_sql
from projseg.errors import InvalidInputError, ProjsegError, did_you_mean
from projseg.explain import Explain, explain_plan
from projseg.reader.answer import answer_over
from projseg.reader.plan.bind_template import bind_asked
from projseg.segment_format.logical_types import type_name
from projseg.table.version_reader import VersionReader
from projseg.table_layer.commits.open_version import instant_us, open_as_of, version_at
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata_tables import METADATA_TABLES, offered_by

_STATEMENT: Final = re.compile(
    r"\s*(?P<verb>DESCRIBE|DESC|SHOW)(?:\s+(?:EXTENDED|FORMATTED))?\s+(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_DESCRIBE: Final = re.compile(rf"(?:TABLE\s+)?(?P<table>{NAME})\s*;?\s*", re.IGNORECASE)
_VersionOf: TypeAlias = Callable[[SelectedTable], VersionReader]
_Explained: TypeAlias = Callable[[str, bool], Explain]


class BoundSelect(msgspec.Struct, frozen=True):
    """A SELECT, bound to a version of a table or to the rows of another SELECT, its source.

    The version is the one that is read in the end, chosen by `maxStaleness` if it is earlier; the
    query is bound to its columns, or to those of the source.
    """

    version: VersionReader
    selected: SelectedQuery
    query: QuerySpec
    source: BoundSelect | None = None
    is_earlier: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""
        given = self.query.output_schema
        types = [given.field(column).type for column in self.selected.columns]
        for name in self.selected.names:
            if self.selected.names.count(name) > 1:
                raise bad_sql(f"the subquery has two columns '{name}'; give one another alias")
        return pa.schema(zip(self.selected.names, types, strict=True))

    @property
    def time_column(self) -> str | None:
        """The version's time column, if the rows have it under its name."""
        column = self.query.time_column if self.source is not None else self.version.time_column
        return column if column in self.selected.names and self.keeps_rows else None

    @property
    def keeps_rows(self) -> bool:
        """Whether it only filters rows of its table and computes columns of each."""
        return self.source is None and keeps_rows(self.query) and not self.selected.offset

    def rows(self) -> pa.Table:
        """Return the statement's rows."""
        if self.source is None:
            plan = self.version.plan_bound(self.query)
            return self.selected.rows_of(self.version.answer(plan))
        return self.selected.rows_of(answer_over(self.query, self.source.rows()))

    def explain(self, *, analyze: bool = False) -> Explain:
        """Return how the segments are read; not what is done with these rows."""
        if self.source is not None:
            return self.source.explain(analyze=analyze)
        plan = self.version.plan_bound(self.query)
        found = explain_plan(self.version.storage, self.selected.query, plan, analyze=analyze)
        return (
            replace_fields(found, version=self.version.snapshot.version)
            if self.is_earlier
            else found
        )


def snapshot_of(
    version: VersionReader, table: SelectedTable, context: Mapping[str, Any] | None
) -> Snapshot:
    """Return the version that a statement reads of a table."""
    if not table.is_versioned:
        return version.snapshot
    storage = version.storage
    if table.timestamp is None:
        return open_as_of(storage, table.version, tag=table.tag)
    return version_at(storage, instant_us(table.timestamp, parse_context(context).zone))


def bind_select(
    statement: SelectStatement,
    version_of: _VersionOf,
    context: Mapping[str, Any] | None,
    arguments: Arguments | None = None,
    star: Callable[[SelectStatement], BoundSelect] | None = None,
) -> BoundSelect:
    """Return a SELECT bound to the table of its innermost FROM; `star` binds one over several."""
    if star is not None and statement.joins:
        return star(statement)
    if statement.source is None:
        version = version_of(statement.table)
        selected = select_query(statement, version.schema, version.time_column, context, arguments)
        query = bind_asked(version.snapshot, selected.query, version.declared)
        return BoundSelect(version, selected, query)
    inner = replace(statement.source, hints=(*statement.source.hints, *statement.hints))
    source = bind_select(inner, version_of, context, arguments, star)
    selected = select_query(statement, source.schema, source.time_column, context, arguments)
    query = bind_query(source.schema, source.time_column, selected.query)
    if not source.keeps_rows:
        return BoundSelect(source.version, selected, query, source)
    over_table = composed(query, _as_named(source), source.version.properties.schema)
    return BoundSelect(source.version, selected, over_table)


def _as_named(source: BoundSelect) -> QuerySpec:
    """Return the question of a SELECT that keeps rows, its columns as the statement has them."""
    by_name = {named.name: named for named in source.query.columns}
    columns = zip(source.selected.columns, source.selected.names, strict=True)
    return replace(
        source.query, columns=tuple(replace(by_name[own], name=name) for own, name in columns)
    )


def described(version: VersionReader | None, text: str, explained: _Explained) -> pa.Table:
    """Return the answer of EXPLAIN (by `explained`), or of DESCRIBE and SHOW of a version."""
    asked = explained_select(text)
    if asked is not None and is_select(asked.select):
        return pa.table({"plan": [str(explained(asked.select, asked.is_analyzed))]})
    found = _STATEMENT.fullmatch(without_comments(text))
    verb, rest = (found["verb"].upper(), found["rest"]) if found else ("", "")
    if version is not None and verb in ("DESCRIBE", "DESC") and _DESCRIBE.fullmatch(rest):
        return _columns(version)
    shown = _show_match(rest) if verb == "SHOW" else None
    if version is None or shown is None:
        raise bad_sql(
            f"'{text.strip()}' is no statement that projseg knows; write EXPLAIN [ANALYZE] SELECT "
            "..., DESCRIBE t, SHOW PROJECTIONS, SHOW COLUMNS or SHOW SEGMENTS. Catalog."
            "tables() lists tables, and Table.history() versions"
        )
    what = shown["what"].lower()
    if what == "columns":
        return pa.table({"col_name": pa.array(version.schema.names, pa.string())})
    return METADATA_TABLES[what].rows(version.snapshot)


def _show_match(rest: str) -> re.Match[str] | None:
    """Return what SHOW lists, columns or a metadata table, and the table if it is named."""
    whats = "|".join(["COLUMNS", *map(str.upper, offered_by("SHOW"))])
    of_table = rf"(?:\s+(?:FROM|IN|ON)\s+(?P<table>{NAME}))?"
    return re.fullmatch(rf"(?P<what>{whats}){of_table}\s*;?\s*", rest, re.IGNORECASE)


def described_table(text: str) -> tuple[str, ...] | None:
    """Return the name after DESCRIBE or SHOW, empty if it has none; None for another statement."""
    found = _STATEMENT.fullmatch(without_comments(text))
    rest = found["rest"] if found else ""
    named = _DESCRIBE.fullmatch(rest) if found and found["verb"].upper() != "SHOW" else None
    named = named or _show_match(rest)
    return None if named is None else name_parts(named["table"] or "")


def tables_in(text: str, args: ArgumentsLike | None = None) -> list[tuple[str, ...]]:
    """Return the names of the tables in a statement, each in parts; none if it cannot be read."""
    asked = explained_select(text)
    try:
        if asked is None and is_described(text):
            name = described_table(text)
            return [name] if name else []
        select = text if asked is None else asked.select
        asked_for, _ = parse_asked(select, args, with_joins=True)
    except ProjsegError:
        return []
    names = []
    statement: SelectStatement | None = asked_for
    while statement is not None:
        tables = [one.table for one in statement.joins]
        if statement.source is None:
            tables.insert(0, statement.table)
        names += [one.parts for one in tables if one.parts]
        statement = statement.source
    return names


def table_named(name: str, tables: Mapping[str, VersionReader]) -> VersionReader:
    """Return the table that a statement names; the only one if it names none."""
    by_name = {one.casefold(): table for one, table in tables.items()}
    if not name and len(by_name) == 1:
        return next(iter(by_name.values()))
    if not name:
        raise bad_sql("the statement names none of several tables; write FROM and one of them")
    found = by_name.get(name.casefold())
    if found is None:
        raise unknown_table(name, tables)
    return found


def unknown_table(name: str, tables: Iterable[str]) -> InvalidInputError:
    """Return the error of a name that no table is given by."""
    known = ", ".join(list(tables)[:20]) or "none"
    return bad_sql(
        f"'{name}' is none of the tables given{did_you_mean(name, tables)}; they are {known}"
    )


def _columns(version: VersionReader) -> pa.Table:
    """Return a row for each column, with the names of Spark's DESCRIBE."""
    fields = list(version.schema)
    return pa.table(
        {
            "col_name": pa.array([field.name for field in fields], pa.string()),
            "data_type": pa.array([type_name(field.type) for field in fields], pa.string()),
            "comment": pa.nulls(len(fields), pa.string()),
        }
    )
