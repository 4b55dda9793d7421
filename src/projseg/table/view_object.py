"""`View`: one view of a table, and what can be done with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from projseg.errors import CorruptionError
from projseg.table.segment_edits import OnProgress, interval_of
from projseg.table.table_state import TableState
from projseg.table.table_version import TableVersion, readers_by_name, table_at
from projseg.table.version_reader import VersionReader
from projseg.table.view_form import star_definition
from projseg.views.damaged_store import mended_store
from projseg.views.definitions.definition import Definition, clustered, text_problem
from projseg.views.definitions.view_checks import (
    bad_view,
    check_result_options,
    needs_spark,
    read_options,
)
from projseg.views.refresh_view import check_enabled, refresh_view
from projseg.views.refresh_work import Refresh, Work
from projseg.views.verify_views import verify_views
from projseg.views.view_commits import edited, store_write
from projseg.views.view_dimensions import newest_dimensions
from projseg.views.view_life import NewView, alter_view, create_view, drop_view
from projseg.views.view_records import FACT, ViewEntry
from projseg.views.view_store import StoreVersion, unknown_view
from projseg.views.view_tables import parts_table, view_detail

if TYPE_CHECKING:
    from projseg.algebra.query.request import IntervalLike
    from projseg.maintenance.findings import Finding
    from projseg.views.definitions.result_definition import RunSelect


class UnreadEntry(NamedTuple):
    """What is known of a view in a store that cannot be read; only a drop needs no more."""

    name: str
    view_id: str = ""


class StoredView:
    """A view in the store that a table's state reads, to be changed."""

    def __init__(self, state: TableState, view: ViewEntry | UnreadEntry) -> None:
        self.state, self.view_id, self.known_name = state, view.view_id, view.name

    @classmethod
    def named(cls, state: TableState, name: str) -> StoredView:
        """Return the view of a name; of a damaged store, whatever is asked for."""
        try:
            store = state.reader.view_store()
            if store is None:
                raise unknown_view(name, (), state.storage.location)
            return cls(state, store.view(name))
        except CorruptionError:
            return cls(state, UnreadEntry(name))

    def store(self) -> StoreVersion:
        """Return the store of views, which has this one."""
        store = self.state.reader.view_store()
        if store is None or self.view_id not in store.views:
            raise unknown_view(self.known_name, (), self.state.storage.location)
        return store

    def entry(self) -> ViewEntry:
        """Return the view as the store lists it."""
        return self.store().views[self.view_id]

    def writable(self) -> TableState:
        """Return the table's state at its newest version, which may be written to."""
        self.state.check_newest()
        self.state.refresh()
        return self.state

    def refresh(self, work: Work, *, dry_run: bool) -> Refresh:
        """Do what `View.refresh` says; the work may have what runs a SELECT of Spark."""
        state, entry = self.writable(), self.entry()
        check_enabled(entry)
        store, done = refresh_view(state.snapshot, entry.view_id, work, state.note, dry_run=dry_run)
        state.keep_store(store)
        return done


