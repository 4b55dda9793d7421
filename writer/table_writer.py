"""Batches in, segment files out; nothing is visible until somebody commits the entries.

Rows are cut by segment granularity, and gathered until a segment is full.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import require_callable
from projseg.segment_format.arrow_arrays import primitive_array
from projseg.segment_format.logical_types import MICROS_A_DAY, arrow_to_numbers
from projseg.table_layer.commits.publish import remove
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.metadata.table_schema import in_stored_names
from projseg.table_layer.storage.paths import segment_name
from projseg.table_layer.storage.storage_contract import Storage
from projseg.writer.checked_rows import normalise_batches
from projseg.writer.segment_contents import are_worth_threads
from projseg.writer.segment_filters import FilterWriter
from projseg.writer.segment_writer import OnRows, SegmentLayout, write_segment

_SEGMENTS_AT_ONCE: Final = 2
# Buffered bytes above which the fullest chunk is written early, even with few rows.
_BUFFERED_BYTES_MAX: Final = 2 << 30


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
    """Write all rows, in any order, as segment files and return how manifests would list them.

    The write id, partition and attempt name the files, so that no two attempts of a task share one.
    Memory is bounded by a few segments, not by the input (`_BUFFERED_BYTES_MAX`). If it fails, the
    files that were written are removed, because no commit can use them.
    """
    require_callable("on_segment", on_segment)
    names = partial(segment_name, write_id, partition, attempt)
    writing = _Writing(properties, storage, write_id, names, on_segment, on_rows)
    return writing.entries_of(batches, threads or os.cpu_count() or 1)


class _Writing:
    """The segments of one write, of which several are under way at once."""

    def __init__(
        self,
        properties: TableProperties,
        storage: Storage,
        write_id: str,
        name_of: Callable[[int], str],
        on_segment: Callable[[SegmentEntry], object] | None,
        on_rows: OnRows | None,
    ) -> None:
        self._properties, self._storage, self._write_id = properties, storage, write_id
        self._name_of, self._on_segment, self._on_rows = name_of, on_segment, on_rows
        self._granularity = segment_granularity(properties)
        self._layout = SegmentLayout.of(properties)
        self._filters = FilterWriter(storage, write_id, self._layout.filters_at_once)
        self._files: list[str] = []
        self._entries: list[SegmentEntry] = []
        self._under_way: deque[Future[SegmentEntry]] = deque()

    def entries_of(
        self, batches: Iterable[pa.RecordBatch], thread_count: int
    ) -> list[SegmentEntry]:
        """Write all rows; the files of a write that fails are removed."""
        # While one segment's pages are encoded, the next one's columns are: two pools, since a
        # segment that waits for its columns must not hold a thread that they need.
        segment_count_max = min(thread_count, _SEGMENTS_AT_ONCE)
        try:
            with (
                ThreadPoolExecutor(thread_count) as pool,
                ThreadPoolExecutor(2 * segment_count_max) as outer,
            ):
                for start, columns in self._cut(batches, pool):
                    # Of few rows twice as many: each of them waits for the disk.
                    is_large = are_worth_threads(len(next(iter(columns.values()))))
                    most = segment_count_max if is_large else 2 * segment_count_max
                    while len(self._under_way) >= most:
                        self._finish_first()
                    self._files.append(self._name_of(len(self._files)))
                    write = partial(self._write, self._files[-1], start, columns, pool)
                    self._under_way.append(outer.submit(write))
                while self._under_way:
                    self._finish_first()
            bloom_files = self._filters.finish()
        except BaseException:
            remove(self._storage, self._files + self._filters.files)
            raise
        return [replace(entry, bloom_files=bloom_files) for entry in self._entries]

    def _cut(
        self, batches: Iterable[pa.RecordBatch], pool: Executor
    ) -> Iterator[tuple[int | None, dict[str, pa.ChunkedArray]]]:
        properties, stored = self._properties, in_stored_names(self._properties)
        normal = normalise_batches(batches, properties.schema, properties.time_column, pool)
        return _cut_into_segments(
            (batch.rename_columns(stored.schema.names) for batch in normal),
            time_column=stored.time_column,
            granularity=self._granularity,
            target_segment_rows=properties.target_segment_rows,
        )

    def _write(
        self, file: str, start: int | None, columns: dict[str, pa.ChunkedArray], pool: Executor
    ) -> SegmentEntry:
        return write_segment(
            columns,
            self._layout,
            storage=self._storage,
            file=file,
            write_id=self._write_id,
            interval=_chunk(self._granularity, start),
            pool=pool,
            filters=self._filters,
            on_rows=self._on_rows,
        )

    def _finish_first(self) -> None:
        self._entries.append(self._under_way.popleft().result())
        if self._on_segment is not None:
            self._on_segment(self._entries[-1])


def segment_granularity(properties: TableProperties) -> Granularity | None:
    """Return the time chunks of a table; None means one chunk for all time."""
    granularity = Granularity.parse(properties.segment_granularity)
    return None if granularity.is_all or properties.time_column is None else granularity


def _chunk(granularity: Granularity | None, start: int | None) -> tuple[int, int] | None:
    if granularity is None or start is None:
        return None
    return start, granularity.next_boundary(start)


def _cut_into_segments(
    batches: Iterable[pa.RecordBatch],
    *,
    time_column: str | None,
    granularity: Granularity | None,
    target_segment_rows: int,
) -> Iterator[tuple[int | None, dict[str, pa.ChunkedArray]]]:
    """Yield (chunk start in microseconds or None, columns of one segment).

    Memory is bounded by `_BUFFERED_BYTES_MAX` and one segment, whatever the length of the input:
    a full chunk is yielded at once, and the fullest one when all together pass the bound. Nothing
    but the mapping that is yielded holds its rows, so taking a column out of it frees the column.
    """
    chunks: dict[int | None, _Chunk] = {}
    buffered_bytes = 0
    for batch in batches:
        for start, part in _split(batch, time_column, granularity):
            chunk = chunks.setdefault(start, _Chunk())
            chunk.add(part)
            while chunk.row_count >= target_segment_rows:
                yield start, chunk.take(target_segment_rows)
        buffered_bytes = sum(chunk.byte_count for chunk in chunks.values())
        if buffered_bytes > _BUFFERED_BYTES_MAX:
            fullest = max(chunks, key=lambda start: chunks[start].byte_count)
            yield fullest, chunks[fullest].take(chunks[fullest].row_count)
    for start in sorted(chunks, key=lambda start: start or 0):
        if chunks[start].row_count:
            yield start, chunks[start].take(chunks[start].row_count)


@dataclass(slots=True)
class _Chunk:
    """Rows of one time chunk that are not yet written."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    row_count: int = 0
    byte_count: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.row_count += batch.num_rows
        self.byte_count += batch.get_total_buffer_size()

    def take(self, row_count: int) -> dict[str, pa.ChunkedArray]:
        """Return the first rows by column, and keep no hold on them."""
        table = pa.Table.from_batches(self.batches)
        left = table.slice(row_count)
        self.batches = left.to_batches()
        self.row_count = left.num_rows
        self.byte_count = left.nbytes
        taken = table.slice(0, row_count)
        return dict(zip(taken.column_names, taken.columns, strict=True))


