"""Refresh views after a commit to a table that they read, by the marks that tie them to it.

The rows are committed by then, so nothing that goes wrong here is raised: it is logged, and kept in
the view. The next refresh catches up. Dimensions are marked with the views that read them, and
columns that views read are not dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from projseg.errors import CommitConflictError, InvalidInputError, ProjsegError, without_secrets
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.metadata.change import NO_NOTE, CommitNote, SetProperties, now_us
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.metadata.table_properties import VIEW_OF
from projseg.table_layer.storage.locate_storage import storage_beside
from projseg.table_layer.storage.paths import new_write_id
from projseg.table_layer.storage.storage_contract import ViewsFolder
from projseg.views.refresh_view import REASON_CHARACTERS_MAX, Refresher
from projseg.views.refresh_work import Work
from projseg.views.view_commits import edited, store_write
from projseg.views.view_dimensions import FACT, location_from, newest_dimensions, seen_from
from projseg.views.view_records import Failure, ViewEntry
from projseg.views.view_store import StoreVersion, has_views, newest_store, open_store
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
    for fact, view in _linked_views(snapshot):
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
    """Keep in a view why its refresh failed, unless it is known."""
    known, view_id = view.last_error, view.view_id
    if known is not None and known.code == error.code:
        return
    failure = Failure(error.code, error.message[:REASON_CHARACTERS_MAX], now_us())
    try:
        store = newest_store(ViewsFolder(snapshot.storage))
        if store is None or view_id not in store.views:
            return
        change = edited(view_id, lambda view: replace(view, last_error=failure))
        with store_write(store) as write:
            write.commit(change, "refresh failed", note)
    except (ProjsegError, OSError) as again:
        _warn(snapshot, f"view '{view.name}'", again)


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


def mark_dimensions(fact: Snapshot, view: ViewEntry, note: CommitNote, *, is_gone: bool) -> None:
    """Say in the dimensions of a view that it reads them, or no longer does.

    A dimension that cannot be written to is no error: only its commits do not refresh the view.
    """
    key = f"{VIEW_OF}{view.view_id}"
    try:
        dimensions = newest_dimensions(fact, view)
    except (ProjsegError, OSError) as error:
        _warn_of_dimension(view, error)
        return
    for one in dimensions.values():
        there = one.snapshot.storage.location
        if there == fact.storage.location or (key in one.snapshot.properties.properties) != is_gone:
            continue
        value = seen_from(fact.storage.location, there)
        change = SetProperties(
            properties={} if is_gone else {key: value}, drop_properties=(key,) if is_gone else ()
        )
        try:
            commit(
                one.snapshot.storage,
                one.snapshot,
                change,
                write_id=new_write_id(),
                operation="set properties",
                note=note.asking(properties=key if is_gone else f"{key}={value}"),
            )
        except (ProjsegError, OSError) as error:
            _warn_of_dimension(view, error)


def _warn_of_dimension(view: ViewEntry, error: Exception) -> None:
    LOGGER.warning(
        "a dimension of view '%s' cannot be told of it, so that its commits do not refresh it: %s",
        view.name,
        error,
    )


def facts_of(snapshot: Snapshot) -> dict[str, list[str]]:
    """Return the ids of the views that read a dimension, by where their facts are."""
    found: dict[str, list[str]] = {}
    for key, value in snapshot.properties.properties.items():
        if key.startswith(VIEW_OF):
            where = location_from(value, snapshot.storage.location)
            found.setdefault(where, []).append(key.removeprefix(VIEW_OF))
    return found


def _linked_views(snapshot: Snapshot) -> Iterator[tuple[Snapshot, ViewEntry]]:
    """Yield the views of other tables that read a table, with these tables.

    What cannot be read is logged and left out.
    """
    for location, ids in facts_of(snapshot).items():
        try:
            fact = open_snapshot(storage_beside(snapshot.storage, location))
            store = open_store(fact)
            views: Mapping[str, ViewEntry] = {} if store is None else store.views
        except (ProjsegError, OSError) as error:
            where = without_secrets(location)
            LOGGER.warning("views of %s cannot be read, which this table is in: %s", where, error)
            continue
        yield from ((fact, views[one]) for one in ids if one in views)


def check_unused(snapshot: Snapshot, names: tuple[str, ...]) -> None:
    """Refuse to drop columns that views read.

    Raises
    ------
    InvalidInputError
        PROJSEG_COLUMN_IN_USE, with the views' names.
    """
    properties = snapshot.properties
    stored = properties.stored_columns
    several = [(c,) for c in properties.columns] if stored is UNSET else stored.columns
    folded = {name.casefold() for name in names}
    pairs = zip(properties.columns, several, strict=True)
    gone = {f.name for column, forms in pairs if column.name.casefold() in folded for f in forms}
    readers = [view.name for view in _own_views(snapshot) if gone & _fact_columns(view)]
    for _, view in _linked_views(snapshot):
        own = (one for one in view.dimensions if one.table_id == properties.table_id)
        if gone & {name for one in own for name, _ in one.columns}:
            readers.append(view.name)
    if readers:
        shown = ", ".join(f"'{name}'" for name in dict.fromkeys(readers))
        raise InvalidInputError(
            "PROJSEG_COLUMN_IN_USE",
            f"{', '.join(names)} cannot be dropped, because view{'s' * (len(readers) > 1)} {shown} "
            f"read{'s' * (len(readers) == 1)} it; drop what reads it first",
        )


def _own_views(snapshot: Snapshot) -> list[ViewEntry]:
    """Return the views of a table's own store; none if it cannot be read."""
    try:
        store = open_store(snapshot) if has_views(snapshot) else None
        return [] if store is None else list(store.views.values())
    except (ProjsegError, OSError) as error:
        where = without_secrets(snapshot.storage.location)
        LOGGER.warning("views of %s cannot be read, and may read a column: %s", where, error)
        return []


def _fact_columns(view: ViewEntry) -> set[str]:
    own = (one for one in view.dimensions if one.location == FACT)
    return {
        *view.group_columns,
        *view.state_columns,
        *(name for one in own for name, _ in one.columns),
    }
