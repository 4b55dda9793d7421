"""Refresh the views of a table after a commit to it.

The rows are committed by then, so nothing that goes wrong here is raised: it is logged, and kept in
the view. The next refresh catches up.
"""

from __future__ import annotations

import logging
from typing import Final

from projseg.errors import CommitConflictError, ProjsegError, without_secrets
from projseg.table_layer.metadata.commit_info import NO_NOTE, CommitNote
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.refresh_view import Refresher, record_failure
from projseg.views.refresh_work import Work
from projseg.views.view_records import ViewEntry
from projseg.views.view_store import StoreVersion, has_views, open_store

LOGGER: Final = logging.getLogger("projseg.views")


def refresh_after_commit(snapshot: Snapshot, note: CommitNote = NO_NOTE) -> StoreVersion | None:
    """Refresh the views of a table that follow its commits; return the store, if it has one.

    Each view is tried once: another writer's refresh that came first has done the work, or will.

    Parameters
    ----------
    snapshot : Snapshot
        The version that was committed.
    note : CommitNote
        For the store's history.
    """
    if not has_views(snapshot):
        return None
    store: StoreVersion | None = None
    try:
        store = open_store(snapshot)
        views = [] if store is None else list(store.views.values())
    except (ProjsegError, OSError) as error:
        _warn(snapshot, "the store", error)
        return None
    for view in views:
        if view.is_enabled and view.is_on_commit and store is not None:
            store = _refreshed(snapshot, store, view, note)
    return store


def _refreshed(
    snapshot: Snapshot, store: StoreVersion, view: ViewEntry, note: CommitNote
) -> StoreVersion:
    try:
        return Refresher(snapshot, store, view, Work()).run(note)[0]
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
        record_failure(snapshot, view.view_id, error, note)
    except (ProjsegError, OSError) as again:
        _warn(snapshot, f"view '{view.name}'", again)


def _newest(snapshot: Snapshot, store: StoreVersion) -> StoreVersion:
    try:
        return open_store(snapshot) or store
    except (ProjsegError, OSError):
        return store


def _warn(snapshot: Snapshot, what: str, error: Exception) -> None:
    LOGGER.warning(
        "version %d of %s was committed; the refresh of %s failed: %s",
        snapshot.version,
        without_secrets(snapshot.storage.location),
        what,
        error,
    )
