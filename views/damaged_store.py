"""Recover from a damaged store of views, whose content can be rebuilt from the table at any time.

A list that cannot be read takes the views that it lists with it, a damaged log all of them. Only
verbs that remove or replace views do so; others refuse, so that a copy can be restored.
"""

from __future__ import annotations

import logging
from typing import Final

from msgspec.structs import replace

from projseg.errors import CorruptionError, without_secrets
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.paths import PLACES, VIEWS
from projseg.table_layer.storage.storage_contract import Storage, ViewsFolder
from projseg.views.view_commits import store_write
from projseg.views.view_records import FileReference
from projseg.views.view_store import StoreVersion, has_views, load_lists, newest_store

LOGGER: Final = logging.getLogger("projseg.views")


def mended_store(snapshot: Snapshot, note: CommitNote) -> StoreVersion | None:
    """Return the newest version of a table's store without what cannot be read of it.

    None if there is no store, or was none that can be read.
    """
    if not has_views(snapshot):
        return None
    storage = ViewsFolder(snapshot.storage)
    try:
        store = newest_store(storage)
    except CorruptionError as error:
        _tell(storage, "all views were dropped", error)
        _remove_all(storage)
        return None
    if store is None:
        return None
    try:
        store.lists()
    except CorruptionError as error:
        _tell(storage, "the views of a damaged list were dropped", error)
        sound = tuple(one for one in store.file.lists if _is_sound(storage, one))
        store = StoreVersion(storage, replace(store.file, lists=sound))
        with store_write(store) as write:
            return write.commit(lambda views: views, "drop damaged list", note)
    return store


def _is_sound(storage: Storage, reference: FileReference) -> bool:
    try:
        load_lists(storage, [reference])
    except CorruptionError:
        return False
    return True


def _remove_all(storage: Storage) -> None:
    """Remove the files of a store, those of its log last: until then it is a damaged one."""
    places = [place.removeprefix(VIEWS) for place in PLACES if place.startswith(VIEWS)]
    for prefix in reversed(places):
        for file in list(storage.list_names(prefix)):
            storage.delete(file.name)


def _tell(storage: Storage, what: str, error: CorruptionError) -> None:
    where = without_secrets(storage.location)
    LOGGER.warning("%s from %s, which cannot be read: %s", what, where, error)
