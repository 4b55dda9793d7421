"""What ties a view to the tables it reads: the marks of dimensions, and the columns in use."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import UNSET

from projseg.errors import InvalidInputError, ProjsegError, without_secrets
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.metadata.change import CommitNote, SetProperties
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.metadata.table_properties import VIEW_OF
from projseg.table_layer.storage.locate_storage import storage_beside
from projseg.table_layer.storage.paths import new_write_id
from projseg.views.view_dimensions import FACT, location_from, newest_dimensions, seen_from
from projseg.views.view_records import ViewEntry
from projseg.views.view_store import has_views, open_store

LOGGER: Final = logging.getLogger("projseg.views")


def mark_dimensions(fact: Snapshot, view: ViewEntry, note: CommitNote, *, is_gone: bool) -> None:
    """Say in the dimensions of a view that it reads them, or no longer does.

    A dimension that cannot be written to is no error: only its commits do not refresh the view.
    """
    key = f"{VIEW_OF}{view.view_id}"
    try:
        dimensions = newest_dimensions(fact, view)
    except (ProjsegError, OSError) as error:
        _warn(view, error)
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
            _warn(view, error)


def _warn(view: ViewEntry, error: Exception) -> None:
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


def linked_views(snapshot: Snapshot) -> Iterator[tuple[Snapshot, ViewEntry]]:
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
    for _, view in linked_views(snapshot):
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
