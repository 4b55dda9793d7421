"""Batches in, segment files out; nothing is visible until somebody commits the entries."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Final

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.time.zoned_buckets import Granularity
from projseg.table_layer.commits.cleanup import remove
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.metadata.table_schema import in_stored_names
from projseg.table_layer.storage.locate_storage import Storage
from projseg.table_layer.storage.paths import segment_name
from projseg.writer.checked_rows import normalise_batches
from projseg.writer.segment_filters import FilterWriter
from projseg.writer.segment_writer import OnRows, SegmentLayout, write_segment
from projseg.writer.time_chunks import cut_into_segments

_SEGMENTS_AT_ONCE: Final = 2


def write_segments(
    batches: Iterable[pa.RecordBatch],
    properties: TableProperties,
    storage: Storage,
    *,
    write_id: str,
    partition: int = 0,
    attempt: int = 0,
    threads: int | None = None,
    on_segment: Callable[[SegmentEntry], object] | None = None,
    on_rows: OnRows | None = None,
) -> list[SegmentEntry]:
    """Write all rows as segment files and return how manifests would list them.

    Memory is bounded by a few segments, not by the input (`time_chunks.BUFFERED_BYTES_MAX`). If it
    fails, the files that were written are removed, because no commit can use them.

    Parameters
    ----------
    batches : iterable of pa.RecordBatch
        Rows in any order; columns are matched by name.
    properties : TableProperties
        Schema, time column, granularity, sort order, size and projections of the segments.
    storage : Storage
        The table.
    write_id, partition, attempt : str, int, int
        Name the files, so that no two attempts of a task share one.
    threads : int or None
        Threads for encoding; None: one a processor.
    on_segment : callable or None
        Called with each finished entry, for progress.
    on_rows : callable or None
        Called with each entry and its rows, in several threads.

    Raises
    ------
    InvalidInputError
        If rows do not fit the table.
    StorageError
        If a file cannot be written.
    """
    stored = in_stored_names(properties)
    granularity = segment_granularity(properties)
    layout = SegmentLayout.of(properties)
    thread_count = threads or os.cpu_count() or 1

    def segments(pool: Executor) -> Iterator[tuple[int | None, dict[str, pa.ChunkedArray]]]:
        normal = normalise_batches(batches, properties.schema, properties.time_column, pool)
        return cut_into_segments(
            (batch.rename_columns(stored.schema.names) for batch in normal),
            time_column=stored.time_column,
            granularity=granularity,
            target_segment_rows=properties.target_segment_rows,
        )

    files: list[str] = []
    filters = FilterWriter(storage, write_id, layout.filters_at_once)

    def write(
        file: str, start: int | None, columns: dict[str, pa.ChunkedArray], pool: Executor
    ) -> SegmentEntry:
        return write_segment(
            columns,
            layout,
            storage=storage,
            file=file,
            write_id=write_id,
            interval=_chunk(granularity, start),
            pool=pool,
            filters=filters,
            on_rows=on_rows,
        )

    entries: list[SegmentEntry] = []
    under_way: deque[Future[SegmentEntry]] = deque()

    def finish_first() -> None:
        entries.append(under_way.popleft().result())
        if on_segment is not None:
            on_segment(entries[-1])

    # While one segment's pages are encoded, the next one's columns are: two pools, since a segment
    # that waits for its columns must not hold a thread that they need.
    segment_count_max = min(thread_count, _SEGMENTS_AT_ONCE)
    try:
        with (
            ThreadPoolExecutor(thread_count) as pool,
            ThreadPoolExecutor(segment_count_max) as outer,
        ):
            for start, columns in segments(pool):
                if len(under_way) == segment_count_max:
                    finish_first()
                files.append(segment_name(write_id, partition, attempt, len(files)))
                under_way.append(outer.submit(write, files[-1], start, columns, pool))
            while under_way:
                finish_first()
        bloom_files = filters.finish()
    except BaseException:
        remove(storage, files + filters.files)
        raise
    return [replace(entry, bloom_files=bloom_files) for entry in entries]


def segment_granularity(properties: TableProperties) -> Granularity | None:
    """Return the time chunks of a table; None: one chunk for all time."""
    granularity = Granularity.parse(properties.segment_granularity)
    return None if granularity.is_all or properties.time_column is None else granularity


def _chunk(granularity: Granularity | None, start: int | None) -> tuple[int, int] | None:
    if granularity is None or start is None:
        return None
    return start, granularity.next_boundary(start)
