"""One table of a stored segment as a source of columns, decoded on demand and cached."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.evaluation.arrow_vectors import concat_vectors, vector_of_array
from projseg.evaluation.rows import MaskedRows, RowRange, Rows
from projseg.kernels.sorting import distinct
from projseg.memory.cache import KEPT, CacheKey
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.file.column_view import ColumnView
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE, ROW_NUMBER, Role
from projseg.segment_format.format_limits import PAGE_ROWS_MAX, expanded_bytes_max
from projseg.segment_format.indexes.bitmap_index import BitmapIndex
from projseg.segment_format.page_directory import PageZones
from projseg.segment_format.vectors import Ids, Numbers, Vector
from projseg.table_layer.commits.verify_entries import FetchedRanges
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.table_layer.storage.storage_contract import ByteRange

if TYPE_CHECKING:
    from projseg.table_layer.foreign.foreign_segment import ForeignSegment

# Below this share of a column's pages, only those pages are decoded.
_PAGE_SHARE_MAX: Final = 0.25
# Bytes of one decoded row, an upper bound for most columns.
_ROW_BYTES: Final = 8
# Row ids that spread wider than this are fetched in pieces, if the column is not decoded whole.
_SPARSE_ROWS_MIN: Final = 4 * PAGE_ROWS_MAX
# Columns of fewer rows are kept at their first read.
_PASSING_ROWS_MIN: Final = 8 * PAGE_ROWS_MAX


class SegmentSource(msgspec.Struct, frozen=True):
    """The base table (`__base`) or a projection of one segment.

    `deleted` are the base rows that no answer counts, ascending; a projection of groups has none,
    as its states are freed of them. `part` bounds the rows to read: pages of other rows are not
    decoded. With `reads_few`, columns are not decoded whole for a few rows; columns in `passing`
    are decoded by pages and not kept for later queries.
    """

    segment: SegmentFile | ColumnView | ForeignSegment
    table_name: str
    row_count: int
    schema: TableSchema
    deleted: NDArray[np.uint32] | None = None
    part: RowRange | None = None
    reads_few: bool = False
    passing: frozenset[str] = frozenset()

    def live(self, rows: Rows) -> MaskedRows:
        """Return some rows of this source without those that are deleted."""
        if self.deleted is None or len(rows) == 0:
            return MaskedRows(rows)
        if self.table_name != BASE_TABLE:
            return MaskedRows(rows, ~np.isin(row_numbers(rows), self.deleted))
        selection = rows.selection
        mask = np.ones(len(rows), np.bool_)
        if isinstance(selection, RowRange):
            ends = np.array([selection.start, selection.end], np.uint32)
            first, end = np.searchsorted(self.deleted, ends)
            mask[self.deleted[first:end] - np.uint32(selection.start)] = False
        else:
            places = np.searchsorted(self.deleted, selection.ids)
            places[places == len(self.deleted)] = 0
            mask = self.deleted[places] != selection.ids
        return MaskedRows(rows, mask)

    @property
    def page_count(self) -> int:
        """Pages of a column that has no oversized values."""
        return -(-self.row_count // PAGE_ROWS_MAX)

    @property
    def whole_bytes_max(self) -> int:
        """Bytes that columns decoded whole may take: a fixed multiple of the file's size."""
        return expanded_bytes_max(self.segment.byte_count)

    def is_sorted_by(self, name: str) -> bool:
        """Whether the rows ascend by a column that is no state, nulls first."""
        return self.segment.is_sorted_by(self.table_name, self._role(is_state=False), name)

    def value_bytes(self, name: str, *, is_state: bool = False) -> int:
        """Return the bytes of one decoded row of a column, an upper bound for most columns."""
        role = self._role(is_state)
        if self._is_absent(role, name):
            return 1
        return self.segment.value_bytes(self.table_name, role, name)

    def is_whole(self, name: str, *, is_state: bool = False) -> bool:
        """Whether the column is decoded and kept whole, and not some pages at a time."""
        value_bytes = self.value_bytes(name, is_state=is_state)
        return self.row_count * value_bytes <= self.whole_bytes_max

    def vector(self, name: str, *, is_state: bool = False, may_keep: bool = True) -> Vector:
        """Return a whole column; one that the base rows of the segment lack is null.

        It is kept for later queries, unless `may_keep` is false or it is passing.
        """
        role = self._role(is_state)
        if self._is_absent(role, name):
            return null_vector(self.schema.field(name).type, self.row_count)
        key = self._cache_key("column", role, name)
        known: Vector | None = KEPT.get(key)
        if known is not None:
            return known
        if not may_keep or name in self.passing:
            return self.segment.column(self.table_name, role, name)
        return self._cached(key, self._load(role, name))

    def _cached(self, key: CacheKey, vector: Vector) -> Vector:
        owner = self.segment.owner
        assert owner is not None, "segments of a table are opened to be kept"
        kept: Vector = KEPT.put(key, vector, vector.nbytes, owners=(owner,))
        return kept

    def _load(self, role: Role, name: str) -> Vector:
        vector = self.segment.column(self.table_name, role, name)
        return vector.with_bounds() if isinstance(vector, Numbers) else vector

    def vector_of_rows(
        self, name: str, row_ids: NDArray[np.uint32], *, is_state: bool = False
    ) -> Vector:
        """Return a column at `row_ids`, uint32[k] ascending; pages without them are not decoded."""
        if len(row_ids) == 0:
            return self.vector_of_range(name, 0, 0, is_state=is_state)
        first, end = int(row_ids[0]), int(row_ids[-1]) + 1
        if end - first > _SPARSE_ROWS_MIN and not self.is_whole(name, is_state=is_state):
            return self._of_few_rows(name, row_ids, is_state, _SPARSE_ROWS_MIN)
        if end - first > PAGE_ROWS_MAX and self._is_in_few_pages(name, row_ids, is_state):
            return self._of_few_rows(name, row_ids, is_state, PAGE_ROWS_MAX)
        vector = self.vector_of_range(name, first, end, is_state=is_state)
        return vector.take(row_ids - np.uint32(first) if first else row_ids)

    def _is_in_few_pages(self, name: str, row_ids: NDArray[np.uint32], is_state: bool) -> bool:
        """Whether to decode the pages of some rows alone, as the column is not in memory."""
        if self.is_cached(name, is_state=is_state):
            return False
        if name in self.passing or not self.reads_few:
            return name in self.passing
        pages = distinct(row_ids // PAGE_ROWS_MAX)
        return len(pages) < self.page_count * _PAGE_SHARE_MAX

    def _of_few_rows(self, name: str, ids: NDArray[np.uint32], is_state: bool, step: int) -> Vector:
        """Return a column at row ids that lie far apart, read by ranges of `step` rows."""
        pages = ids // step
        cuts = np.flatnonzero(pages[1:] != pages[:-1]) + 1
        parts = np.split(ids, cuts)
        return concat_vectors([self.vector_of_rows(name, p, is_state=is_state) for p in parts])

    def vector_of_range(self, name: str, first: int, end: int, *, is_state: bool = False) -> Vector:
        """Return the rows [first, end) of a column, without decoding pages outside."""
        role = self._role(is_state)
        if self._is_absent(role, name):
            return null_vector(self.schema.field(name).type, end - first)
        if first >= end:
            return self.segment.column(self.table_name, role, name, 0, 0)
        rows, key = RowRange(first, end), self._cache_key("column", role, name)
        if key not in KEPT:
            pages, part = self._pages_of(role, name, rows), self._pages_of(role, name, self.part)
            is_whole = self.is_whole(name, is_state=is_state) and name not in self.passing
            if not is_whole or (
                len(pages) < len(part) * _PAGE_SHARE_MAX
                and self._pages_key(role, name, part) not in KEPT
            ):
                return self._of_pages(role, name, pages, rows, may_keep=is_whole)
            if self.part is not None:
                return self._of_pages(role, name, part, rows, may_keep=True)
        return _part(self.vector(name, is_state=is_state), rows, key)

    def _pages_of(self, role: Role, name: str, rows: RowRange | None) -> range:
        """Return which pages of a column hold rows; None means all."""
        starts = self.segment.directory(self.table_name, role, name).row_starts
        if rows is None:
            return range(len(starts) - 1)
        first_page = int(np.searchsorted(starts, rows.start, side="right")) - 1
        return range(first_page, int(np.searchsorted(starts, rows.end, side="left")))

    def _pages_key(self, role: Role, name: str, pages: range) -> CacheKey:
        return (*self._cache_key("pages", role, name), pages.start, pages.stop)

    def _of_pages(
        self, role: Role, name: str, pages: range, rows: RowRange, *, may_keep: bool
    ) -> Vector:
        """Return rows of neighbouring pages, which are kept if the cache has room for them."""
        key = self._pages_key(role, name, pages)
        decoded: Vector | None = KEPT.get(key) if may_keep else None
        if decoded is None:
            decoded = self.segment.column(self.table_name, role, name, pages.start, pages.stop)
            if may_keep and KEPT.has_room(decoded.nbytes):
                decoded = self._cached(key, decoded)
        start = int(self.segment.directory(self.table_name, role, name).row_starts[pages.start])
        return _part(decoded, RowRange(rows.start - start, rows.end - start), key)

    def keep(self, name: str) -> None:
        """Decode now what is to be read of a column, if the cache has room for it."""
        rows = self.part or RowRange(0, self.row_count)
        has_room = KEPT.has_room(_ROW_BYTES * len(rows))
        if not has_room or self.is_cached(name) or not self.is_whole(name):
            return
        if self.part is None:
            self.vector(name)
        else:
            self.vector_of_range(name, rows.start, rows.end)

    def first_read(self, names: Iterable[str]) -> frozenset[str]:
        """Return those columns that a scan need not keep: this is the first that reads them.

        Much is scanned once, and what is scanned again is kept then. Columns of few rows are kept
        at once, and those of an object store, as reading them again costs more than memory.
        """
        owner, reads = self.segment.owner, self.segment.read_range
        # Row groups of others are larger than pages, and would be decoded for each batch anew.
        is_costly = not isinstance(reads, FetchedRanges) or reads.is_remote
        if self.row_count < _PASSING_ROWS_MIN or owner is None or is_costly:
            return frozenset()
        found = set()
        for name in names:
            key = self._cache_key("read", self._role(is_state=False), name)
            if key not in KEPT and not self.is_cached(name):
                KEPT.put(key, True, 0, owners=(owner,))
                found.add(name)
        return frozenset(found)

    def forget_ending(self) -> None:
        """Hold no bytes of the file that were read ahead."""
        if isinstance(self.segment.read_range, FetchedRanges):
            self.segment.read_range.forget()

    def is_cached(self, name: str, *, is_state: bool = False) -> bool:
        """Whether the whole column is in memory already."""
        role = self._role(is_state)
        if self._is_absent(role, name):
            return False
        return self._cache_key("column", role, name) in KEPT

    def ranges_to_read(self, name: str, *, is_state: bool) -> list[ByteRange]:
        """Return the reads that a column takes; none if it is in memory or missing."""
        role = self._role(is_state)
        if self._is_absent(role, name) or self.is_cached(name, is_state=is_state):
            return []
        pages = self._pages_of(role, name, self.part)
        ranges = self.segment.ranges_of(self.table_name, role, name, pages.start, pages.stop)
        return [ByteRange(*one) for one in ranges]

    def zones(self, name: str) -> PageZones | None:
        """Return the zone maps of a column's pages; None if it has none or the segment lacks it."""
        role = self._role(is_state=False)
        if self._is_absent(role, name) or self.is_opaque(name):
            return None
        return self.segment.page_zones(self.table_name, role, name)

    def raw_bytes(self, name: str, rows: RowRange) -> int:
        """Return the decompressed bytes of a column's pages that hold any of `rows`."""
        role = self._role(is_state=False)
        pages = self._pages_of(role, name, rows)
        records = self.segment.directory(self.table_name, role, name).records
        return int(records["raw_bytes"][pages.start : pages.stop].sum(dtype=np.int64))

    def is_opaque(self, name: str) -> bool:
        """Whether the column is stored without ids and without numbers."""
        role = self._role(is_state=False)
        if self._is_absent(role, name):
            return False
        return self.segment.column_entry(self.table_name, role, name).kind == "opaque"

    def dictionary(self, name: str) -> Dictionary | None:
        """Return the dictionary that a column's ids are of; None if it has none."""
        role = self._role(is_state=False)
        if self._is_absent(role, name):
            return None
        return self.segment.column_dictionary(self.table_name, role, name)

    def bitmap_index(self, name: str) -> BitmapIndex | None:
        """Return a column's bitmap index; None if none was worth storing."""
        role = self._role(is_state=False)
        if self._is_absent(role, name):
            return None
        return self.segment.bitmap_index(self.table_name, role, name)

    def _cache_key(self, kind: str, role: Role, name: str) -> CacheKey:
        if isinstance(self.segment, SegmentFile):
            return (kind, self.segment.path, self.table_name, role, name)
        return (kind, *self.segment.key_of(self.table_name, role, name))

    def _is_absent(self, role: Role, name: str) -> bool:
        """Whether the segment is older than a column of base rows.

        Raises InvalidInputError (PROJSEG_INTERNAL) for a column that a projection does not have.
        """
        if self.segment.has_column(self.table_name, role, name):
            return False
        if role != "base":
            raise InvalidInputError(
                "PROJSEG_INTERNAL",
                f"a plan reads column '{name}' of projection '{self.table_name}', which has none of"
                " that name; report the query, and ask it with noProjections and noViews meanwhile",
            )
        return True

    def _role(self, is_state: bool) -> Role:
        if self.table_name == BASE_TABLE:
            return "base"
        return "state" if is_state else "grouping"


def row_numbers(rows: Rows) -> NDArray[np.int64]:
    """Return which base row each row of a projection of rows is, int64[n]."""
    vector = rows.vector(ROW_NUMBER, is_state=True)
    assert isinstance(vector, Numbers), "proved when the file was opened"
    numbers: NDArray[np.int64] = vector.wide()
    return numbers


def null_vector(arrow_type: pa.DataType, row_count: int) -> Vector:
    """Return a column of nulls."""
    if pa.types.is_nested(arrow_type):  # such values have no dictionary
        return vector_of_array(pa.nulls(row_count, arrow_type))
    return Ids(np.zeros(row_count, np.uint8), Dictionary(pa.nulls(1, arrow_type)))


def _part(whole: Vector, rows: RowRange, key: CacheKey) -> Vector:
    """Return some rows: a view, or a copy where a view would keep a far larger array alive."""
    part = whole.slice(rows.start, rows.end)
    if 2 * len(part) >= len(whole) or key in KEPT:
        return part
    return part.take(np.arange(len(part), dtype=np.uint32))
