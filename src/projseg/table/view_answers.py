"""`ViewedVersion`: a version of a table whose answers may come from its views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import UNSET, UnsetType

from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.request import Query
from projseg.errors import CorruptionError, InvalidInputError, ProjsegError, StorageError
from projseg.memory.forks import late_import
from projseg.reader.answer import answer_without_views, segments_instead
from projseg.reader.plan.query_plan import QueryPlan, plan_asked, plan_query
from projseg.table.inspection import TableInspection
from projseg.table.logged_answers import logged_answer, timed
from projseg.table_layer.metadata.index_declaration import find_index
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.storage_contract import Storage

# A process that asks tables without views starts without the modules of views.
if TYPE_CHECKING:
    from projseg.maintenance.findings import Finding
    from projseg.views.choose_view import ViewSources
    from projseg.views.view_store import StoreVersion


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

    @timed
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

    @timed
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
        answer = partial(answer_without_views, self._storage, plan, instead)
        found = logged_answer(self._snapshot, plan, answer)
        return found.replace_schema_metadata({**(found.schema.metadata or {}), **self._mark})

    @property
    def _mark(self) -> dict[str, str]:
        """What the schemas of answers say of themselves."""
        return {"projseg.version": str(self.version)}
