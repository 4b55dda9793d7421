"""Follow a source: companions for its new files, in one commit, and none for those that are gone.

The source's list is read once, and everything is made for that list.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from projseg.errors import CommitConflictError, InvalidInputError, StorageError
from projseg.maintenance.companion_tasks import companions_by
from projseg.maintenance.retaken_companions import retaken_companions
from projseg.maintenance.rewrite_tasks import TaskRunner
from projseg.maintenance.source_columns import ReadFile, followed
from projseg.memory.forks import side_by_side
from projseg.table_layer.commits.commit import commit, create_table, not_committed, refuse_existing
from projseg.table_layer.commits.publish import removed_on_failure
from projseg.table_layer.foreign.field_ids import has_field_ids, with_names
from projseg.table_layer.foreign.foreign_segment import file_options, source_options
from projseg.table_layer.foreign.parquet_file import (
    SMALL_FILE_BYTES,
    ParquetRows,
    read_footer,
)
from projseg.table_layer.foreign.source_files import ListedFile
from projseg.table_layer.foreign.source_list import SourceList, list_source
from projseg.table_layer.foreign.source_state import (
    beside,
    foreign_file,
    present_columns,
    uncovered_entry,
)
from projseg.table_layer.metadata.change import CommitNote, Sync
from projseg.table_layer.metadata.segment_entry import ForeignEntry, SegmentEntry, written_files
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.storage.paths import new_write_id, segment_name
from projseg.table_layer.storage.storage_contract import Storage
from projseg.table_layer.storage.store_location import StorageOptions
from projseg.writer.companion_writer import ForeignRows, write_companion
from projseg.writer.segment_filters import FilterWriter
from projseg.writer.segment_writer import SegmentLayout

IsLacking: TypeAlias = Callable[[SegmentEntry], bool]

_TRIES_MAX: Final = 5
_FILES_AT_ONCE: Final = 2
_SMALL_FILES_AT_ONCE: Final = 8
"""Of small files the time goes to reads and durable writes, which wait side by side."""


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync did, or would do.

    Parameters
    ----------
    version : int
        The table's version afterwards; the one that was there if there was nothing to do.
    source_version : str or None
        The version of the source that was followed, where it has versions.
    files_kept, files_added, files_dropped : int
        Files of the source whose companions stay, are made, and leave the table.
    rows_read : int
        Rows of the source that were read.
    milliseconds : float
        How long it took.
    """

    version: int
    source_version: str | None
    files_kept: int
    files_added: int
    files_dropped: int
    rows_read: int
    milliseconds: float


class _Work:
    """The work to bring one version to one list.

    With `verify`, footers of files that seem the same are read, or all files are taken anew
    (`rows`). Companions are also made for entries whose `is_lacking` is true.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        listed: SourceList,
        verify: bool | str,
        is_lacking: IsLacking | None = None,
    ) -> None:
        self.snapshot, self.listed = snapshot, listed
        options = file_options(snapshot.storage, listed.field_ids is not None)
        is_mapped_anew = _is_mapped_anew(snapshot.properties, listed)
        wanted = {file.identity: file for file in listed.files}
        stay: list[SegmentEntry] = []
        gone: list[SegmentEntry] = []
        for entry in snapshot.segments:
            foreign = entry.foreign
            file = None if foreign is None else wanted.get(foreign.identity)
            is_same = file is not None and verify != "rows"
            is_same = is_same and not (is_lacking is not None and is_lacking(entry))
            if is_same and verify and file is not None and foreign is not None:
                is_same = read_footer(file, options, anew=True).digest == foreign.footer_digest
            if is_same and is_mapped_anew and file is not None:
                is_same = has_field_ids(read_footer(file, options))
            (stay if is_same else gone).append(entry)
        # All runs of a file are made together.
        changed = {entry.foreign.identity for entry in gone if entry.foreign is not None}
        self.kept: list[SegmentEntry] = []
        self.gone = gone
        for entry in stay:
            is_kept = entry.foreign is not None and entry.foreign.identity not in changed
            (self.kept if is_kept else gone).append(entry)
        known = {entry.foreign.identity for entry in self.kept if entry.foreign is not None}
        new = [file for file in listed.files if file.identity not in known]
        read = read_files(new, options)
        self.properties = followed(snapshot.properties, self.kept, read, listed)
        named = with_all_names(read, self.properties, listed)
        # Only a source that goes back lists files again, and then others are gone.
        found = retaken_companions(snapshot, named, self.properties) if gone and not verify else {}
        self.retaken = tuple(entry for entries in found.values() for entry in entries)
        self.new = [one for one in named if one[0].identity not in found]

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do."""
        before, after = map(_declared, (self.snapshot.properties, self.properties))
        return not (self.new or self.retaken or self.gone) and before == after

    def synced(self, version: int, rows_read: int, started: float) -> Synced:
        """Return the report of the work."""
        paths = {entry.foreign.path for entry in self.gone if entry.foreign is not None}
        return Synced(
            version,
            self.listed.version,
            len(self.listed.files) - len(self.new),
            len(self.new),
            len(paths - {file.path for file, _ in self.new}),
            rows_read,
            (time.perf_counter() - started) * 1000,
        )


