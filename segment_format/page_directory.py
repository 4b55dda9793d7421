"""The directory of a column's pages: where each lies, and its zone map, so it can be skipped.

A directory holds no data and is checked as a whole, so that a plan over many pages stays cheap. A
page has one record of fixed width. Zone maps can be read as those of a wider type. SPEC.md 5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.kernels.sorting import as_doubles
from projseg.segment_format.byte_reader import ALIGNMENT, corrupt
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.footer import HEAD_LAYOUT
from projseg.segment_format.format_limits import PAGE_RAW_BYTES_MAX, PAGE_ROWS_MAX
from projseg.segment_format.logical_types import DOUBLE_DIGITS, INTEGER_DIGITS, arrow_to_numbers
from projseg.segment_format.vectors import Ids, Numbers, Opaque, Vector

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

_RECORD: Final = struct.Struct("<Q4I4BI2qQ")  # as PAGE_DTYPE

HAS_BOUNDS: Final = 1  # flags: `minimum` and `maximum` are set
HAS_NAN: Final = 2  # flags: a value is NaN
FLAGS_KNOWN: Final = HAS_BOUNDS | HAS_NAN

_DOUBLE: Final = pa.float64()


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


_ROW_COUNT: Final = PageRecord._fields.index("row_count")


class PageDirectory(msgspec.Struct, frozen=True, eq=False):
    """The pages of one column or dictionary, in row order, checked by `parse`.

    `row_starts` has the first row of each page, and the row count.
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
        """Read and check a directory; no page may lie beyond `pages_end` in the file.

        If `is_uniform`, every page but the last must hold PAGE_ROWS_MAX rows. `where` begins the
        error: "path: name of the part".
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
    """Yield the problems of the records."""
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


class PageZones(msgspec.Struct, frozen=True, eq=False):
    """Zone maps of the p pages of a column, the first row of each page, and the row count.

    Bounds, int64 or float64, are of values that are neither null nor NaN: dictionary ids for an Ids
    column (there the null's id counts), else values in their fixed-width form. They are 0 where
    `has_bounds` is false: there is no such value, or one passes 64 bits.
    """

    row_starts: NDArray[np.int64]
    minimum: NDArray[Any]
    maximum: NDArray[Any]
    has_bounds: NDArray[np.bool_]
    null_count: NDArray[np.int64]
    has_nan: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.minimum)

    @property
    def nbytes(self) -> int:
        """Bytes held, the directory's `row_starts` not counted."""
        arrays = (self.minimum, self.maximum, self.has_bounds, self.null_count, self.has_nan)
        return sum(array.nbytes for array in arrays)

    def holds_wide(self) -> NDArray[np.bool_]:
        """Return which pages hold values that pass 64 bits, bool[p]: nothing bounds those pages."""
        has_values = self.null_count < np.diff(self.row_starts)
        return has_values & ~self.has_bounds & ~self.has_nan


def page_zones(directory: PageDirectory, arrow_type: pa.DataType, *, is_numbers: bool) -> PageZones:
    """Return the zone maps a directory records."""
    records = directory.records
    dtype = np.float64 if is_numbers and pa.types.is_floating(arrow_type) else np.int64
    return PageZones(
        directory.row_starts,
        records["minimum"].copy().view(dtype),
        records["maximum"].copy().view(dtype),
        records["flags"] & HAS_BOUNDS != 0,
        records["null_count"].astype(np.int64),
        records["flags"] & HAS_NAN != 0,
    )


def float_bounds(values: NDArray[Any]) -> tuple[int, int, bool] | None:
    """Return (minimum, maximum) of float[n] as bits of doubles, and whether a value is NaN.

    None if every value is NaN. -0.0 counts as 0.0, so that equal values have equal bounds.
    """
    has_nan = bool(np.isnan(values).any())
    known = values[~np.isnan(values)] if has_nan else values
    if len(known) == 0:
        return None
    bounds = np.array([known.min(), known.max()], np.float64) + 0.0
    low, high = bounds.view(np.int64).tolist()
    return low, high, has_nan


def may_widen(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether every value of one type is a value of another, which sorts as the first does.

    Integers become wider integers, decimals of scale 0 and, up to int, doubles; float becomes
    double; a decimal gets more digits before its point.
    """
    if narrow in INTEGER_DIGITS:
        digits = INTEGER_DIGITS[narrow]
        if wide in INTEGER_DIGITS:
            return INTEGER_DIGITS[wide] > digits
        if pa.types.is_decimal(wide):
            return bool(wide.scale == 0 and wide.precision >= digits)
        return bool(wide == _DOUBLE and digits <= DOUBLE_DIGITS)
    if pa.types.is_decimal(narrow) and pa.types.is_decimal(wide):
        return bool(wide.scale == narrow.scale and wide.precision > narrow.precision)
    return bool(narrow == pa.float32() and wide == _DOUBLE)


def keeps_ids(wide: pa.DataType) -> bool:
    """Whether columns of dictionary ids stay so when their values get this type."""
    return bool(wide != _DOUBLE)  # doubles are stored as numbers always


def widened(vector: Vector, wide: pa.DataType) -> Vector:
    """Return a vector with its values in a type that `may_widen` allows."""
    match vector:
        case Ids() if keeps_ids(wide):
            return Ids(vector.ids, widened_dictionary(vector.dictionary, wide))
        case Numbers() if wide != _DOUBLE:
            return replace(vector, type=wide)
        case Numbers():
            doubles = as_doubles(vector.wide())
            return Numbers(doubles, wide, validity=vector.validity)
        case Opaque():
            return Opaque(vector.array.cast(wide))
    values, validity = arrow_to_numbers(vector.to_arrow().cast(wide))
    return Numbers(values, wide, validity=validity)


def widened_dictionary(dictionary: Dictionary, wide: pa.DataType) -> Dictionary:
    """Return a dictionary of the same ids; stored hashes depend on the type and are left out."""
    return Dictionary(dictionary.values.cast(wide))


def widened_zones(zones: PageZones, wide: pa.DataType) -> PageZones:
    """Return the zone maps of pages of numbers, as they are for values of a wider type."""
    if wide != _DOUBLE:
        return zones
    low, high = (ends.astype(np.float64) for ends in (zones.minimum, zones.maximum))
    return replace(zones, minimum=low, maximum=high)
