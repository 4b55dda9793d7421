"""Refresh views after a commit to a table that they read, by the marks that tie them to it.

The rows are committed by then, so nothing that goes wrong here is raised: it is logged, and kept in
the view. The next refresh catches up. Dimensions are marked with the views that read them, and
columns that views read are not dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from projseg.errors import CommitConflictError, InvalidInputError, ProjsegError, without_secrets
from projseg.segment_format.format_limits import name_key
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.commits.follow_up import only_logged
from projseg.table_layer.metadata.change import NO_NOTE, CommitNote, SetProperties, now_us
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.metadata.table_properties import VIEW_OF
from projseg.table_layer.storage.paths import new_write_id
from projseg.table_layer.storage.storage_contract import ViewsFolder
from projseg.views.linked_tables import linked_storage, location_from, seen_from
from projseg.views.refresh_view import REASON_CHARACTERS_MAX, Refresher
from projseg.views.refresh_work import Work
from projseg.views.view_commits import edited, store_write, with_store
from projseg.views.view_dimensions import newest_dimension
from projseg.views.view_records import FACT, Failure, ViewEntry
from projseg.views.view_store import StoreVersion, has_views, newest_store, open_store
from projseg.views.written_rows import WrittenRows

LOGGER: Final = logging.getLogger("projseg.views")


def refresh_after_commit(
    snapshot: Snapshot, note: CommitNote = NO_NOTE, written: WrittenRows | None = None
) -> StoreVersion | None:
    """Refresh the views of a table that follow its commits; return the store, if it has one.

    So are views of other tables that read it as a dimension. Each view is tried once: another
    writer's refresh that came first has done the work, or will.
    """
    store = None
    with _only_logged(snapshot, "views"):
        for fact, view in _linked_views(snapshot):
            if _follows(view):
                _refresh_linked(fact, view, note)
    with _only_logged(snapshot, "its views"):
        store = open_store(snapshot)
        for view in () if store is None else tuple(store.views.values()):
            if _follows(view) and store is not None:
                store = _refreshed(snapshot, store, view, note, written)
    return store


def keep_views(snapshot: Snapshot, note: CommitNote) -> Snapshot:
    """Return a table that was restored from before its first view, with its views."""

    def failure() -> str:
        where = without_secrets(snapshot.storage.location)
        return f"version {snapshot.version} of {where} was restored, and views not set as used"

    with only_logged(LOGGER, failure):
        return with_store(snapshot, note)[0]
    return snapshot


def _refresh_linked(fact: Snapshot, view: ViewEntry, note: CommitNote) -> None:
    with _only_logged(fact, "its views"):
        store = open_store(fact)
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
    with _only_logged(snapshot, f"view '{view.name}'"):
        try:
            return Refresher(snapshot, store, view, Work(written=written)).run(note)[0]
        except CommitConflictError:
            return open_store(snapshot) or store
        except Exception as error:
            _record(snapshot, view, error, note)
            raise
    return _newest(snapshot, store)


def _record(snapshot: Snapshot, view: ViewEntry, error: Exception, note: CommitNote) -> None:
    """Keep in a view why its refresh failed, unless it is known."""
    code, message = _code_and_message(error)
    known, view_id = view.last_error, view.view_id
    if known is not None and known.code == code:
        return
    failure = Failure(code, message[:REASON_CHARACTERS_MAX], now_us())
    with _only_logged(snapshot, f"view '{view.name}'"):
        store = newest_store(ViewsFolder(snapshot.storage))
        if store is None or view_id not in store.views:
            return
        change = edited(view_id, lambda view: replace(view, last_error=failure))
        with store_write(store) as write:
            write.commit(change, "refresh failed", note)


def _code_and_message(error: Exception) -> tuple[str, str]:
    """Return the code and the words of an error of any kind."""
    if isinstance(error, ProjsegError):
        return error.code, error.message
    return "PROJSEG_INTERNAL", f"{type(error).__name__}: {error}"


def _newest(snapshot: Snapshot, store: StoreVersion) -> StoreVersion:
    with _only_logged(snapshot, "its views"):
        return open_store(snapshot) or store
    return store


def _only_logged(snapshot: Snapshot, what: str) -> AbstractContextManager[None]:
    """Return a context in which the refresh of something may fail: it is logged."""

    def failure() -> str:
        where = without_secrets(snapshot.storage.location)
        return (
            f"version {snapshot.version} of {where} was committed; the refresh of {what} failed, "
            "and answers come from segments until View.refresh, or the next commit, has done it"
        )

    return only_logged(LOGGER, failure)


def mark_dimensions(fact: Snapshot, view: ViewEntry, note: CommitNote, *, is_gone: bool) -> None:
    """Say in the dimensions of a view that it reads them, or no longer does.

    A dimension that cannot be written to is no error: only its commits do not refresh the view.
    """
    key = f"{VIEW_OF}{view.view_id}"
    for named in {one.table_id: one for one in view.dimensions}.values():
        with _telling(view):
            one = newest_dimension(fact, view.name, named)
            there = one.snapshot.storage.location
            is_marked = key in one.snapshot.properties.properties
            if there == fact.storage.location or is_marked != is_gone:
                continue
            value = seen_from(fact.storage.location, there)
            change = SetProperties(
                properties={} if is_gone else {key: value},
                drop_properties=(key,) if is_gone else (),
            )
            commit(
                one.snapshot.storage,
                one.snapshot,
                change,
                write_id=new_write_id(),
                operation="set properties",
                note=note.asking(properties=key if is_gone else f"{key}={value}"),
            )


def _telling(view: ViewEntry) -> AbstractContextManager[None]:
    """Return a context in which a dimension of a view may not be marked: that is logged."""
    return only_logged(
        LOGGER,
        lambda: (
            f"a dimension of view '{view.name}' cannot be told of it, so that its commits do not "
            "refresh it"
        ),
    )


def facts_of(snapshot: Snapshot) -> dict[str, list[str]]:
    """Return the ids of the views that read a dimension, by where their facts are."""
    found: dict[str, list[str]] = {}
    for key, value in snapshot.properties.properties.items():
        if key.startswith(VIEW_OF):
            where = location_from(value, snapshot.storage.location)
            found.setdefault(where, []).append(key.removeprefix(VIEW_OF))
    return found


def linked_fact(snapshot: Snapshot, location: str) -> Snapshot:
    """Return a table whose views read another table. Raises what `linked_storage` raises."""
    return open_snapshot(linked_storage(snapshot.storage, location, f"a property {VIEW_OF}…"))


def _linked_views(snapshot: Snapshot) -> Iterator[tuple[Snapshot, ViewEntry]]:
    """Yield the views of other tables that read a table, with these tables.

    What cannot be read is logged and left out.
    """
    for location, ids in facts_of(snapshot).items():
        views: dict[str, ViewEntry] = {}
        with only_logged(LOGGER, partial(_unread, location)):
            fact = linked_fact(snapshot, location)
            store = open_store(fact)
            views = {} if store is None else store.views
        for view in (views[one] for one in ids if one in views):
            if any(one.table_id == snapshot.properties.table_id for one in view.dimensions):
                yield fact, view


def _unread(location: str) -> str:
    return f"views of {without_secrets(location)} cannot be read, which this table is in"


def check_unused(snapshot: Snapshot, names: tuple[str, ...]) -> None:
    """Refuse to drop columns that views read."""
    properties = snapshot.properties
    stored = properties.stored_columns
    several = [(c,) for c in properties.columns] if stored is UNSET else stored.columns
    folded = {name_key(name) for name in names}
    pairs = zip(properties.columns, several, strict=True)
    gone = {f.name for column, forms in pairs if name_key(column.name) in folded for f in forms}
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
