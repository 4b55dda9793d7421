"""Remove what no kept version of a store of views needs, when its table is vacuumed or erased."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from projseg.table_layer.metadata.change import CommitNote, now_us
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.versions_and_tags import list_versions
from projseg.table_layer.storage.paths import (
    DATA_PREFIX,
    METADATA_PREFIX,
    VIEWS,
    is_cover_name,
    parse_snapshot_name,
)
from projseg.table_layer.storage.storage_contract import StoredFile
from projseg.table_layer.vacuum import expired_before, retention_us
from projseg.views.refresh_view import refresh_view
from projseg.views.refresh_work import Work
from projseg.views.stored_results import files_of_result
from projseg.views.view_commits import edited, store_write
from projseg.views.view_records import ViewEntry
from projseg.views.view_store import StoreVersion, open_store, read_store


def vacuum_views(
    snapshot: Snapshot, retention_hours: float, note: CommitNote, *, dry_run: bool
) -> tuple[StoreVersion | None, Sequence[StoredFile]]:
    """Remove versions of a table's store that were replaced long ago, and what only they need.

    Parameters
    ----------
    snapshot : Snapshot
        The table.
    retention_hours : float
        As of the table's vacuum, which was allowed.
    note : CommitNote
        For the history.
    dry_run : bool
        Only say what would be removed.

    Returns
    -------
    tuple
        The store, and the files by their names in the table's folder.

    Raises
    ------
    CommitError, CorruptTableError, StorageError
        What was not removed, the next vacuum finds.
    """
    pinned = open_store(snapshot)
    if pinned is None:
        return None, ()
    store: StoreVersion = pinned
    storage, cutoff = store.storage, now_us() - retention_us(retention_hours, force=True)
    found = expired_before(
        storage, store.version, cutoff, lambda v: _version(store, v).file.timestamp_us
    )
    kept_from = max(store.version if found is None else found, store.file.kept_from)
    files = _removed(store, kept_from, cutoff)
    if not dry_run and files:
        if kept_from > store.file.kept_from:
            with store_write(store) as write:
                store = write.commit(lambda views: views, "vacuum", note, kept_from=kept_from)
        # What others published before this commit is needed.
        files = _removed(store, store.file.kept_from, cutoff)
        for file in files:
            if is_cover_name(file.name):
                for name in files_of_result(storage, file.name):
                    storage.delete(name)
            storage.delete(file.name)
    return store, [file._replace(name=f"{VIEWS}{file.name}") for file in files]


def leave_views(
    snapshot: Snapshot, retention_hours: float, note: CommitNote
) -> StoreVersion | None:
    """Refresh every view of a table whose rows were erased, and remove what was stored before.

    Raises
    ------
    ProjsegError
        If a view cannot be refreshed: drop it, and erase again.
    """
    store = open_store(snapshot)
    if store is None:
        return None
    for view_id, view in tuple(store.views.items()):
        if not view.is_result:
            store, _ = refresh_view(snapshot, view_id, Work(), note)
        elif view.is_built:
            # Spark alone could run it anew.
            with store_write(store) as write:
                store = write.commit(edited(view_id, _emptied), "leave", note)
    return vacuum_views(snapshot, retention_hours, note, dry_run=False)[0]


def _emptied(view: ViewEntry) -> ViewEntry:
    return replace(view, result=UNSET, row_count=0, byte_count=0, refreshed={})


def _version(store: StoreVersion, version: int) -> StoreVersion:
    found = read_store(store.storage, version)
    return store if found is None else found


def _removed(store: StoreVersion, kept_from: int, cutoff: int) -> list[StoredFile]:
    """Return the files to remove: the log's oldest first, then lists, then what they list."""
    storage = store.storage
    earlier = (v for v in list_versions(storage) if kept_from <= v < store.version)
    versions = [store, *(_version(store, version) for version in earlier)]
    needed = {name for version in versions for name in _needed(version)}
    logs: list[StoredFile] = []
    others: list[StoredFile] = []
    for prefix in (METADATA_PREFIX, DATA_PREFIX):
        for file in storage.list_names(prefix):
            number = parse_snapshot_name(file.name)
            if number is not None:
                if number < kept_from:
                    logs.append(file)
            elif file.name not in needed and file.modified_us < cutoff:
                others.append(file)
    logs.sort(key=lambda file: file.name)
    return logs + others


def _needed(store: StoreVersion) -> Iterator[str]:
    yield from (reference.name for reference in store.file.lists)
    for view in store.views.values():
        yield from (reference.name for reference in view.manifests)
        if view.result is not UNSET:
            yield view.result.cover
        for part in store.parts(view):
            yield part.segment.file
            yield part.cover.file