def sync(
    storage: Storage,
    note: CommitNote,
    *,
    dry_run: bool = False,
    verify: bool | str = False,
    is_lacking: IsLacking | None = None,
    runner: TaskRunner | None = None,
) -> tuple[Snapshot, Synced, tuple[ForeignEntry, ...]]:
    """Make the newest version list what its source lists now; see `Table.sync`.

    Where companions lack something, others are made with all that is declared, deferred or not; by
    a runner, or threads.
    """
    started = time.perf_counter()
    for tries_left in reversed(range(_TRIES_MAX)):
        snapshot = open_snapshot(storage)
        source = snapshot.properties.source
        if source is UNSET:
            raise InvalidInputError(
                "PROJSEG_BAD_SOURCE",
                f"{storage.location} stands over no source: its rows are its own; nothing is to be "
                "synchronised",
            )
        work = _Work(snapshot, list_source(source, source_options(storage)), verify, is_lacking)
        if dry_run or work.is_done:
            state = beside(snapshot, work.listed)
            return state, work.synced(snapshot.version, 0, started), ()
        try:
            made, entries = _committed(work, note, runner, makes_all=is_lacking is not None)
        except CommitConflictError:
            if not tries_left:
                raise
            continue
        rows = sum(entry.row_count for entry in entries)
        return beside(made, work.listed), work.synced(made.version, rows, started), entries
    raise AssertionError("the last try returns or raises")


def _committed(
    work: _Work, note: CommitNote, runner: TaskRunner | None, *, makes_all: bool
) -> tuple[Snapshot, tuple[ForeignEntry, ...]]:
    snapshot, write_id = work.snapshot, new_write_id()
    storage = snapshot.storage
    with removed_on_failure(storage, write_id, snapshot.version) as files:
        if runner is None:
            entries = companions(
                storage, work.properties, work.new, write_id, files, makes_all=makes_all
            )
        else:
            lacking = _without_file(work.properties, work.new)
            made_by = (runner, snapshot, work.properties, lacking, write_id, files)
            entries = tuple(companions_by(*made_by, makes_all=makes_all))
        made = commit(
            storage,
            snapshot,
            Sync(
                frozenset(entry.listed_as for entry in work.gone),
                entries,
                work.properties,
                work.retaken,
            ),
            write_id=write_id,
            operation="sync",
            metrics=_metrics((*entries, *work.retaken), len(work.gone)),
            note=note.asking(source_version=work.listed.version),
        )
    return made, entries


def publish_over(
    storage: Storage, properties: TableProperties, read: Sequence[ReadFile]
) -> Snapshot:
    """Publish a new table over a source, with companions of all its files; see `Table.attach`."""
    write_id = new_write_id()
    refuse_existing(storage)
    with removed_on_failure(storage, write_id, None) as files:
        try:
            storage.check_writable()
        except StorageError as error:
            raise not_committed(storage, error) from error
        entries = companions(storage, properties, read, write_id, files)
        return create_table(
            storage,
            properties,
            entries=entries,
            write_id=write_id,
            operation="attach",
            metrics=_metrics(entries, 0),
        )


