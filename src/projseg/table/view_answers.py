"""Versions of a table whose answers may come from its views, and be as old as `maxStaleness`.

An old answer is of a view as of its last refresh, with all tables as of then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace as replace_fields
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pyarrow as pa
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.request import Query
from projseg.errors import (
    CorruptionError,
    InvalidInputError,
    ProjectionNotUsableError,
    ProjsegError,
    StorageError,
)
from projseg.memory.forks import late_import
from projseg.reader.answer import answer_without_views, segments_instead
from projseg.reader.plan.query_plan import QueryPlan, plan_asked, plan_query
from projseg.table.inspection import TableInspection
from projseg.table_layer.metadata.index_declaration import find_index
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.locate_storage import Storage

if TYPE_CHECKING:
    from projseg.maintenance.findings import Finding
    from projseg.table.sql_statements import BoundSelect
    from projseg.views.choose_view import ViewSources
    from projseg.views.view_store import StoreVersion


# A process that asks tables without views starts without the modules of views.


@contextmanager
def telling_why_no_view(tables: Iterable[Snapshot]) -> Iterator[None]:
    """Add the reason against each view of some tables to the error of joins that are no star."""
    try:
        yield
    except ProjsegError as error:
        # Imported here: statements that can be answered need it not.
        with late_import:
            from projseg.views.choose_view import reasons_of_views

        found = reasons_of_views(tables, error)
        if not found:
            raise
        shown = "; ".join(f"not view {name}: {why}" for name, why in found.items())
        raise type(error)(error.code, f"{error.message}; {shown}") from error


class ViewedVersion(TableInspection):
    """A table at one version, and its views at theirs.

    Parameters
    ----------
    storage : Storage
        Where the table is.
    snapshot : Snapshot
        The version.
    """

    def __init__(self, storage: Storage, snapshot: Snapshot) -> None:
        super().__init__(storage, snapshot)
        self._store: StoreVersion | UnsetType | None = UNSET

    @property
    def _may_be_older(self) -> bool:
        """Whether nobody chose the version, so that `maxStaleness` may choose an earlier one."""
        return False

    @property
    def _has_views(self) -> bool:
        return self._snapshot.properties.has_views

    def views(self) -> pa.Table:
        """Return one row for each view of the table, as this object knows them.

        Returns
        -------
        pa.Table
            name, grade, status (`ENABLED`, `DISABLED`), state (`empty`, `fresh`, `behind`,
            `failed`, `broken`), segments (that this version lists), segments_covered,
            rows_covered (the share of its rows), parts, rows (groups), bytes, chunk, refresh,
            refreshed_at, version (of the table, at the last refresh), last_refresh, last_error,
            comment, definition. A view that cannot be read has its error in `last_error`.

        Raises
        ------
        StorageError, CorruptTableError
            If the store of views cannot be read.
        """
        with late_import:
            from projseg.views.view_tables import views_table

        return views_table(self._snapshot, self._view_store())

    def _findings_of_views(self, *, deep: bool) -> list[Finding]:
        if not self._has_views:
            return []
        with late_import:
            from projseg.maintenance.findings import Finding
            from projseg.views.verify_views import verify_views

        try:
            store = self._view_store()
        except (CorruptionError, StorageError) as error:
            return [Finding("views", str(error))]
        return [] if store is None else verify_views(self._snapshot, store, deep=deep)

    def _view_store(self) -> StoreVersion | None:
        """Return the store of views at the version that this object holds; None: there is none."""
        if not self._has_views:
            return None
        if self._store is UNSET or self._store is None:
            with late_import:
                from projseg.views.view_store import open_store

            self._store = open_store(self._snapshot)
        return self._store

    def _view_sources(self) -> ViewSources | None:
        """Return the table's views, as sources of answers."""
        if not self._has_views:
            return None
        with late_import:
            from projseg.views.choose_view import readable_sources

        return readable_sources(self._view_store)

    def _plan(self, query: Query) -> QueryPlan:
        if query.joins:
            # Imported here, so that a process that joins nothing starts without it.
            with late_import:
                from projseg.reader.dimensions import bound_star

            joined = [join._source for join in query.joins if join._source is not None]
            with telling_why_no_view([self._snapshot, *joined]):
                bound = bound_star(self._snapshot, query, self._declared)
            return self._planned(bound)
        plan = plan_asked(self._snapshot, query, self._declared, self._view_sources())
        return self._of_known_names(plan)

    def _at(self, snapshot: Snapshot) -> ViewedVersion:
        """Return another version of this table, with the columns that are declared."""
        version = ViewedVersion(self._storage, snapshot)
        version._columns_of = self._columns_of
        return version

    def _planned(self, query: QuerySpec) -> QueryPlan:
        """Return the plan of a query that is bound to the version's columns."""
        return self._of_known_names(plan_query(self._snapshot, query, wider=self._view_sources()))

    def _of_known_names(self, plan: QueryPlan) -> QueryPlan:
        """Refuse to exclude what is not there; a setting of a Spark session is for many tables."""
        context = plan.query.context
        for name in context.exclude_indexes:
            find_index(self._snapshot.properties.declared_indexes, name)
        if context.exclude_views and not self._has_views:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_VIEW",
                f"excludeViews names {', '.join(sorted(context.exclude_views))}, and the table "
                "has no views; leave it out",
            )
        return plan

    def _answered(self, plan: QueryPlan) -> pa.Table:
        """Return a plan's rows; where a part cannot be read, those of the segments themselves."""
        instead = partial(segments_instead, self._snapshot, plan)
        return answer_without_views(self._storage, plan, instead)


