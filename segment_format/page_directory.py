"""The fixed-width records that say where a column's pages lie and what they must hold.

A directory holds no data and is checked as a whole, so that a plan over many pages stays cheap.
SPEC.md section 5.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from projseg.segment_format.byte_reader import ALIGNMENT, corrupt
from projseg.segment_format.frame import HEAD_LAYOUT
from projseg.segment_format.limits import PAGE_RAW_BYTES_MAX, PAGE_ROWS_MAX

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
        records = np.frombuffer(content, PAGE_DTYPE)
        rows = records["row_count"].astype(np.int64)
        if problem := _problem(records, rows, pages_end):
            raise corrupt(path, part_name, problem)
        row_starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows)])
        if int(row_starts[-1]) != row_count:
            raise corrupt(path, part_name, f"pages hold {row_starts[-1]} rows, not {row_count}")
        if is_uniform and (rows[:-1] != PAGE_ROWS_MAX).any():
            raise corrupt(path, part_name, f"a page before the last has not {PAGE_ROWS_MAX} rows")
        return cls(records, row_starts)


def _problem(records: NDArray[Any], rows: NDArray[np.int64], pages_end: int) -> str | None:
    """Return what is wrong with the records, or None."""
    if len(records) == 0:
        return None
    offsets, stored = records["file_offset"], records["stored_bytes"].astype(np.uint64)
    ends = offsets + stored
    aligned_ends = (ends + np.uint64(ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT
    unbounded = records["flags"] & HAS_BOUNDS == 0
    problems = {
        f"a page ends past byte {pages_end}": (offsets > pages_end) | (ends > pages_end),
        f"the first page starts at byte {offsets[0]}": (
            (offsets[:1] < HEAD_LAYOUT.size) | (offsets[:1] % ALIGNMENT != 0)
        ),
        "a page does not start where the one before it ends": offsets[1:] != aligned_ends[:-1],
        "a page claims too many raw bytes": records["raw_bytes"] > PAGE_RAW_BYTES_MAX,
        f"a page claims {rows.min()} to {rows.max()} rows": (rows < 1) | (rows > PAGE_ROWS_MAX),
        "a page claims more nulls than rows": records["null_count"] > records["row_count"],
        "a reserved bit is set": (
            (records["flags"] & ~np.uint8(FLAGS_KNOWN) != 0) | (records["reserved"] != 0)
        ),
        "a page without bounds states some": (
            unbounded & ((records["minimum"] != 0) | (records["maximum"] != 0))
        ),
    }
    return next((problem for problem, found in problems.items() if found.any()), None)
