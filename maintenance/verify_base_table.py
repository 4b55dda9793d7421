"""Check a segment's column zones, time range, row order and indexes against its rows.

Bloom files that a version lists, and postings, are deeply compared with those made anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.evaluation.rows import RowRange
from projseg.maintenance.uncached_segment import PagedSource, stored_filter
from projseg.segment_format.arrow_arrays import primitive_array
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.file.postings import (
    BuiltPostings,
    StoredPostings,
    build_postings,
    column_postings,
)
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE
from projseg.segment_format.indexes.bloom_file import (
    BUILT,
    Band,
    BloomFile,
    SegmentFilter,
    SegmentSlot,
    stripes,
)
from projseg.segment_format.logical_types import (
    MICROS_A_DAY,
    arrow_to_numbers,
    numbers_to_arrow,
    parse_type_name,
)
from projseg.segment_format.vectors import Ids, Numbers, Opaque, Vector
from projseg.table_layer.commits.footer_match import Mismatch, open_uncached
from projseg.table_layer.coverage import read_bloom
from projseg.table_layer.indexed_columns import WantedFilter, wanted_filters
from projseg.table_layer.metadata.segment_entry import BloomReference, ColumnZone, SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import TableSchema, stored_schema
from projseg.writer.column_vectors import zone_of
from projseg.writer.sort_order import sort_keys

_ZONE_FIELDS: Final = {
    "min": "minimum",
    "max": "maximum",
    "null_count": "null count",
    "has_nan": "whether a value is NaN",
    "exact": "whether bounds are values",
}

_HELD_BYTES_MAX: Final = 64 << 20


def column_mismatches(
    entry: SegmentEntry, segment: SegmentFile, time_column: str | None
) -> Iterator[Mismatch]:
    """Yield where an entry's zones and time range are not those of the segment's rows.

    Memory is that of a page and of one dictionary.
    """
    for column in segment.tables[0].columns:
        scan = _ColumnScan(parse_type_name(column.type))
        for page in range(len(segment.directory(BASE_TABLE, "base", column.name))):
            scan.add(segment.column(BASE_TABLE, "base", column.name, page, page + 1))
        stated = entry.columns.get(column.name)
        if stated is not None:
            found = scan.zone(stated.bytes)
            for field, words in _ZONE_FIELDS.items():
                claim, fact = getattr(stated, field), getattr(found, field)
                if claim != fact:
                    yield Mismatch(f"{words} of column '{column.name}'", claim, fact)
        if column.name == time_column:
            times = scan.time_bounds()
            if (entry.min_time_us, entry.max_time_us) != times:
                claim = (entry.min_time_us, entry.max_time_us)
                yield Mismatch("smallest and largest time", claim, times)


class _ColumnScan:
    """Bounds, nulls and NaN of a column, gathered page by page."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._type = arrow_type
        self._dictionary: Dictionary | None = None
        self._is_opaque = False
        self._bounds: tuple[Any, Any] | None = None  # ids, or numbers in their fixed-width form
        self._null_count = 0
        self._has_nan = False

    def add(self, vector: Vector) -> None:
        """Take in the next rows."""
        match vector:
            case Ids():
                self._dictionary = vector.dictionary
                self._add_ids(vector)
            case Numbers():
                self._add_numbers(vector)
            case Opaque():
                self._is_opaque = True
                self._null_count += vector.array.null_count

    def zone(self, byte_count: int) -> ColumnZone:
        """Return the zone that a manifest must state for the column."""
        if self._is_opaque:
            return ColumnZone(None, None, self._null_count, False, False, byte_count)
        return zone_of(self._ends(), self._null_count, self._has_nan, byte_count)

    def time_bounds(self) -> tuple[int | None, int | None]:
        """Return the smallest and largest value of a time column, in microseconds."""
        values, _ = arrow_to_numbers(self._ends())
        unit = MICROS_A_DAY if pa.types.is_date32(self._type) else 1
        return (int(values[0]) * unit, int(values[1]) * unit) if len(values) else (None, None)

    def _ends(self) -> pa.Array:
        """Return the smallest and the largest value; nothing if there is none."""
        bounds = [] if self._bounds is None else list(self._bounds)
        if self._dictionary is not None:
            return self._dictionary.values.take(primitive_array(np.array(bounds, np.int64)))
        dtype: Any = object
        if pa.types.is_floating(self._type):
            dtype = np.float32 if pa.types.is_float32(self._type) else np.float64
        return numbers_to_arrow(np.array(bounds, dtype), self._type)

    def _add_ids(self, vector: Ids) -> None:
        dictionary, ids = vector.dictionary, vector.ids
        if dictionary.has_null:
            self._null_count += int(np.count_nonzero(ids == 0))
            ids = ids[ids != 0]
        if len(dictionary) and pa.types.is_floating(dictionary.type):
            last = len(dictionary) - 1
            if np.isnan(dictionary.values[last].as_py() or 0.0):
                self._has_nan |= bool((ids == last).any())
                ids = ids[ids != last]
        self._widen(ids)

    def _add_numbers(self, vector: Numbers) -> None:
        values = vector.wide()
        if vector.validity is not None:
            self._null_count += int(np.count_nonzero(~vector.validity))
            values = values[vector.validity]
        if values.dtype.kind == "f":
            nans = np.isnan(values)
            self._has_nan |= bool(nans.any())
            values = values[~nans]
        self._widen(values)

    def _widen(self, values: NDArray[Any]) -> None:
        if len(values):
            low, high = values.min(), values.max()
            if values.dtype.kind != "f":
                low, high = int(low), int(high)
            if self._bounds is not None:
                low, high = min(low, self._bounds[0]), max(high, self._bounds[1])
            self._bounds = low, high