_Asked = TypeVar("_Asked")
Versions: TypeAlias = Sequence[ViewedVersion]


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
    # Imported here, so that a process that asks tables without views starts without it.
    from projseg.views.nominated_views import earlier_states

    store = fact._view_store()
    if store is None:
        return
    snapshots = {one.snapshot.properties.table_id: one.snapshot for one in tables}
    for view, state in earlier_states(store, fact.snapshot, snapshots, seconds):
        if view.is_result:
            continue
        found = tuple(one._at(state[one.snapshot.properties.table_id]) for one in tables)
        for older, table in zip(found, tables, strict=True):
            if table is fact:
                older._store = store
        yield view.name, found


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


class AgedVersion(ViewedVersion):
    """A table at one version, whose queries may be answered as of an earlier one."""

    def _as_old_as(self, query: Query) -> tuple[ViewedVersion, Query]:
        """Return the version of which a query is asked, and what: an earlier one if it may be."""
        seconds = query.query_context.max_staleness
        tables = [self, *(join.table for join in query.joins)]
        if seconds is None or not all(isinstance(table, ViewedVersion) for table in tables):
            return self, query

        def at(name: str, versions: Versions) -> tuple[tuple[ViewedVersion, Query], QueryPlan]:
            older, *dimensions = versions
            pairs = zip(query.joins, dimensions, strict=True)
            joins = tuple(replace_fields(join, table=table) for join, table in pairs)
            context = {**dict(query.context or {}), "useView": name}
            asked = replace_fields(query, joins=joins, context=context)
            return (older, asked), older._plan(asked)

        found = earlier_answer(self, tables, seconds, lambda: self._plan(query), at)
        return (self, query) if found is None else found


def earlier_select(
    bound: BoundSelect,
    versions: Versions,
    seconds: float,
    bound_at: Callable[[str, Versions], BoundSelect],
) -> BoundSelect:
    """Return a SELECT over several tables, bound to them or to one earlier state of all."""

    def at(name: str, versions: Versions) -> tuple[BoundSelect, QueryPlan]:
        earlier = bound_at(name, versions)
        return replace(earlier, is_earlier=True), earlier.version._planned(earlier.query)

    present = partial(bound.version._planned, bound.query)
    found = earlier_answer(bound.version, versions, seconds, present, at)
    return bound if found is None else found
