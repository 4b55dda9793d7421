"""Stored results: the refresh of one, by Spark that runs its SELECT anew, and which may answer.

Spark compares the SELECT itself: here are its tables, its session, and what the query allows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.query.context import QueryContext
from projseg.reader.dimensions import TableDimension
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.checksummed_json import read_sealed, seal
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.storage.local_files import create_unique
from projseg.table_layer.storage.locate_storage import storage_beside
from projseg.table_layer.storage.paths import (
    DATA_PREFIX,
    METADATA_PREFIX,
    new_cover_name,
    result_folder,
)
from projseg.table_layer.storage.storage_contract import Storage
from projseg.views.definitions.result_definition import ResultDefinition, SelectJob, place_of
from projseg.views.definitions.view_checks import bad_view
from projseg.views.nominated_views import earlier_states, listed_views
from projseg.views.refresh_work import Refresh, Work, commit_refresh
from projseg.views.view_commits import StoreWrite, conflict
from projseg.views.view_dimensions import holds_rows_of, newest_dimensions
from projseg.views.view_records import (
    PathState,
    Refreshed,
    RefreshFigures,
    ResultFile,
    StoredResult,
    ViewEntry,
)
from projseg.views.view_store import StoreVersion

_KIND: Final = b'"kind":"view_result"'


class ResultRefresher:
    """One try at a refresh of one view that is kept as the rows of its SELECT.

    Its work has what has Spark run a SELECT.
    """

    def __init__(
        self, snapshot: Snapshot, store: StoreVersion, view: ViewEntry, work: Work
    ) -> None:
        self._start = time.perf_counter()
        self._store, self._view, self._work = store, view, work
        if work.interval is not None:
            raise bad_view(f"view '{view.name}' is a stored result, which has no intervals")
        self._tables = tables_of(snapshot, view)
        for table_id, one in self._tables.items():
            known = view.refreshed.get(table_id)
            if known is not None and known.version > one.version:
                conflict(f"view '{view.name}' is at version {known.version} already")
        self._is_needed = work.is_full or not holds_rows(view, self._tables)

    def planned(self) -> Refresh:
        """Return the figures of a refresh before it runs."""
        return self._refresh_summary()

    def run(self, note: CommitNote) -> tuple[StoreVersion, Refresh]:
        """Run the SELECT if its tables have other rows, and commit."""
        return commit_refresh(self._store, self._view.view_id, self.build, note)

    def build(self, write: StoreWrite) -> tuple[ViewEntry | None, Refresh]:
        """Have Spark write the rows, and return the view as it is to be listed."""
        if not self._is_needed:
            return None, self._refresh_summary()
        view, storage = self._view, write.store.storage
        pinned = {
            table_id: Refreshed(one.version, one.file.write_id, one.timestamp_us)
            for table_id, one in self._tables.items()
        }
        # A vacuum finds the folder by its cover, which therefore comes first.
        cover = new_cover_name()
        file = ResultFile(kind="view_result", name=cover, tables=pinned)
        create_unique(storage, cover, seal(file))
        definition = ResultDefinition.of(view)
        job = SelectJob(
            definition.select,
            {one.alias: place_of(self._tables[one.table_id]) for one in view.dimensions},
            definition.session,
            f"{storage.location}/{result_folder(cover)}",
            f"REFRESH MATERIALIZED VIEW {view.name}",
        )
        selected = job.run(self._work.run_select)
        # From here on no task writes any more. They go with the cover, which therefore goes last.
        write.files += [cover, *files_of_result(storage, cover)]
        result = StoredResult(cover, selected.nomination, selected.is_ordered)
        rows = table_of_result(storage, result)
        done = self._refresh_summary()
        figures = {name: getattr(done, name) for name in RefreshFigures.__struct_fields__}
        return replace(
            view,
            refreshed=pinned,
            result=result,
            row_count=rows.row_count,
            byte_count=sum(segment.byte_count for segment in rows.segments),
            last_error=None,
            last_refresh=RefreshFigures(**figures),
        ), done

    def _refresh_summary(self) -> Refresh:
        is_known = self._view.result is not UNSET
        return Refresh(
            kept=int(not self._is_needed),
            refolded=int(self._is_needed and is_known),
            added=int(self._is_needed and not is_known),
            rows_read=sum(one.row_count for one in self._tables.values()) * self._is_needed,
            milliseconds=round((time.perf_counter() - self._start) * 1000),
        )


def tables_of(fact: Snapshot, view: ViewEntry) -> dict[str, Snapshot]:
    """Return the tables of a stored result by their ids. Raises what `newest_dimensions` raises."""
    return {table_id: one.snapshot for table_id, one in newest_dimensions(fact, view).items()}


def _changed_table(view: ViewEntry, tables: Mapping[str, Snapshot]) -> str | None:
    """Return the name of a table whose version has other rows than a result is of; None: none."""
    for one in view.dimensions:
        known, table = view.refreshed.get(one.table_id), tables.get(one.table_id)
        if known is None or table is None:
            return one.alias
        state = PathState(one.table_id, known.version, known.write_id, 0)
        if not holds_rows_of(TableDimension(table), state):
            return one.alias
    return None


def holds_rows(view: ViewEntry, tables: Mapping[str, Snapshot]) -> bool:
    """Whether a result is there, and tables by id have the rows that it was made of."""
    return view.result is not UNSET and _changed_table(view, tables) is None


def table_of_result(store: Storage, result: StoredResult) -> Snapshot:
    """Return the table that holds the rows of a result."""
    return open_snapshot(storage_beside(store, f"{store.location}/{result_folder(result.cover)}"))


def files_of_result(store: Storage, cover: str) -> Iterator[str]:
    """Yield the files of the table that a cover is of, the log first, by their names in the store.

    There is none where the cover is that of a part.
    """
    with suppress(FileNotFoundError):
        if _KIND not in read_sealed(store, cover):
            return
        folder = storage_beside(store, f"{store.location}/{result_folder(cover)}")
        for prefix in (METADATA_PREFIX, DATA_PREFIX):
            for file in folder.list_names(prefix):
                yield f"{result_folder(cover)}/{file.name}"


class AskedSelect(msgspec.Struct, frozen=True):
    """A SELECT that stored results may answer, with its tables by id at the versions it reads.

    `nomination` is the hash of its tables and operators, `session` is as in `ResultDefinition`, and
    the context has what its query says about views.
    """

    nomination: str
    tables: dict[str, Snapshot]
    session: dict[str, str]
    context: QueryContext

    def reason_against(self, view: ViewEntry) -> Reason | None:
        """Return why a result that is nominated must not answer; None if it may."""
        return self._steered(view) or self._outdated(view)

    def _steered(self, view: ViewEntry) -> Reason | None:
        context, name = self.context, view.name.casefold()
        if context.use_view is not None and context.use_view.casefold() != name:
            return Reason(ReasonCode.EXCLUDED, f"useView names '{context.use_view}'")
        if name in map(str.casefold, context.exclude_views):
            return Reason(ReasonCode.EXCLUDED, "excludeViews names it")
        if not view.is_enabled:
            return Reason(ReasonCode.VIEW_DISABLED)
        return None

    def _outdated(self, view: ViewEntry) -> Reason | None:
        session = ResultDefinition.of(view).session
        if session != self.session:
            keys = sorted(dict(session.items() ^ self.session.items()))
            return Reason(ReasonCode.OTHER_SELECT, f"{', '.join(keys)} is another here")
        changed = _changed_table(view, self.tables)
        if changed is None:
            return None
        return Reason(ReasonCode.DIMENSION_CHANGED, self._versions(view, changed))

    def _versions(self, view: ViewEntry, alias: str) -> str:
        table_id = next(one.table_id for one in view.dimensions if one.alias == alias)
        known, table = view.refreshed.get(table_id), self.tables.get(table_id)
        if known is None or table is None:
            return alias
        return f"{alias} (version {table.version}, built at {known.version})"


def nominations(store: StoreVersion) -> Iterator[str]:
    """Yield the hashes of the SELECTs whose rows a store keeps."""
    for view in listed_views(store).views:
        if view.is_enabled and view.result is not UNSET:
            yield view.result.nomination


class Answering(NamedTuple):
    """A stored result that may answer a SELECT: its view, its rows, its tables by id."""

    view: ViewEntry
    result: StoredResult
    tables: Mapping[str, Snapshot]


def answering_results(
    store: StoreVersion, fact: Snapshot, asked: AskedSelect
) -> tuple[list[Answering], dict[str, Reason]]:
    """Return the results that may answer a SELECT, and why others may not."""
    found: list[Answering] = []
    refused: dict[str, Reason] = {}
    named = {
        view.name: view.result
        for view in listed_views(store).views
        if view.result is not UNSET and view.result.nomination == asked.nomination
    }
    if not asked.context.allows_views:
        return [], {name: Reason(ReasonCode.EXCLUDED, "noViews") for name in named}
    for name, result in named.items():
        view = store.view(name)
        reason = asked.reason_against(view)
        if reason is None:
            found.append(Answering(view, result, asked.tables))
        else:
            refused[name] = reason
    seconds = asked.context.max_staleness
    if found or seconds is None:
        return found, refused
    for view, state in earlier_states(store, fact, asked.tables, seconds):
        older = replace(asked, tables=state)
        if view.name in named and older.reason_against(view) is None:
            found.append(Answering(view, named[view.name], state))
    return found, refused