def order_mismatches(segment: SegmentFile) -> Iterator[Mismatch]:
    """Yield where base rows do not ascend by the columns that the footer says sort them."""
    names = segment.tables[0].sort_order
    before: list[NDArray[Any]] = []
    for rows in PagedSource(segment, TableSchema(segment.schema)).batches() if names else ():
        vectors = [rows.vector(name) for name in names]
        if not all(isinstance(vector, Ids | Numbers) for vector in vectors):
            yield Mismatch("sort order", names, "a column that has no order")
            return
        values = [key for v in vectors if isinstance(v, Ids | Numbers) for key in sort_keys(v)]
        first = rows.selection.start if isinstance(rows.selection, RowRange) else 0
        if before:
            first -= 1
            values = [np.concatenate(pair) for pair in zip(before, values, strict=True)]
        descent = first_descent(values)
        if descent is not None:
            yield Mismatch(
                f"rows sorted by {', '.join(names)}", "ascending", f"row {first + descent}"
            )
            return
        before = [column[-1:] for column in values]


def first_descent(columns: list[NDArray[Any]]) -> int | None:
    """Return the first row that sorts before the one in front of it, by the first column first."""
    count = max(len(columns[0]) - 1, 0)
    is_tied, is_lower = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    for column in columns:
        left, right = column[:-1], column[1:]
        lower, equal = right < left, right == left
        if column.dtype.kind == "f":  # NaN is the greatest value, and equal to itself
            nan_left, nan_right = np.isnan(left), np.isnan(right)
            lower, equal = lower | (nan_left & ~nan_right), equal | (nan_left & nan_right)
        is_lower |= is_tied & lower
        is_tied &= equal
    found = np.flatnonzero(is_lower)
    return int(found[0]) + 1 if len(found) else None


def bloom_mismatches(
    snapshot: Snapshot, listed: BloomReference, entries: Mapping[str, SegmentEntry] | None
) -> Iterator[Mismatch]:
    """Yield where a Bloom file differs from the snapshot's list, or its filters are wrong.

    Filters are made anew from `entries`, segments by file, and not compared without. Raises
    ProjsegError or OSError if the file cannot be read.
    """
    file = read_bloom(snapshot.storage, listed)
    file.verify(partial(snapshot.storage.read_range, listed.name))
    if entries is None:
        return
    digest = listed.definition_hash
    for wanted in wanted_filters(snapshot.properties):
        if wanted.definition.definition_hash != digest:
            continue
        for number, band in enumerate(file.footer.bands):
            slots = [
                one
                for one in file.footer.segments
                if one.band == number and one.file in entries and entries[one.file].foreign is None
            ]
            yield from _differing(snapshot, listed, file, band, slots, wanted, entries)


def _differing(
    snapshot: Snapshot,
    listed: BloomReference,
    file: BloomFile,
    band: Band,
    slots: list[SegmentSlot],
    wanted: WantedFilter,
    entries: Mapping[str, SegmentEntry],
) -> Iterator[Mismatch]:
    """Yield the segments of a band whose filter is another than one made anew."""
    schema = stored_schema(snapshot.properties)
    at_once = max(1, _HELD_BYTES_MAX // (band.blocks * 32))
    for start in range(0, len(slots), at_once):
        made: dict[int, SegmentFilter] = {}
        for slot in slots[start : start + at_once]:
            entry = entries[slot.file]
            segment = open_uncached(snapshot.storage, entry)
            anew = stored_filter(entry, segment, schema, wanted)
            if anew.status == BUILT and anew.key_count != slot.key_count:
                what = f"keys of segment {slot.file}"
                yield Mismatch(what, slot.key_count, anew.key_count)
            elif anew.blocks is not None and slot.slot is not None:
                made[slot.slot] = anew
        wrong = set[int]()
        for first, end in stripes(band):
            rows = file.stripe(band, first, end, partial(snapshot.storage.read_range, listed.name))
            for number, one in made.items():
                if one.blocks is not None and not np.array_equal(
                    rows[:, number], one.blocks[first:end]
                ):
                    wrong.add(number)
        for number in sorted(wrong):
            what = f"filter of segment {made[number].file}"
            yield Mismatch(what, "that of its values", "another")


def postings_mismatches(segment: SegmentFile) -> Iterator[Mismatch]:
    """Yield the postings of a segment that are not those of its values."""
    for column in segment.tables[0].columns:
        for stored in column_postings(segment, BASE_TABLE, "base", column.name):
            if stored.definition.column_name != column.name:
                continue
            made = build_postings(
                stored.definition, segment.column(BASE_TABLE, "base", column.name)
            )
            if isinstance(made, str) or not _are_equal(made, stored):
                what = f"{stored.definition.kind} postings of column '{column.name}'"
                yield Mismatch(what, "those of its values", "others")


def _are_equal(made: BuiltPostings, stored: StoredPostings) -> bool:
    if not made.keys.values.equals(stored.keys.values):
        return False
    start = 0
    for keys, places in stored.pages():
        end = start + len(keys)
        if not np.array_equal(made.key_ids[start:end], keys):
            return False
        if not np.array_equal(made.places[start:end], places):
            return False
        start = end
    return start == len(made.places)
