"""`StoredView`: a view as the store of its table has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from projseg.errors import CorruptionError
from projseg.table.questions import statement_answer
from projseg.table.table_state import TableState
from projseg.table.version_reader import VersionReader
from projseg.table.view_form import star_definition
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.damaged_store import mended_store
from projseg.views.definitions.definition import text_problem
from projseg.views.definitions.view_checks import (
    bad_view,
    check_result_options,
    needs_spark,
    read_options,
)
from projseg.views.refresh_view import check_enabled, refresh_view
from projseg.views.refresh_work import Refresh, Work
from projseg.views.view_commits import edited, store_write
from projseg.views.view_dimensions import newest_dimensions
from projseg.views.view_life import alter_view, drop_view
from projseg.views.view_records import FACT, ViewEntry
from projseg.views.view_store import StoreVersion, unknown_view


class UnreadEntry(NamedTuple):
    """The name, and perhaps id, of a view in a store that cannot be read, enough to drop it."""

    name: str
    view_id: str = ""


class StoredView:
    """A view in the store that a table's state reads, to be asked and changed."""

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

    def alter(self, *, is_enabled: bool | None = None, name: str | None = None) -> None:
        """Enable or disable the view, or give it another name."""
        state = self.writable()
        state.keep_store(
            alter_view(self.store(), self.view_id, state.note, is_enabled=is_enabled, name=name)
        )
        self.known_name = name or self.known_name

    def set_options(self, properties: Mapping[str, str], unset: Sequence[str]) -> None:
        """Change what is said of the view besides its SELECT."""
        state = self.writable()
        given = {str(key): value for key, value in properties.items()}
        fixed = [key for key in (*given, *unset) if key in ("interval", "cluster_by")]
        needed = [key for key in unset if key not in ("retain", "require")]
        if fixed or needed:
            raise bad_view(
                f"{', '.join([*fixed, *needed])} cannot be {'changed' if fixed else 'unset'}; "
                "replace the view"
            )
        read_options(given)
        if self.entry().is_result:
            check_result_options(read_options(given))

        def change(view: ViewEntry) -> ViewEntry:
            kept = {key: text for key, text in view.options.items() if key not in unset}
            return replace(view, options={**kept, **read_options(given)})

        with store_write(self.store()) as write:
            state.keep_store(write.commit(edited(self.view_id, change), "alter view", state.note))

    def drop(self) -> None:
        """Drop the view, and what cannot be read of a damaged store."""
        state = self.writable()
        try:
            store, view_id = self.store(), self.view_id
        except CorruptionError:
            mended = mended_store(state.snapshot, state.note)
            views = {} if mended is None else mended.views
            named = (one.view_id for one in views.values() if one.name == self.known_name)
            view_id = next(named, "")
            if mended is None or not view_id:
                state.keep_store(mended)  # the view went with what could not be read
                return
            store = mended
        state.keep_store(drop_view(state.snapshot, store, view_id, state.note))

    def rows(self, context: Mapping[str, Any] | None) -> pa.Table:
        """Return the rows of its SELECT now."""
        fact, view = self.state.current(), self.entry()
        if view.is_result:
            raise needs_spark(f"query of view '{view.name}'")
        tables = self._dimensions(view)
        if problem := text_problem(view, lambda sql: star_definition(fact, sql, tables)):
            raise bad_view(f"view '{view.name}': {problem}")
        answer = statement_answer(fact, view.sql, context, None, tables or None, explain=False)
        assert isinstance(answer, pa.Table), "an explanation was not asked for"
        return answer

    def contents(self) -> tuple[Snapshot, StoreVersion, ViewEntry]:
        """Return the table's version, its store of views and the view in it."""
        return self.state.snapshot, self.store(), self.entry()

    def _dimensions(self, view: ViewEntry) -> dict[str, VersionReader]:
        newest = newest_dimensions(self.state.snapshot, view)
        return {
            one.alias: VersionReader(newest[one.table_id].snapshot)
            for one in view.dimensions
            if one.location != FACT
        }