def _metrics(entries: Sequence[SegmentEntry], removed: int) -> dict[str, int]:
    rows = sum(entry.row_count for entry in entries)
    found = {"added_segments": len(entries), "added_rows": rows}
    return {**found, "removed_segments": removed} if removed else found


def companions(
    storage: Storage,
    properties: TableProperties,
    read: Iterable[ReadFile],
    write_id: str,
    files: list[str],
    *,
    makes_all: bool = False,
) -> tuple[ForeignEntry, ...]:
    """Write the companions of files, one for each run of row groups.

    `files` takes the names of the files that are written; deferred parts are made if `makes_all`.
    """
    layout = SegmentLayout.of(properties)
    wanted_filters = layout.filters if makes_all else layout.filters_at_once
    filters = FilterWriter(storage, write_id, wanted_filters)
    source = properties.source
    is_by_id = source is not UNSET and source.field_ids is not UNSET
    options = file_options(storage, is_by_id)

    def write(numbered: tuple[int, ForeignRows], pool: Executor) -> ForeignEntry:
        number, wanted = numbered
        with wanted.rows.held():
            return write_companion(
                wanted,
                layout,
                storage=storage,
                file=segment_name(write_id, 0, 0, number),
                write_id=write_id,
                pool=pool,
                filters=filters,
                makes_all=makes_all,
            )

    read = list(read)
    runs = list(enumerate(_runs(properties, read, options)))
    are_small = all(file.byte_count <= SMALL_FILE_BYTES for file, _ in read)
    at_once = _SMALL_FILES_AT_ONCE if are_small else min(_FILES_AT_ONCE, os.cpu_count() or 1)
    files += [segment_name(write_id, 0, 0, number) for number, _ in runs]
    try:
        with (
            ThreadPoolExecutor(os.cpu_count() or 1) as pool,
            ThreadPoolExecutor(at_once) as outer,
        ):
            entries = list(outer.map(partial(write, pool=pool), runs))
        bloom_files = filters.finish()
    except StorageError as error:
        if error.code in ("PROJSEG_SOURCE_CHANGED", "PROJSEG_SOURCE_GONE"):
            raise
        raise not_committed(storage, error) from error
    finally:
        files += filters.files
    found = tuple(replace(entry, bloom_files=bloom_files) for entry in entries)
    assert set(written_files(found)) <= set(files)
    return found


def _runs(
    properties: TableProperties, read: Iterable[ReadFile], options: StorageOptions
) -> Iterator[ForeignRows]:
    for file, footer in read:
        names = present_columns(properties, file, footer)
        for groups in footer.runs(properties.target_segment_rows):
            rows = ParquetRows(file, footer, groups, options)
            yield ForeignRows(rows, foreign_file(file, footer, groups), names)


def _without_file(properties: TableProperties, read: Iterable[ReadFile]) -> Iterator[ForeignEntry]:
    for file, footer in read:
        for number, groups in enumerate(footer.runs(properties.target_segment_rows)):
            yield uncovered_entry(properties, file, footer, groups, number)


def read_files(files: Sequence[ListedFile], options: StorageOptions) -> list[ReadFile]:
    """Return files with their footers, read anew and side by side."""
    footer_of = partial(read_footer, options=options, anew=True)
    each = side_by_side if len(files) > 1 else map
    return list(zip(files, each(footer_of, files), strict=True))


def with_all_names(
    read: Iterable[ReadFile], properties: TableProperties, listed: SourceList
) -> list[ReadFile]:
    """Return files with what they call the columns of a table, where these are found by ids."""
    return [(with_names(*one, properties, listed.name_mapping), one[1]) for one in read]


def _is_mapped_anew(properties: TableProperties, listed: SourceList) -> bool:
    """Whether files without ids may hold other columns than before."""
    source = properties.source
    before = None if source is UNSET or source.name_mapping is UNSET else source.name_mapping
    return before != listed.name_mapping


def _declared(properties: TableProperties) -> object:
    """Return the part of a declaration that a source decides."""
    source = properties.source
    assert source is not UNSET
    found = (properties.columns, properties.stored_columns)
    return found, source.field_ids, source.name_mapping
