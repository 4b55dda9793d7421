"""Make and write the bitmap index of a column, if it is worth its bytes. SPEC.md section 8."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.roaring_build import (
    BITMAP_BYTES,
    CONTAINER_ROWS,
    bitmap_sizes,
    postings,
    write_bitmaps,
)
from projseg.segment_format.indexes.bitmap_index import INDEX_BLOCK_DTYPE
from projseg.segment_format.layout.byte_reader import padded

if TYPE_CHECKING:
    from projseg.segment_format.pages.column_writer import PartSink

_BLOCK_BYTES: Final = 64 * 1024  # a block is cut at the first bitmap that passes this
_DOUBT: Final = 1.25  # a sample may look this much worse than the whole and still be tried
_CONTAINER_HEADER_BYTES: Final = 4
_SIZE_BYTES: Final = 4  # of a bitmap's size, at the start of its block


class IndexBlock(NamedTuple):
    """The bitmaps of neighbouring ids, as they are stored."""

    content: bytes
    first_id: int
    id_count: int


def index_blocks(ids: NDArray[Any], cardinality: int, bytes_max: int) -> list[IndexBlock]:
    """Return the index of a column if it takes no more than `bytes_max`, or nothing.

    Parameters
    ----------
    ids : unsigned[n]
        Dictionary ids, each below `cardinality`.
    cardinality : int
    bytes_max : int
        Most bytes of the index: those of the column's own pages, or one bit a row.
    """
    if not _may_pay(ids, cardinality, bytes_max):
        return []
    rows = postings(ids, cardinality)
    sizes = bitmap_sizes(rows)
    if int(sizes.sum()) + _SIZE_BYTES * cardinality > bytes_max:
        return []
    content = write_bitmaps(rows, sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    blocks = []
    for first, end in _blocks(sizes):
        lengths = sizes[first:end].astype("<u4").tobytes()
        block = padded(lengths) + content[starts[first] : starts[end]].tobytes()
        blocks.append(IndexBlock(block, first, end - first))
    return blocks


def write_index(sink: PartSink, blocks: Sequence[IndexBlock]) -> bytes:
    """Write the blocks of an index; return their directory, empty if there are none."""
    records = []
    for block in blocks:
        part = sink.part(block.content)
        place = part.file_offset, part.byte_count
        records.append((*place, block.first_id, block.id_count, 0, part.checksum))
    return np.array(records, INDEX_BLOCK_DTYPE).tobytes()


def _may_pay(ids: NDArray[Any], cardinality: int, bytes_max: int) -> bool:
    """Whether an index could be small enough, judged from the rows in the middle of the column.

    Every id costs a header, and so does every container of it; there each run costs two bytes at
    least, until the container is a full bitmap.
    """
    if cardinality < 2 or len(ids) == 0 or (8 + _SIZE_BYTES) * cardinality > bytes_max:
        return False
    middle = max(0, len(ids) - CONTAINER_ROWS) // 2
    sample = ids[middle : middle + CONTAINER_ROWS]
    starts = np.flatnonzero(sample[1:] != sample[:-1]) + 1
    runs = np.bincount(sample[starts])
    containers = np.minimum(2 * runs, BITMAP_BYTES)[runs > 0] + _CONTAINER_HEADER_BYTES
    return float(containers.sum()) * len(ids) / len(sample) <= _DOUBT * bytes_max


def _blocks(sizes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield [first, end) of the ids of each block."""
    ends = np.cumsum(sizes + _SIZE_BYTES)
    first = 0
    while first < len(sizes):
        limit = (ends[first - 1] if first else 0) + _BLOCK_BYTES
        end = max(first + 1, int(np.searchsorted(ends, limit, side="right")))
        yield first, end
        first = end
