"""The bitmap index of a column: for each dictionary id the row ids that hold it.

It is written if it is worth its bytes. SPEC.md section 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.roaring_build import (
    BITMAP_BYTES,
    CONTAINER_ROWS,
    bitmap_sizes,
    postings,
    write_bitmaps,
)
from projseg.kernels.roaring_read import MALFORMED, bitmap_count, read_bitmap
from projseg.kernels.sorting import distinct
from projseg.segment_format.byte_reader import ByteReader, corrupt, padded
from projseg.segment_format.footer import HEAD_LAYOUT, PartEntry

if TYPE_CHECKING:
    from projseg.segment_format.column_writer import PartSink

INDEX_BLOCK_DTYPE: Final = np.dtype(  # SPEC.md section 8.1
    [
        ("file_offset", "<u8"),
        ("stored_bytes", "<u4"),
        ("first_id", "<u4"),
        ("id_count", "<u4"),
        ("reserved", "<u4"),
        ("checksum", "<u8"),
    ]
)
_Found = TypeVar("_Found")
_DENSE_SHARE: Final = 1 / 16  # of the rows, from which a mask sorts faster than sorting

_BLOCK_BYTES: Final = 64 * 1024  # a block is cut at the first bitmap that passes this
_DOUBT: Final = 1.25  # a sample may look this much worse than the whole and still be tried
_CONTAINER_HEADER_BYTES: Final = 4
_SIZE_BYTES: Final = 4  # of a bitmap's size, at the start of its block


class BitmapIndex:
    """Bitmaps of one column, read when asked for. Safe to use from several threads.

    `read_part` takes (entry, name) and returns bytes with a proved checksum; no block passes
    `parts_end` in the file.
    """

    def __init__(
        self,
        directory: bytes,
        *,
        cardinality: int,
        row_count: int,
        parts_end: int,
        read_part: Callable[[PartEntry, str], bytes],
        path: str,
        part_name: str,
    ) -> None:
        self._path, self._part_name = path, f"bitmap index of {part_name}"
        self._cardinality, self._row_count = cardinality, row_count
        self._read_part = read_part
        self.records = self._parse(directory, parts_end)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all blocks on disk."""
        return int(self.records["stored_bytes"].sum(dtype=np.int64))

    def row_ids(self, ids: NDArray[Any]) -> NDArray[np.uint32]:
        """Return the ascending row ids at which the column holds one of `ids`: uint32[k]."""
        pieces = [self._proved(read_bitmap, *bitmap) for bitmap in self._bitmaps(ids)]
        if len(pieces) == 1:
            return pieces[0]
        found = np.concatenate([np.empty(0, np.uint32), *pieces])
        if len(found) < self._row_count * _DENSE_SHARE:
            return np.sort(found)
        is_member = np.zeros(self._row_count, np.bool_)
        is_member[found] = True
        return np.flatnonzero(is_member).astype(np.uint32)

    def count(self, ids: NDArray[Any]) -> int:
        """Return how many rows hold one of `ids`: integer[k], in any order."""
        return sum(self._proved(_count, *bitmap) for bitmap in self._bitmaps(ids))

    def contents(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return all bitmaps back to back, and where each starts: uint8[m], int64[ids + 1]."""
        blocks = [self._block(record) for record in self.records]
        sizes = [np.diff(starts) for starts, _ in blocks]
        starts = np.cumsum(np.concatenate([np.zeros(1, np.int64), *sizes]))
        content = np.frombuffer(b"".join(content for _, content in blocks), np.uint8)
        return content, starts

    def _bitmaps(self, ids: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Yield (id, bytes of its bitmap) of each distinct id."""
        wanted = distinct(np.asarray(ids, dtype=np.int64))
        if len(wanted) and not 0 <= int(wanted[0]) <= int(wanted[-1]) < self._cardinality:
            raise InvalidInputError(
                "PROJSEG_INTERNAL", f"ids {wanted[0]} to {wanted[-1]} of {self._cardinality}"
            )
        blocks = np.searchsorted(self.records["first_id"], wanted, side="right") - 1
        for block in distinct(blocks):
            starts, content = self._block(self.records[block])
            bitmaps = np.frombuffer(content, np.uint8)
            first_id = int(self.records["first_id"][block])
            for wanted_id in wanted[blocks == block].tolist():
                start, end = starts[wanted_id - first_id : wanted_id - first_id + 2]
                yield wanted_id, bitmaps[start:end]

    def _proved(
        self,
        read: Callable[[NDArray[np.uint8], int], _Found | None],
        dictionary_id: int,
        content: NDArray[np.uint8],
    ) -> _Found:
        """Return the result of `read` on a bitmap; it returns None for a malformed one."""
        found = read(content, self._row_count)
        if found is None:
            raise corrupt(self._path, self._part_name, f"bitmap of id {dictionary_id} is malformed")
        return found

    def _block(self, record: Any) -> tuple[NDArray[np.int64], memoryview]:
        """Return where each bitmap of a block starts, the end of the last one, and their bytes."""
        part = PartEntry(
            int(record["file_offset"]), int(record["stored_bytes"]), int(record["checksum"])
        )
        content = memoryview(self._read_part(part, self._part_name))
        reader = ByteReader(content, path=self._path, part_name=self._part_name)
        sizes = reader.array("<u4", int(record["id_count"])).astype(np.int64)
        reader.require(int(sizes.sum()) == reader.bytes_left, "bitmap sizes do not fill the block")
        starts = np.cumsum(np.concatenate([np.zeros(1, np.int64), sizes]))
        return starts, reader.take(reader.bytes_left)

    def _parse(self, directory: bytes, parts_end: int) -> NDArray[Any]:
        if len(directory) % INDEX_BLOCK_DTYPE.itemsize:
            raise corrupt(self._path, self._part_name, "directory is cut short")
        records = np.frombuffer(directory, INDEX_BLOCK_DTYPE)
        ends = records["first_id"].astype(np.int64) + records["id_count"]
        starts = np.concatenate([[0], ends[:-1]])
        parts_past = records["file_offset"] + records["stored_bytes"].astype(np.uint64) > parts_end
        bad = (
            (records["first_id"] != starts).any()
            or (records["id_count"] == 0).any()
            or (records["reserved"] != 0).any()
            or (records["file_offset"] > parts_end).any()
            or (records["file_offset"] < HEAD_LAYOUT.size).any()
            or parts_past.any()
            or int(ends[-1] if len(ends) else 0) != self._cardinality
        )
        if bad:
            raise corrupt(self._path, self._part_name, "blocks do not cover the dictionary")
        return records


def _count(content: NDArray[np.uint8], row_count: int) -> int | None:
    count = bitmap_count(content, row_count)
    return None if count == MALFORMED else count


class IndexBlock(NamedTuple):
    """The bitmaps of neighbouring ids, as they are stored."""

    content: bytes
    first_id: int
    id_count: int


def index_blocks(ids: NDArray[Any], cardinality: int, bytes_max: int) -> list[IndexBlock]:
    """Return the index of a column if it takes no more than `bytes_max`, or nothing.

    The limit is the bytes of the column's own pages, or one bit a row.
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
