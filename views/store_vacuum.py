"""Remove what no kept version of a store of views needs, when its table is vacuumed or erased."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from projseg.errors import CorruptionError, ProjsegError, without_secrets
from projseg.table_layer.metadata.change import CommitNote, now_us
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.versions_and_tags import list_versions
from projseg.table_layer.storage.paths import (
    PLACES,
    VIEWS,
    parse_snapshot_name,
    result_folder,
)
from projseg.table_layer.storage.storage_contract import StoredFile
from projseg.table_layer.vacuum import cutoff_us, expired_before, retention_us
from projseg.views.damaged_store import mended_store
from projseg.views.refresh_on_commit import facts_of, linked_fact
from projseg.views.refresh_view import refresh_view
from projseg.views.refresh_work import Work
from projseg.views.view_commits import edited, store_write
from projseg.views.view_records import ViewEntry
from projseg.views.view_store import StoreVersion, open_store, read_store

LOGGER: Final = logging.getLogger("projseg.views")


def vacuum_views(
    snapshot: Snapshot,
    retention_hours: float,
    note: CommitNote,
    *,
    dry_run: bool,
    is_alone: bool = False,
) -> tuple[StoreVersion | None, Sequence[StoredFile]]:
    """Remove versions of a table's store that were replaced long ago, and what only they need.

    Return the store, and the files by their names in the table's folder, which stay after a dry
    run; of a damaged store none.
    """
    try:
        store = open_store(snapshot)
        if store is None:
            return None, ()
        return _vacuumed(store, retention_us(retention_hours, force=True), note, dry_run, is_alone)
    except CorruptionError as error:
        where = without_secrets(snapshot.storage.location)
        LOGGER.warning(
            "no file of the views of %s was removed, as they cannot be read: %s", where, error
        )
        return None, ()


def _vacuumed(
    store: StoreVersion, retention: int, note: CommitNote, dry_run: bool, is_alone: bool
) -> tuple[StoreVersion, Sequence[StoredFile]]:
    storage = store.storage
    cutoff = now_us() - retention if dry_run else cutoff_us(storage, retention, is_alone)
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
            storage.delete(file.name)
    return store, [file._replace(name=f"{VIEWS}{file.name}") for file in files]


def leave_views(
    snapshot: Snapshot, retention_hours: float, note: CommitNote
) -> tuple[list[Snapshot], list[tuple[str, str]]]:
    """Refresh every view that reads a table whose rows were erased, and remove earlier files.

    These are views of the table, and of other tables that join it. Return the tables with such
    views, and the places where this failed, each with the reason.
    """
    left: list[Snapshot] = []
    problems: list[tuple[str, str]] = []
    facts: list[tuple[str, Snapshot | None]] = [(snapshot.storage.location, snapshot)]
    facts += [(location, None) for location in facts_of(snapshot)]
    for location, known in facts:
        try:
            fact = linked_fact(snapshot, location) if known is None else known
            left.append(fact)
            _leave(fact, snapshot.properties.table_id, retention_hours, note)
        except ProjsegError as error:
            problems.append((f"{location}/{VIEWS.rstrip('/')}", error.message))
    return left, problems


def _leave(fact: Snapshot, table_id: str, retention_hours: float, note: CommitNote) -> None:
    store = mended_store(fact, note)
    views = {} if store is None else store.views
    failed: ProjsegError | None = None
    for view_id, view in views.items():
        reads = {view.fact.table_id, *(one.table_id for one in view.dimensions)}
        if table_id not in reads or store is None:
            continue
        try:
            if not view.is_result:
                store = _refreshed(fact, view_id, note)
                continue
        except ProjsegError as error:
            failed = error
        if view.is_built:
            # Spark alone could run a result anew; what cannot be refreshed answers no more.
            with store_write(store) as write:
                store = write.commit(edited(view_id, _emptied), "leave", note)
    vacuum_views(fact, retention_hours, note, dry_run=False, is_alone=True)
    if failed is not None:
        raise failed


def _refreshed(fact: Snapshot, view_id: str, note: CommitNote) -> StoreVersion:
    """Refresh a view; in full if a file of its parts is damaged."""
    try:
        return refresh_view(fact, view_id, Work(), note)[0]
    except CorruptionError:
        return refresh_view(fact, view_id, Work(is_full=True), note)[0]


def _emptied(view: ViewEntry) -> ViewEntry:
    return replace(
        view, result=UNSET, manifests=(), row_count=0, byte_count=0, covered=(0, 0), refreshed={}
    )


def _version(store: StoreVersion, version: int) -> StoreVersion:
    found = read_store(store.storage, version)
    return store if found is None else found


def _removed(store: StoreVersion, kept_from: int, cutoff: int) -> list[StoredFile]:
    """Return the files to remove: the oldest of the log first, then lists, then listed files."""
    storage = store.storage
    earlier = (v for v in list_versions(storage) if kept_from <= v < store.version)
    versions = [store, *(_version(store, version) for version in earlier)]
    needed: set[str] = set()
    results: set[str] = set()
    for version in versions:
        for name in _needed(version):
            needed.add(name)
        results.update(_results(version))
    logs: list[StoredFile] = []
    others: list[StoredFile] = []
    for prefix in (place.removeprefix(VIEWS) for place in PLACES if place.startswith(VIEWS)):
        for file in storage.list_names(prefix):
            number = parse_snapshot_name(file.name)
            if number is not None:
                if number < kept_from:
                    logs.append(file)
            elif (
                file.name not in needed
                and "/".join(file.name.split("/")[:2]) not in results
                and file.modified_us < cutoff
            ):
                others.append(file)
    logs.sort(key=lambda file: file.name)
    return logs + others


def _results(store: StoreVersion) -> Iterator[str]:
    for view in store.views.values():
        if view.result is not UNSET:
            yield result_folder(view.result.cover)


def _needed(store: StoreVersion) -> Iterator[str]:
    yield from (reference.name for reference in store.file.lists)
    for view in store.views.values():
        yield from (reference.name for reference in view.manifests)
        if view.result is not UNSET:
            yield view.result.cover
        try:
            parts = store.parts(view)
        except CorruptionError:
            continue  # without its list nothing reads a part
        for part in parts:
            yield part.segment.file
            yield part.cover.file
