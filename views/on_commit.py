"""Refresh the views of a table after a commit to it.

The rows are committed by then, so nothing that goes wrong here is raised: it is logged, and kept in
the view. The next refresh catches up.
"""

from __future__ import annotations

import logging
from typing import Final

from msgspec.structs import replace

from projseg.errors import CommitConflictError, ProjsegError, without_secrets
from projseg.table_layer.metadata.change import NO_NOTE, CommitNote, now_us
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.refresh_view import REASON_CHARACTERS_MAX, Refresher
from projseg.views.refresh_work import Work
from projseg.views.view_commits import edited, store_write
from projseg.views.view_dependencies import linked_views
from projseg.views.view_records import Failure, ViewEntry
from projseg.views.view_store import (
    StoreVersion,
    has_views,
    newest_store,
    open_store,
    store_of,
)
from projseg.views.written_rows import WrittenRows

LOGGER: Final = logging.getLogger("projseg.views")


def refresh_after_commit(
    snapshot: Snapshot, note: CommitNote = NO_NOTE, written: WrittenRows | None = None
) -> StoreVersion | None:
    """Refresh the views of a table that follow its commits; return the store, if it has one.

    So are views of other tables that read it as a dimension. Each view is tried once: another
    writer's refresh that came first has done the work, or will.

    Parameters
    ----------
    snapshot : Snapshot
        The version that was committed.
    note : CommitNote
        For the store's history.
    written : WrittenRows or None
        Rows of the commit that are still in memory.
    """
    for fact, view in linked_views(snapshot):
        if _follows(view):
            _refresh_linked(fact, view, note)
    if not has_views(snapshot):
        return None
    store = None
    try:
        store = open_store(snapshot)
        views = [] if store is None else list(store.views.values())
    except (ProjsegError, OSError) as error:
        _warn(snapshot, "its views", error)
        return None
    for view in views:
        if _follows(view) and store is not None:
            store = _refreshed(snapshot, store, view, note, written)
    return store


def _refresh_linked(fact: Snapshot, view: ViewEntry, note: CommitNote) -> None:
    try:
        store = open_store(fact)
    except (ProjsegError, OSError) as error:
        _warn(fact, "its views", error)
        return
    if store is not None:
        _refreshed(fact, store, view, note)


def _follows(view: ViewEntry) -> bool:
    return view.is_enabled and view.is_on_commit


def _refreshed(
    snapshot: Snapshot,
    store: StoreVersion,
    view: ViewEntry,
    note: CommitNote,
    written: WrittenRows | None = None,
) -> StoreVersion:
    try:
        return Refresher(snapshot, store, view, Work(written=written)).run(note)[0]
    except CommitConflictError:
        return _newest(snapshot, store)
    except (ProjsegError, OSError) as error:
        _warn(snapshot, f"view '{view.name}'", error)
        if isinstance(error, ProjsegError):
            _record(snapshot, view, error, note)
        return _newest(snapshot, store)


def _record(snapshot: Snapshot, view: ViewEntry, error: ProjsegError, note: CommitNote) -> None:
    known = view.last_error
    if known is not None and known.code == error.code:
        return
    try:
        _record_failure(snapshot, view.view_id, error, note)
    except (ProjsegError, OSError) as again:
        _warn(snapshot, f"view '{view.name}'", again)


def _record_failure(
    snapshot: Snapshot, view_id: str, error: ProjsegError, note: CommitNote
) -> None:
    """Keep in a view why its refresh failed."""
    store = newest_store(store_of(snapshot.storage))
    if store is None or view_id not in store.views:
        return
    failure = Failure(error.code, error.message[:REASON_CHARACTERS_MAX], now_us())
    with store_write(store) as write:
        write.commit(
            edited(view_id, lambda view: replace(view, last_error=failure)),
            "refresh failed",
            note,
        )


def _newest(snapshot: Snapshot, store: StoreVersion) -> StoreVersion:
    try:
        return open_store(snapshot) or store
    except (ProjsegError, OSError):
        return store


def _warn(snapshot: Snapshot, what: str, error: Exception) -> None:
    LOGGER.warning(
        "version %d of %s was committed; the refresh of %s failed, and answers come from segments "
        "until View.refresh, or the next commit, has done it: %s",
        snapshot.version,
        without_secrets(snapshot.storage.location),
        what,
        error,
    )
