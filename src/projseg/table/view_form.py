"""What a view is defined by: a SELECT, dimensions with metrics, or CarbonData's `derived`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from projseg.algebra.expressions.joined_values import path_of
from projseg.errors import CorruptionError, listed
from projseg.reader.dimensions import TableDimension
from projseg.table.star_statements import bound_statement
from projseg.table.version_reader import VersionReader
from projseg.views.definitions.definition import Definition, define, define_star
from projseg.views.definitions.rollup_definition import define_rollup, derived_form
from projseg.views.definitions.view_checks import bad_view, checked_statement


class ViewForm(NamedTuple):
    """What a view is defined by, in one of the three ways."""

    sql: str | None = None
    tables: Mapping[str, VersionReader] | None = None
    dimensions: Sequence[str] | None = None
    metrics: Sequence[str | Mapping[str, Any]] = ()
    granularity: str | None = None
    derived: str | Mapping[str, Any] | Sequence[str] | None = None

    def definition(self, fact: VersionReader, *, may_be_damaged: bool = False) -> Definition:
        """Return what it means over a table; the store of its views may be damaged."""
        if self.sql is not None:
            names = self.tables or {}
            _check_reads_no_view(fact, self.sql, names, may_be_damaged=may_be_damaged)
        self._check_one_form()
        if self.sql is not None and self.tables is not None:
            return star_definition(fact, self.sql, self.tables)
        if self.sql is not None:
            return define(self.sql, fact.properties)
        if self.tables is not None:
            raise bad_view("tables are joined by sql; dimensions and metrics are of one table")
        if self.derived is not None:
            form = derived_form(self.derived, fact.properties)
            return define_rollup(**form, properties=fact.properties)
        return define_rollup(self.dimensions or (), self.metrics, self.granularity, fact.properties)

    def _check_one_form(self) -> None:
        given = {"sql": self.sql, "dimensions": self.dimensions, "derived": self.derived}
        said = [key for key, value in given.items() if value is not None]
        has_metrics = bool(self.metrics) or self.granularity is not None
        if len(said) != 1 or ("sql" in said and has_metrics):
            raise bad_view(
                "a view is defined by sql, or by dimensions with metrics and granularity, or by "
                f"derived; {' and '.join(said) or 'none of them'} given"
            )


def options_of(
    refresh: str,
    chunk: str | None,
    retain: str | None,
    interval: str | None,
    cluster_by: Sequence[str],
    properties: Mapping[str, str] | None,
) -> dict[str, str | None]:
    """Return what is said of a view besides what defines it, as its store keeps it."""
    if not isinstance(properties, Mapping | None):
        raise bad_view(f"properties is {properties!r:.80}; give a dict of texts")
    names = [cluster_by] if isinstance(cluster_by, str) else listed("cluster_by", cluster_by)
    order = json.dumps(list(map(str, names))) if names else None
    options = {"refresh": refresh, "chunk": chunk, "retain": retain, "interval": interval}
    return {**options, "cluster_by": order, **(properties or {})}


def _check_reads_no_view(
    fact: VersionReader, sql: str, tables: Mapping[str, VersionReader], *, may_be_damaged: bool
) -> None:
    """Refuse a SELECT over a view of the table, whose rows are groups and not rows."""
    try:
        store = fact.view_store()
        views = () if store is None else tuple(store.views.values())
    except CorruptionError:
        if not may_be_damaged:
            raise
        views = ()
    statement = checked_statement(sql, with_joins=True)
    own = {fact.location.rstrip("/").rpartition("/")[2], *tables}
    known = {one.name.casefold() for one in views} - {*map(str.casefold, own)}
    for one in (statement.table, *(join.table for join in statement.joins)):
        if one.written.casefold() in known:
            raise bad_view(
                f"FROM names view '{one.written}', and no view reads another: group the rows "
                "of the table"
            )


def star_definition(
    fact: VersionReader, sql: str, tables: Mapping[str, VersionReader]
) -> Definition:
    """Return what a SELECT that joins a table with others means."""
    statement = checked_statement(sql, with_joins=True)
    if not statement.joins:
        return define(sql, fact.properties)
    if any(one.table.is_versioned for one in statement.joins):
        raise bad_view("a view follows the newest versions of its tables: leave VERSION out")
    bound = bound_statement(statement, tables, fact, None, None, fact)
    if bound.version.location != fact.location:
        raise bad_view(
            f"{bound.version.location} is the table whose rows are grouped here: make the view "
            "there, and name this table in tables"
        )
    selected = (statement.table, *(one.table for one in statement.joins))
    written = {one.written.casefold(): one.written for one in selected}
    given = {name.casefold(): table.snapshot for name, table in tables.items()}
    named = {
        name: TableDimension(given.get(folded, fact.snapshot)) for folded, name in written.items()
    }
    joined = {path_of(node).dimension for node in bound.query.joins}
    own = fact.properties.table_id
    used = {n: one for n, one in named.items() if one in joined or one.table_id != own}
    return define_star(sql, bound.query, used, fact.snapshot)