class View:
    """A view of a table; it moves on with the table object that it is of.

    Parameters
    ----------
    stored : StoredView
        The view as the table's store has it.
    """

    def __init__(self, stored: StoredView) -> None:
        self._stored = stored

    def __repr__(self) -> str:
        return f"<View '{self._stored.known_name}' of {table_at(self._stored.state.reader)!r}>"

    @property
    def name(self) -> str:
        """What it is called."""
        return self._stored.entry().name

    @property
    def sql(self) -> str:
        """Its SELECT, as it was written."""
        return self._stored.entry().sql

    def refresh(
        self,
        full: bool = False,
        interval: IntervalLike | None = None,
        dry_run: bool = False,
        *,
        on_progress: OnProgress | None = None,
    ) -> Refresh:
        """Bring the view up to the newest version of its table, in one commit.

        Parameters
        ----------
        full : bool
            Build all parts anew.
        interval : str, pair of datetimes or None
            Fold only segments with rows in it; parts are dropped or kept for all times.
        dry_run : bool
            Only say what would be done.
        on_progress : callable or None
            Called with how many chunks are done and how many there are.

        Returns
        -------
        Refresh
            kept, relabelled, subtracted, refolded, added, dropped (parts), rows_read,
            milliseconds, version (of the store; None if nothing was written), not_built.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_VIEW, PROJSEG_BAD_VIEW if it is disabled, PROJSEG_VIEW_BROKEN,
            PROJSEG_VIEW_NOT_INCREMENTAL, PROJSEG_PINNED_VERSION.
        UnsupportedFeatureError
            PROJSEG_VIEW_NEEDS_SPARK of a stored result whose tables have changed.
        CommitError, StorageError, CorruptionError
            As of `Table.append`; the view stays as it was.
        """
        bounds = None if interval is None else interval_of(interval)
        return self._stored.refresh(Work(full, bounds, on_progress), dry_run=dry_run)

    def explain_refresh(self) -> Refresh:
        """Return what a refresh would do; `refresh` with `dry_run`.

        Returns
        -------
        Refresh
            As of `refresh`; rows_read are those that would be read.
        """
        return self.refresh(dry_run=True)

    def compact(self) -> Refresh:
        """Build all parts anew, as large as they may be; `refresh` with `full`.

        Returns
        -------
        Refresh
            As of `refresh`.
        """
        return self.refresh(full=True)

    def enable(self) -> None:
        """Let the view answer and be refreshed again, which it is at once.

        Raises
        ------
        InvalidInputError, CommitError, StorageError
            As of `refresh`.
        """
        state = self._stored.writable()
        store = alter_view(self._stored.store(), self._stored.view_id, state.note, is_enabled=True)
        state.keep_store(store)
        state.refresh_views()

    def disable(self) -> None:
        """Keep the view, and neither use nor refresh it.

        Raises
        ------
        InvalidInputError, CommitError, StorageError
            As of `refresh`.
        """
        state = self._stored.writable()
        store = alter_view(self._stored.store(), self._stored.view_id, state.note, is_enabled=False)
        state.keep_store(store)

    def rename(self, name: str) -> None:
        """Call the view by another name; its parts stay.

        Parameters
        ----------
        name : str
            The new name.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_NAME, PROJSEG_VIEW_EXISTS.
        CommitError, StorageError
            As of `refresh`.
        """
        state = self._stored.writable()
        state.keep_store(
            alter_view(self._stored.store(), self._stored.view_id, state.note, name=name)
        )
        self._stored.known_name = name

    def set_properties(
        self, properties: Mapping[str, str] | None = None, *, unset: Sequence[str] = ()
    ) -> None:
        """Change what is said of the view besides its SELECT; its parts stay.

        Parameters
        ----------
        properties : mapping of str to str, or None
            `refresh`, `chunk`, `retain` and `require`, as of `Table.create_view`.
        unset : sequence of str
            `retain` or `require`, which are no longer said.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_VIEW, or what is wrong with a value.
        CommitError, StorageError
            As of `refresh`.
        """
        state = self._stored.writable()
        given = {str(key): value for key, value in (properties or {}).items()}
        fixed = [key for key in (*given, *unset) if key in ("interval", "cluster_by")]
        needed = [key for key in unset if key not in ("retain", "require")]
        if fixed or needed:
            raise bad_view(
                f"{', '.join([*fixed, *needed])} cannot be {'changed' if fixed else 'unset'}; "
                "replace the view"
            )
        read_options(given)
        if self._stored.entry().is_result:
            check_result_options(read_options(given))

        def change(view: ViewEntry) -> ViewEntry:
            kept = {key: text for key, text in view.options.items() if key not in unset}
            return replace(view, options={**kept, **read_options(given)})

        with store_write(self._stored.store()) as write:
            state.keep_store(
                write.commit(edited(self._stored.view_id, change), "alter view", state.note)
            )

    def drop(self) -> None:
        """Drop the view; a vacuum of the table removes its files.

        If the store of views is damaged, what cannot be read of it is dropped as well.

        Raises
        ------
        InvalidInputError, CommitError, StorageError
            As of `refresh`.
        """
        state = self._stored.writable()
        try:
            store, view_id = self._stored.store(), self._stored.view_id
        except CorruptionError:
            mended = mended_store(state.snapshot, state.note)
            views = {} if mended is None else mended.views
            named = (one.view_id for one in views.values() if one.name == self._stored.known_name)
            view_id = next(named, "")
            if mended is None or not view_id:
                state.keep_store(mended)  # the view went with what could not be read
                return
            store = mended
        state.keep_store(drop_view(state.snapshot, store, view_id, state.note))

    def query(self, context: Mapping[str, Any] | None = None) -> pa.Table:
        """Return the rows of its SELECT now, from its parts as far as they go.

        Parameters
        ----------
        context : mapping or None
            As of `Table.query`.

        Returns
        -------
        pa.Table
            As of `Table.sql`.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_VIEW if an older release read its SELECT otherwise; and as of `Table.sql`.
        """
        fact, view = self._stored.state.current(), self._stored.entry()
        if view.is_result:
            raise needs_spark(f"query of view '{view.name}'")
        tables = self._dimensions(view)
        readers = readers_by_name(tables)
        if problem := text_problem(view, lambda sql: star_definition(fact, sql, readers)):
            raise bad_view(f"view '{view.name}': {problem}")
        return table_at(fact).sql(view.sql, tables=tables or None, context=context)

    def _dimensions(self, view: ViewEntry) -> dict[str, TableVersion]:
        newest = newest_dimensions(self._stored.state.snapshot, view)
        return {
            one.alias: table_at(VersionReader(found))
            for one in view.dimensions
            for found in [newest[one.table_id].snapshot]
            if one.location != FACT
        }

    def detail(self) -> dict[str, Any]:
        """Return all that is known of it.

        Returns
        -------
        dict
            The columns of `Table.views`, and view_id, definition_hash, group_by, aggregators (what
            is stored), options, scope, zone, is_ansi, uncovered_segments and uncovered_rows (at the
            last refresh), not_built, store_version.
        """
        return view_detail(self._stored.state.snapshot, self._stored.store(), self._stored.entry())

    def parts(self) -> pa.Table:
        """Return one row for each part.

        Returns
        -------
        pa.Table
            part, chunk (its start), segments, rows_covered, groups, bytes, file, is_valid (for this
            version of the table), dimensions.
        """
        return parts_table(self._stored.state.snapshot, self._stored.store(), self._stored.entry())

    def verify(self, deep: bool = False) -> list[Finding]:
        """Check the view's files and covers; deeply also its groups against its segments.

        Parameters
        ----------
        deep : bool
            Fold the segments of each valid part again, and compare.

        Returns
        -------
        list of Finding
            One for each fault found; empty if there is none.
        """
        return verify_views(
            self._stored.state.snapshot, self._stored.store(), self._stored.entry(), deep=deep
        )


def new_view(
    state: TableState,
    name: str | None,
    definition: Definition,
    options: Mapping[str, Any],
    *,
    comment: str | None = None,
    replace: bool = False,
    build: bool = True,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
    run_select: RunSelect | None = None,
) -> View | Refresh:
    """Make a view of a definition; the arguments are those of `create_view` and `Work`."""
    if (order := options.get("cluster_by")) and definition.grade == "grouped":
        definition = clustered(definition, json.loads(order), state.properties)
    if name is None:
        folder = state.storage.location.rstrip("/").rpartition("/")[2]
        name = f"{folder}-{definition.digest[:8]}"
    new = NewView(name, definition, options, comment or "", is_built=build, replaces=replace)
    work = Work(on_progress=on_progress, run_select=run_select)
    snapshot, store, view, done = create_view(
        state.snapshot, new, state.note, dry_run=dry_run, work=work
    )
    state.move_to(snapshot)
    if view is None:
        return done
    state.keep_store(store)
    return View(StoredView(state, view))
