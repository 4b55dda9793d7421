"""Cut rows by segment granularity and gather them until a segment is full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.time.zoned_buckets import Granularity
from projseg.segment_format.layout.logical_types import MICROS_A_DAY, arrow_to_numbers
from projseg.segment_format.vectors.arrow_arrays import primitive_array

# Buffered bytes above which the fullest chunk is written early, even with few rows.
BUFFERED_BYTES_MAX: Final = 2 << 30


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


def time_micros(times: pa.Array) -> NDArray[np.int64]:
    """Return non-null times as microseconds since 1970-01-01, int64[n]; a date is its midnight."""
    values, _ = arrow_to_numbers(times)
    return values * MICROS_A_DAY if pa.types.is_date32(times.type) else values


def chunk_around(
    interval: tuple[int, int] | None, granularity: Granularity | None
) -> tuple[int, int] | None:
    """Return the chunk of a granularity that an interval begins in; None: all time."""
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


def cut_into_segments(
    batches: Iterable[pa.RecordBatch],
    *,
    time_column: str | None,
    granularity: Granularity | None,
    target_segment_rows: int,
) -> Iterator[tuple[int | None, dict[str, pa.ChunkedArray]]]:
    """Yield (chunk start in microseconds or None, columns of one segment).

    Memory is bounded by `BUFFERED_BYTES_MAX` and one segment, whatever the length of the input:
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
        if buffered_bytes > BUFFERED_BYTES_MAX:
            fullest = max(chunks, key=lambda start: chunks[start].byte_count)
            yield fullest, chunks[fullest].take(chunks[fullest].row_count)
    for start in sorted(chunks, key=lambda start: start or 0):
        if chunks[start].row_count:
            yield start, chunks[start].take(chunks[start].row_count)


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
