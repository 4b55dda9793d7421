"""The fixed-width records that say where a column's pages lie and what they must hold.

A directory holds no data and is checked as a whole, so that a plan over many pages stays cheap.
SPEC.md section 5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from projseg.segment_format.layout.byte_reader import ALIGNMENT, corrupt
from projseg.segment_format.layout.format_limits import PAGE_RAW_BYTES_MAX, PAGE_ROWS_MAX
from projseg.segment_format.layout.frame import HEAD_LAYOUT

PAGE_DTYPE: Final = np.dtype(  # SPEC.md section 5.1
    [
        ("file_offset", "<u8"),
        ("stored_bytes", "<u4"),
        ("raw_bytes", "<u4"),
        ("row_count", "<u4"),
        ("null_count", "<u4"),
        ("encoding", "u1"),
        ("compression", "u1"),
        ("validity", "u1"),
        ("flags", "u1"),
        ("reserved", "<u4"),
        ("minimum", "<i8"),
        ("maximum", "<i8"),
        ("checksum", "<u8"),
    ]
)


class PageRecord(NamedTuple):
    """One record of a directory as Python's own values: NumPy takes longer for each of a few."""

    file_offset: int
    stored_bytes: int
    raw_bytes: int
    row_count: int
    null_count: int
    encoding: int
    compression: int
    validity: int
    flags: int
    reserved: int
    minimum: int
    maximum: int
    checksum: int


_RECORD: Final = struct.Struct("<Q4I4BI2qQ")  # as PAGE_DTYPE

_ROW_COUNT: Final = PageRecord._fields.index("row_count")

HAS_BOUNDS: Final = 1  # flags: `minimum` and `maximum` are set
HAS_NAN: Final = 2  # flags: a value is NaN
FLAGS_KNOWN: Final = HAS_BOUNDS | HAS_NAN


class PageDirectory(msgspec.Struct, frozen=True, eq=False):
    """The pages of one column or dictionary, in row order.

    Parameters
    ----------
    records : PAGE_DTYPE[page_count]
        Checked by `parse`.
    row_starts : int64[page_count + 1]
        First row of each page, and the row count.
    """

    records: NDArray[Any]
    row_starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.records)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all pages on disk."""
        return int(self.records["stored_bytes"].sum())

    @classmethod
    def parse(
        cls, content: bytes, *, row_count: int, is_uniform: bool, pages_end: int, where: str
    ) -> PageDirectory:
        """Read and prove a directory.

        Parameters
        ----------
        content : bytes
            The records.
        row_count : int
            Rows all pages hold together.
        is_uniform : bool
            Whether every page but the last must hold PAGE_ROWS_MAX rows.
        pages_end : int
            The file offset that no page passes.
        where : str
            "path: name of the part", for the error.

        Raises
        ------
        CorruptSegmentError
            If a record contradicts another, a limit, or the counts given.
        """
        path, part_name = where, "page directory"
        if len(content) % PAGE_DTYPE.itemsize:
            raise corrupt(path, part_name, f"{len(content)} bytes are no whole number of records")
        for problem in _problems(content, pages_end):
            raise corrupt(path, part_name, problem)
        rows = [record[_ROW_COUNT] for record in _RECORD.iter_unpack(content)]
        if sum(rows) != row_count:
            raise corrupt(path, part_name, f"pages hold {sum(rows)} rows, not {row_count}")
        if is_uniform and any(count != PAGE_ROWS_MAX for count in rows[:-1]):
            raise corrupt(path, part_name, f"a page before the last has not {PAGE_ROWS_MAX} rows")
        row_starts = np.array([*accumulate(rows, initial=0)], np.int64)
        return cls(np.frombuffer(content, PAGE_DTYPE), row_starts)


def directory_bytes(directory: bytes) -> int:
    """Return the stored bytes of the pages of a directory, which need not be proved."""
    count = len(directory) // PAGE_DTYPE.itemsize
    return int(np.frombuffer(directory, PAGE_DTYPE, count)["stored_bytes"].sum())


def _problems(content: bytes, pages_end: int) -> Iterator[str]:
    """Yield what is wrong with the records."""
    next_offset = None
    for record in _RECORD.iter_unpack(content):
        offset, stored, raw, rows, nulls, _, _, _, flags, reserved, minimum, maximum, _ = record
        end = offset + stored
        if end > pages_end:
            yield f"a page ends past byte {pages_end}"
        if next_offset is None and (offset < HEAD_LAYOUT.size or offset % ALIGNMENT):
            yield f"the first page starts at byte {offset}"
        if offset != (next_offset or offset):
            yield "a page does not start where the one before it ends"
        next_offset = -(-end // ALIGNMENT) * ALIGNMENT
        if raw > PAGE_RAW_BYTES_MAX:
            yield "a page claims too many raw bytes"
        if not 1 <= rows <= PAGE_ROWS_MAX:
            yield f"a page claims {rows} rows"
        if nulls > rows:
            yield "a page claims more nulls than rows"
        if flags & ~FLAGS_KNOWN or reserved:
            yield "a reserved bit is set"
        if not flags & HAS_BOUNDS and (minimum or maximum):
            yield "a page without bounds states some"
