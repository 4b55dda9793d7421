"""`VersionReader`: one version of a table, its plans and its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from msgspec import UNSET, UnsetType

from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.declared_columns import DeclaredColumns
from projseg.algebra.query.request import Query
from projseg.errors import CorruptionError, InvalidInputError, ProjsegError, StorageError
from projseg.memory.forks import cached_property, late_import
from projseg.reader.answer import answer_without_views, segments_instead
from projseg.reader.plan.bind_template import bind_asked
from projseg.reader.plan.query_plan import QueryPlan, plan_asked, plan_query
from projseg.table.logged_answers import logged_answer, timed
from projseg.table_layer.metadata.index_declaration import find_index
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.storage.storage_contract import Storage

# A process that asks tables without views starts without the modules of views.
if TYPE_CHECKING:
    from projseg.maintenance.findings import Finding
    from projseg.views.choose_view import ViewSources
    from projseg.views.view_store import StoreVersion

ColumnsOf: TypeAlias = Callable[[TableProperties], DeclaredColumns]
"""What a definition declares of a table's columns, at whichever version of the table."""


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


class VersionReader:
    """One version of a table with its views, as questions read it.

    `columns_of` returns the columns that a definition declares, in place of the table's own. If it
    may be older, nobody chose the version, so that `maxStaleness` may choose an earlier one. The
    store of views is given where it is open already; `finish` is applied to each plan.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        columns_of: ColumnsOf | None = None,
        *,
        may_be_older: bool = False,
        store: StoreVersion | UnsetType | None = UNSET,
        finish: Callable[[QueryPlan], QueryPlan] | None = None,
    ) -> None:
        self.snapshot, self.columns_of = snapshot, columns_of
        self.may_be_older = may_be_older
        self._store, self._finish = store, finish

    def at(
        self, snapshot: Snapshot, store: StoreVersion | UnsetType | None = UNSET
    ) -> VersionReader:
        """Return a reader of another version of the table, with the columns that are declared."""
        return VersionReader(snapshot, self.columns_of, store=store)

    def moved(
        self, snapshot: Snapshot, *, may_be_older: bool, keeps_store: bool = False
    ) -> VersionReader:
        """Return a reader of a version that nobody chose, or of one that was just written."""
        store = self._store if keeps_store else UNSET
        return VersionReader(snapshot, self.columns_of, may_be_older=may_be_older, store=store)

    def imagined(
        self, snapshot: Snapshot, finish: Callable[[QueryPlan], QueryPlan]
    ) -> VersionReader:
        """Return a reader of the version as if it had other projections and indexes.

        It only plans.
        """
        return VersionReader(snapshot, self.columns_of, store=self._store, finish=finish)

    def with_store(self, store: StoreVersion | UnsetType | None) -> VersionReader:
        """Return a reader of the same version with another store of views."""
        older = self.may_be_older
        return VersionReader(self.snapshot, self.columns_of, may_be_older=older, store=store)

    def declaring(self, columns_of: ColumnsOf) -> VersionReader:
        """Return a reader of the same version with the columns of another definition."""
        older = self.may_be_older
        return VersionReader(self.snapshot, columns_of, may_be_older=older, store=self._store)

    @property
    def storage(self) -> Storage:
        """Where the table is."""
        return self.snapshot.storage

    @property
    def location(self) -> str:
        """The table's location, an absolute path."""
        return self.snapshot.storage.location

    @property
    def properties(self) -> TableProperties:
        """The declarations of the version."""
        return self.snapshot.properties

    @cached_property
    def declared(self) -> DeclaredColumns | None:
        """The columns that a definition declares; None means the table's own."""
        return None if self.columns_of is None else self.columns_of(self.properties)

    @property
    def schema(self) -> pa.Schema:
        """The columns that questions see."""
        declared = self.declared
        return self.properties.schema if declared is None else declared.schema

    @property
    def time_column(self) -> str | None:
        """The name of the time column in queries, if the column is visible."""
        declared, own = self.declared, self.properties.time_column
        return own if declared is None else declared.name_of(own)

    @property
    def has_views(self) -> bool:
        """Whether the table ever had a view."""
        return self.properties.has_views

    @property
    def mark(self) -> dict[str, str]:
        """What the schemas of answers say of themselves."""
        return {"projseg.version": str(self.snapshot.version)}

    def view_store(self) -> StoreVersion | None:
        """Return the store of views at the version that is open; None if there is none."""
        if not self.has_views:
            return None
        if self._store is UNSET or self._store is None:
            with late_import:
                from projseg.views.view_store import open_store

            self._store = open_store(self.snapshot)
        return self._store

    def view_sources(self) -> ViewSources | None:
        """Return the table's views, as sources of answers."""
        if not self.has_views:
            return None
        with late_import:
            from projseg.views.choose_view import readable_sources

        return readable_sources(self.view_store)

    def findings_of_views(self, *, deep: bool) -> list[Finding]:
        """Return what is wrong with the views."""
        if not self.has_views:
            return []
        with late_import:
            from projseg.maintenance.findings import Finding
            from projseg.views.verify_views import verify_views

        try:
            store = self.view_store()
        except (CorruptionError, StorageError) as error:
            return [Finding("views", str(error))]
        return [] if store is None else verify_views(self.snapshot, store, deep=deep)

    def bound(self, query: Query) -> QuerySpec:
        """Return a query without joins, bound to the version's columns."""
        return bind_asked(self.snapshot, query, self.declared)

    @timed
    def plan(self, query: Query) -> QueryPlan:
        """Return the plan of a query."""
        if query.joins:
            # Imported here, so that a process that joins nothing starts without it.
            with late_import:
                from projseg.reader.dimensions import bound_star

            joined = [one.snapshot for one in query.joins if one.snapshot is not None]
            with telling_why_no_view([self.snapshot, *joined]):
                bound = bound_star(self.snapshot, query, self.declared)
            return self.plan_bound(bound)
        plan = plan_asked(self.snapshot, query, self.declared, self.view_sources())
        return self._of_known_names(plan)

    @timed
    def plan_bound(self, query: QuerySpec) -> QueryPlan:
        """Return the plan of a query that is bound to the version's columns."""
        return self._of_known_names(plan_query(self.snapshot, query, wider=self.view_sources()))

    def _of_known_names(self, plan: QueryPlan) -> QueryPlan:
        """Refuse to exclude what is not there; a setting of a Spark session is for many tables."""
        context = plan.query.context
        for name in context.exclude_indexes:
            find_index(self.properties.declared_indexes, name)
        if context.exclude_views and not self.has_views:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_VIEW",
                f"excludeViews names {', '.join(sorted(context.exclude_views))}, and the table "
                "has no views; leave it out",
            )
        return plan if self._finish is None else self._finish(plan)

    def answer(self, plan: QueryPlan) -> pa.Table:
        """Return a plan's rows; where a part cannot be read, those of the segments themselves."""
        instead = partial(segments_instead, self.snapshot, plan)
        answer = partial(answer_without_views, self.storage, plan, instead)
        found = logged_answer(self.snapshot, plan, answer)
        return found.replace_schema_metadata({**(found.schema.metadata or {}), **self.mark})
