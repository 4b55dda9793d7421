"""Answers that may be old: from a view as of its last refresh, with all tables as of then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace as replace_fields
from typing import TypeVar

from projseg.algebra.query.request import Query
from projseg.errors import ProjectionNotUsableError, ProjsegError
from projseg.reader.plan.query_plan import QueryPlan
from projseg.table.view_answers import ViewedVersion
from projseg.views.choice.earlier_states import earlier_states

_Asked = TypeVar("_Asked")
Versions = Sequence[ViewedVersion]


def earlier_versions(fact: ViewedVersion, tables: Versions, seconds: float) -> Iterator[
    tuple[str, tuple[ViewedVersion, ...]]
]:  # fmt: skip
    """Yield views of a table with the versions of tables at which each was refreshed.

    Parameters
    ----------
    fact : ViewedVersion
        The table that has the views; one of `tables`.
    tables : sequence of ViewedVersion
        All tables of a statement, at versions that nobody chose.
    seconds : float
        As of `earlier_states`.
    """
    store = fact._view_store()
    if store is None:
        return
    snapshots = {one.snapshot.properties.table_id: one.snapshot for one in tables}
    for view, state in earlier_states(store, fact.snapshot, snapshots, seconds):
        found = []
        for table in tables:
            older = ViewedVersion(table._storage, state[table.snapshot.properties.table_id])
            older._columns_of = table._columns_of
            if table is fact:
                older._store = store
            found.append(older)
        yield view.name, tuple(found)


def earlier_answer(
    fact: ViewedVersion,
    tables: Versions,
    seconds: float,
    present: Callable[[], QueryPlan],
    at: Callable[[str, Versions], tuple[_Asked, QueryPlan]],
) -> _Asked | None:
    """Return what is asked instead of a statement, of one earlier state; None: the present one.

    Parameters
    ----------
    fact, tables, seconds
        As of `earlier_versions`.
    present : callable
        Plans the statement over the present versions.
    at : callable
        Binds the statement to a view's name and its versions, and plans it.

    Raises
    ------
    ProjsegError
        Of the statement over the present versions, unless it only lacks a view.
    """
    if not fact._has_views or not all(table._may_be_older for table in tables):
        return None
    try:
        if is_whole(present()):
            return None
    except ProjectionNotUsableError:
        pass
    for name, versions in earlier_versions(fact, tables, seconds):
        try:
            asked, plan = at(name, versions)
        except ProjsegError:  # a column that was added since, a view that does not answer
            continue
        if plan.is_wide:
            return asked
    return None


def is_whole(plan: QueryPlan) -> bool:
    """Whether a view answers, without a segment."""
    return plan.is_wide and all(one.entry.file.startswith("views/") for one in plan.segments)


def earlier_query(
    version: ViewedVersion, query: Query, seconds: float
) -> tuple[ViewedVersion, Query]:
    """Return a version of a table and a query of it, which may be an earlier one; see above."""

    def at(name: str, versions: Versions) -> tuple[tuple[ViewedVersion, Query], QueryPlan]:
        older, *dimensions = versions
        pairs = zip(query.joins, dimensions, strict=True)
        joins = tuple(replace_fields(join, table=table) for join, table in pairs)
        context = {**dict(query.context or {}), "useView": name}
        asked = replace_fields(query, joins=joins, context=context)
        return (older, asked), older._plan(asked)

    tables = [version, *(join.table for join in query.joins)]
    if not all(isinstance(table, ViewedVersion) for table in tables):
        return version, query
    found = earlier_answer(version, tables, seconds, lambda: version._plan(query), at)
    return (version, query) if found is None else found
