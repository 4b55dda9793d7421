"""Build declared indexes for segments that are there, from what these store of their values.

For filters no segment is written anew, and of a column of ids only the value hashes are read.
Postings lie in segments: those that lack them are written again, by copying their other parts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from projseg.algebra.time.interval import Interval
from projseg.errors import ProjsegError, StorageError
from projseg.maintenance.gather_blooms import gather_all
from projseg.maintenance.materialize_projections import IN_THREADS, Materialization, segments_in
from projseg.maintenance.replace_segments import Replacement, Watchers
from projseg.maintenance.rewrite_tasks import TaskRunner
from projseg.maintenance.uncached_segment import stored_filter
from projseg.memory.deadline import check_deadline
from projseg.segment_format.indexes.index_kinds import IndexDefinition
from projseg.table_layer.commits.commit import commit, not_committed
from projseg.table_layer.commits.footer_match import open_checked
from projseg.table_layer.commits.publish import removed_on_failure
from projseg.table_layer.coverage import coverage, read_bloom
from projseg.table_layer.indexed_columns import WantedFilter, wanted_filters
from projseg.table_layer.metadata.change import CommitNote, ListBloomFiles, now_us
from projseg.table_layer.metadata.index_declaration import find_index
from projseg.table_layer.metadata.known_properties import SKIPPED
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import stored_schema
from projseg.table_layer.storage.paths import new_write_id
from projseg.writer.segment_filters import FilterWriter

OPERATION: Final = "materialize index"
PIECE_SEGMENTS: Final = 256
"""Segments whose filters are in memory before they are written."""

OnProgress = Callable[[int, int], object]


def materialize_index(
    base: Snapshot,
    name: str | None,
    interval: tuple[int, int] | None,
    note: CommitNote,
    on_progress: OnProgress | None = None,
    runner: TaskRunner | None = None,
) -> tuple[Snapshot, int]:
    """Build indexes in the segments that lack them: a commit for postings, one for filters alone.

    Segments that lack postings are written anew, their other parts copied. Filters of all other
    segments are made from what is stored. Return the newest version and the number of filters.
    Without a name, all indexes are built; `interval` is [start, end) in microseconds UTC;
    `on_progress` gets the number of segments done and of all, first with 0.
    """
    watched = Watchers(on_progress=on_progress)
    base, written = _with_postings(base, name, interval, note, runner or IN_THREADS, watched)
    posted = len(written)
    damaged = _damaged(base)
    work = _missing(base, name, interval, damaged, written)
    count = sum(len(entries) for _, entries in work)
    if not count:
        return base, posted
    write_id = new_write_id()
    with removed_on_failure(base.storage, write_id, base.version) as files:
        writer = FilterWriter(base.storage, write_id, [wanted for wanted, _ in work], files)
        try:
            base.storage.check_writable()
            done = 0
            for wanted, entries in work:
                for piece in _pieces(entries):
                    watched.progress(posted + done, posted + count)
                    _build(base, wanted, piece, writer)
                    done += len(piece)
            added = writer.finish()
        except StorageError as error:
            raise not_committed(base.storage, error) from error
        change = ListBloomFiles(added, damaged)
        snapshot = _listed(base, change, write_id, name, interval, note)
    watched.progress(posted + count, posted + count)
    return snapshot, posted + count


def _with_postings(
    base: Snapshot,
    name: str | None,
    interval: tuple[int, int] | None,
    note: CommitNote,
    runner: TaskRunner,
    watchers: Watchers,
) -> tuple[Snapshot, frozenset[str]]:
    """Write segments that lack postings anew; return these, their Bloom files gathered."""
    chosen = {one.definition_hash for one in _definitions(base, name) if one.postings}
    wanted = [one for one in wanted_filters(base.properties) if one.digest in chosen]
    if not wanted:
        return base, frozenset()
    snapshot, entries = Replacement(
        base,
        Materialization(None, interval, postings=tuple(one.digest for one in wanted)),
        OPERATION,
        runner,
        watchers,
        _asking(note, name, interval),
    ).run()
    snapshot = gather_all(snapshot, note) if entries else snapshot  # each task wrote its own
    return snapshot, frozenset(entry.file for entry in entries)


def _definitions(snapshot: Snapshot, name: str | None) -> list[IndexDefinition]:
    """Return the definitions of an index, or of all."""
    declared = snapshot.properties.declared_indexes
    chosen = declared if name is None else (find_index(declared, name),)
    return [definition for index in chosen for definition in index.columns]


def _asking(note: CommitNote, name: str | None, interval: tuple[int, int] | None) -> CommitNote:
    return note.asking(index=name, interval=None if interval is None else str(Interval(*interval)))


def _listed(
    base: Snapshot,
    change: ListBloomFiles,
    write_id: str,
    name: str | None,
    interval: tuple[int, int] | None,
    note: CommitNote,
) -> Snapshot:
    return commit(
        base.storage,
        base,
        change,
        write_id=write_id,
        operation=OPERATION,
        metrics={
            "filters": sum(one.segment_count for one in change.added),
            "added_bloom_files": len(change.added),
            "removed_bloom_files": len(change.removed),
            "written_bytes": sum(one.byte_count for one in change.added),
        },
        note=_asking(note, name, interval),
    )


def _missing(
    snapshot: Snapshot,
    name: str | None,
    interval: tuple[int, int] | None,
    damaged: frozenset[str],
    written: frozenset[str],
) -> list[tuple[WantedFilter, list[SegmentEntry]]]:
    """Return the filters to make, with the segments that lack each.

    Segments that were `written` for postings have the filters of all indexes, unless these were too
    many for one list.
    """
    definitions = set(_definitions(snapshot, name))
    now, found = now_us(), []
    for wanted in wanted_filters(snapshot.properties):
        known = coverage(snapshot, wanted.definition, damaged).statuses
        entries = [
            entry
            for entry in segments_in(snapshot, interval)
            if (wanted.definition in definitions or entry.file in written)
            and (entry.file not in known or _is_worth_trying(known[entry.file], wanted))
            and wanted.reason_against(entry.min_time_us, entry.max_time_us, now) is None
        ]
        found.append((wanted, entries))
    return [(wanted, entries) for wanted, entries in found if entries]


def _damaged(snapshot: Snapshot) -> frozenset[str]:
    """Return the listed Bloom files that are missing or damaged, every page being read."""
    found = []
    for one in snapshot.bloom_files:
        try:
            file = read_bloom(snapshot.storage, one)
            file.verify(partial(snapshot.storage.read_range, one.name))
        except (ProjsegError, OSError):
            found.append(one.name)
    return frozenset(found)


def _is_worth_trying(status: str, wanted: WantedFilter) -> bool:
    """Whether what left a segment without a filter may be gone: no failure is for ever."""
    if status.startswith(SKIPPED):
        return not any(scope.is_settled(status) for scope in wanted.scopes)
    return status.startswith("failed")


def _pieces(entries: Sequence[SegmentEntry]) -> Iterator[Sequence[SegmentEntry]]:
    for start in range(0, len(entries), PIECE_SEGMENTS):
        yield entries[start : start + PIECE_SEGMENTS]


def _build(
    base: Snapshot, wanted: WantedFilter, entries: Sequence[SegmentEntry], writer: FilterWriter
) -> None:
    schema = stored_schema(base.properties)

    def write_filter(entry: SegmentEntry) -> None:
        check_deadline()
        segment = open_checked(base.storage, entry, schema)
        writer.put(wanted.definition, stored_filter(entry, segment, schema, wanted), entry)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        futures = [pool.submit(write_filter, entry) for entry in entries]
        try:
            for future in futures:
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)