def _split(
    batch: pa.RecordBatch, time_column: str | None, granularity: Granularity | None
) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    if time_column is None or granularity is None:
        yield None, batch
        return
    times = time_micros(batch.column(time_column))
    first = granularity.floor_one(int(times[0]))
    if first <= times.min() and times.max() < granularity.next_boundary(first):
        yield first, batch
        return
    for start, rows in rows_by_chunk(times, granularity):
        yield start, batch.take(primitive_array(rows))


def time_micros(times: pa.Array) -> NDArray[np.int64]:
    """Return non-null times as microseconds since 1970-01-01, int64[n]; a date is its midnight."""
    values, _ = arrow_to_numbers(times)
    return values * MICROS_A_DAY if pa.types.is_date32(times.type) else values


def chunk_around(
    interval: tuple[int, int] | None, granularity: Granularity | None
) -> tuple[int, int] | None:
    """Return the chunk of a granularity that an interval begins in; None means all time."""
    if granularity is None or interval is None:
        return None
    start = granularity.floor_one(interval[0])
    return start, granularity.next_boundary(start)


def is_coarser(interval: tuple[int, int] | None, granularity: Granularity | None) -> bool:
    """Whether rows of a segment of this interval may lie in several chunks of a granularity."""
    chunk = chunk_around(interval, granularity)
    if chunk is None or interval is None:
        return granularity is not None
    return interval[1] > chunk[1]


def rows_by_chunk(
    times: NDArray[np.int64], granularity: Granularity
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the start of each chunk, ascending, and which of some times lie in it, int64[n]."""
    starts = granularity.floor(times)
    order = np.argsort(starts, kind="stable")
    distinct, first = np.unique(starts[order], return_index=True)
    ends = [*first[1:], len(starts)]
    for start, begin, end in zip(distinct, first, ends, strict=True):
        yield int(start), order[begin:end]
