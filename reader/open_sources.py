"""The sources that plans choose, as tables of open segments; small files read side by side.

Of a large source it says how many rows to decode at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final

import msgspec
import numpy as np

from projseg.algebra.planning.source_plan import SourcePlan
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.evaluation.arrow_vectors import encode_sorted
from projseg.evaluation.rows import RowRange
from projseg.memory.cache import KEPT, Owner
from projseg.memory.forks import late_import
from projseg.reader.segment_source import SegmentSource
from projseg.segment_format.arrow_arrays import primitive_array
from projseg.segment_format.file.file_batch import (
    Ending,
    FileBatch,
    FooterShape,
    SmallFile,
    StackedIds,
)
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE, Role
from projseg.segment_format.footer_checks import ENDING_BYTES
from projseg.segment_format.format_limits import PAGE_ROWS_MAX, expanded_bytes_max
from projseg.segment_format.vectors import Ids, Vector
from projseg.table_layer.commits.footer_match import (
    footer_mismatches,
    listing_mismatches,
    projection_mismatches,
    require_match,
    type_mismatches,
)
from projseg.table_layer.commits.verify_entries import (
    FetchedRanges,
    ending_bytes,
    listed_ending,
    read_listed,
)
from projseg.table_layer.metadata.deleted_rows import deleted_rows
from projseg.table_layer.metadata.segment_entry import SegmentEntry, StoredProjection
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.table_layer.renamed_columns import viewed, viewed_projection
from projseg.table_layer.storage.storage_contract import Storage

BATCH_BYTES: Final = 16 << 20
"""Approximate bytes of the decoded columns of a batch, and of the texts of a returned batch."""
_BATCH_ROWS_MIN: Final = 1 << 12
_WORK_BYTES: Final = 24  # of a row: its group, a mask, a computed value
# Fewer files are opened one by one: their footers may have as many shapes.
FILES_MIN: Final = 8
# Bytes of files that are in memory at once.
_BYTES_MAX: Final = 8 << 20
# Columns of more bytes are decoded file by file.
_DECODED_BYTES_MAX: Final = 64 << 20
# Where rows are fewer than 1 / this of their dictionaries' values, only the values used are merged.
_SPARSE_SHARE: Final = 4

Source = tuple[SegmentEntry, SourcePlan]
_ColumnName = tuple[str, bool]  # and whether it is a state's


class _Opened(msgspec.Struct, frozen=True):
    """An open segment, and the entry and the specs that it was already compared with."""

    segment: SegmentFile
    entry: SegmentEntry
    specs: dict[str, ProjectionSpec] = msgspec.field(default_factory=dict)

    def require(self, entry: SegmentEntry, schema: TableSchema) -> None:
        if self.entry is not entry and self.entry != entry:
            require_match(footer_mismatches(entry, self.segment, schema), self.segment.path)

    def require_projection(self, spec: ProjectionSpec) -> None:
        name = spec.stored_name
        if self.specs.get(name) is not spec:
            where = f"{self.segment.path}: projection '{name}'"
            table = self.segment.table(name)
            require_match(projection_mismatches(spec.as_stored, table), where)
            self.specs[name] = spec


def open_segment(
    storage: Storage,
    entry: SegmentEntry,
    schema: TableSchema,
    spec: ProjectionSpec | None = None,
    *,
    holds_ending: bool = False,
) -> SegmentFile:
    """Return a listed segment, its footer read and checked once for each process.

    With `holds_ending`, and of an object store always, bytes at the end of the file that are read
    to open it are held, as parts will be read soon.
    """
    key = ("segment", storage.location, entry.file)
    opened: _Opened | None = KEPT.get(key)
    if opened is None:
        owner = Owner(key)
        opened = _open(
            storage, entry, schema, owner, holds_ending=holds_ending or storage.is_remote
        )
        opened = KEPT.put(
            key,
            opened,
            opened.segment.held_bytes,
            stands_for=owner,
            parts_bytes_max=expanded_bytes_max(entry.byte_count),
        )
    assert opened is not None
    opened.require(entry, schema)
    if spec is not None:
        opened.require_projection(spec)
    return opened.segment


def _open(
    storage: Storage, entry: SegmentEntry, schema: TableSchema, owner: Owner, *, holds_ending: bool
) -> _Opened:
    read_range = FetchedRanges(storage, entry)
    path = f"{storage.location}/{entry.file}"
    is_held = holds_ending and not storage.is_remote
    ending = listed_ending(storage, entry, ending_bytes(entry) if is_held else ENDING_BYTES)
    if holds_ending:
        read_range.hold_ending(ending)
    segment = SegmentFile.open(read_range, entry.byte_count, path=path, owner=owner, ending=ending)
    require_match(footer_mismatches(entry, segment, schema), path)
    return _Opened(segment, entry)


def open_source(
    storage: Storage,
    entry: SegmentEntry,
    plan: SourcePlan,
    schema: TableSchema,
    *,
    holds_ending: bool = False,
) -> SegmentSource:
    """Return the table of a segment that a plan reads; `holds_ending` is as in `open_segment`."""
    spec = plan.source
    part = None if plan.rows is None else rows_to_read(entry, plan)
    if spec is None and entry.foreign is not None:
        # Imported here, so that tables without a source are asked without it.
        with late_import:
            from projseg.table_layer.foreign.foreign_segment import open_foreign

        foreign = open_foreign(storage, entry, schema)
        return SegmentSource(foreign, BASE_TABLE, entry.row_count, schema, None, part)
    segment = open_segment(storage, entry, schema, spec, holds_ending=holds_ending)
    view = viewed(segment, schema) if spec is None else viewed_projection(segment, spec)
    is_hiding = (spec is None or spec.holds_rows) and entry.deletion_vector is not None
    deleted = deleted_rows(storage, entry) if is_hiding else None
    name = BASE_TABLE if spec is None else spec.stored_name
    return SegmentSource(view, name, source_row_count(entry, plan), schema, deleted, part)


def rows_to_read(entry: SegmentEntry, plan: SourcePlan) -> RowRange:
    """Return which rows of its source a plan reads."""
    start, end = plan.rows or (0, source_row_count(entry, plan))
    return RowRange(start, end)


def source_row_count(entry: SegmentEntry, plan: SourcePlan) -> int:
    """Return how many rows the source of a plan holds."""
    if plan.is_metadata:
        return 1
    listed = listed_projection(entry, plan)
    return entry.row_count if listed is None else listed.row_count


def listed_projection(entry: SegmentEntry, plan: SourcePlan) -> StoredProjection | None:
    """Return what is listed of the projection that a plan reads; None if it reads none."""
    if plan.source is None:
        return None
    return next(p for p in entry.projections if p.name == plan.source.stored_name)


def rows_at_a_time(
    source: SegmentSource, names: Iterable[str], states: Iterable[str] = ()
) -> int | None:
    """Return how many rows of a source may be decoded together, None for all of them.

    A column of few bytes may hold very many rows: constants, runs, steps of one size. An ordinary
    source is decoded whole, which is fastest. A source whose columns would take far more memory
    than its file is decoded in batches of whole pages, or of fractions of one where rows are very
    wide.
    """
    row_bytes = _WORK_BYTES
    row_bytes += sum(source.value_bytes(name) for name in names)
    row_bytes += sum(source.value_bytes(name, is_state=True) for name in states)
    if source.row_count * row_bytes <= source.whole_bytes_max:
        return None
    rows = max(BATCH_BYTES // row_bytes, _BATCH_ROWS_MIN)
    return rows if rows < PAGE_ROWS_MAX else rows // PAGE_ROWS_MAX * PAGE_ROWS_MAX


def cut(
    rows: RowRange, rows_max: int, source: SegmentSource, names: Iterable[str]
) -> Iterator[RowRange]:
    """Yield the ranges to decode one after the other; one if there are no rows.

    They depend on the columns: pages of texts and of nested values differ much in size.
    """
    opaque = [name for name in names if source.is_opaque(name)]
    for start in range(rows.start, max(rows.end, rows.start + 1), rows_max):
        yield from _halves(RowRange(start, min(start + rows_max, rows.end)), source, opaque)


def _halves(rows: RowRange, source: SegmentSource, names: Sequence[str]) -> Iterator[RowRange]:
    raw_bytes = sum(source.raw_bytes(name, rows) for name in names)
    if len(rows) <= 1 or raw_bytes <= BATCH_BYTES:
        yield rows
        return
    middle = (rows.start + rows.end) // 2
    yield from _halves(RowRange(rows.start, middle), source, names)
    yield from _halves(RowRange(middle, rows.end), source, names)


def read_side_by_side(
    storage: Storage,
    schema: TableSchema,
    sources: Sequence[Source],
    columns: Sequence[_ColumnName],
) -> Iterator[tuple[Sequence[Source], list[Vector] | None]]:
    """Yield neighbouring sources with the rows of all of them; None if they are read one by one.

    Sources are (SegmentEntry, SourcePlan), not of metadata; all plans read the same columns.
    """
    spec = sources[0][1].source
    # Columns under other names, or in other types, are read one by one.
    is_renamed = bool(schema.forms) if spec is None else spec.stored is not None
    is_foreign = spec is None and sources[0][0].foreign is not None
    if storage.is_remote or is_renamed or is_foreign:
        yield sources, None
        return
    for several in _cut(sources):
        if len(several) < FILES_MIN:
            yield several, None
            continue
        batch = FileBatch([_ending(storage, entry) for entry, _ in several])
        wanted = _Wanted(schema, several[0][1], columns)
        listed = zip(several, batch.files, strict=True)
        each = [(one, file if wanted.is_in(file, one[0]) else None) for one, file in listed]
        for is_read, run in groupby(each, key=lambda one: one[1] is not None):
            together = list(run)
            files = [file for _, file in together if file is not None]
            found = wanted.decoded(batch, files) if is_read else None
            yield [source for source, _ in together], found


def _cut(sources: Iterable[Source]) -> Iterator[list[Source]]:
    several: list[Source] = []
    byte_count = 0
    for source in sources:
        size = ending_bytes(source[0])
        if several and byte_count + size > _BYTES_MAX:
            yield several
            several, byte_count = [], 0
        several.append(source)
        byte_count += size
    yield several


def _ending(storage: Storage, entry: SegmentEntry) -> Ending:
    content = listed_ending(storage, entry, ending_bytes(entry))
    path = f"{storage.location}/{entry.file}"
    return Ending(content, entry.byte_count, path, partial(read_listed, storage, entry))


class _Wanted:
    """Columns of one table of each file: of what `plan` reads, the plan of one of the sources."""

    def __init__(
        self, schema: TableSchema, plan: SourcePlan, columns: Sequence[_ColumnName]
    ) -> None:
        self._schema, self._spec = schema, plan.source
        self._table = BASE_TABLE if plan.source is None else plan.source.stored_name
        self._columns = [(self._role(is_state), name) for name, is_state in columns]
        self._shapes: dict[FooterShape, bool] = {}

    def _role(self, is_state: bool) -> Role:
        if self._spec is None:
            return "base"
        return "state" if is_state else "grouping"

    def is_in(self, file: SmallFile | None, entry: SegmentEntry) -> bool:
        """Whether a file is what the table lists, and has the columns."""
        if file is None:
            return False
        known = self._shapes.get(file.shape)
        if known is None:
            known = self._shapes[file.shape] = self._is_of(file.shape)
        if not known:
            return False
        return next(listing_mismatches(entry, file.shape.footer, file.row_counts), None) is None

    def _is_of(self, shape: FooterShape) -> bool:
        if not all(shape.has_column(self._table, *column) for column in self._columns):
            return False
        if next(type_mismatches(shape.footer, self._schema), None) is not None:
            return False
        if self._spec is None:
            return True
        (table,) = (one for one in shape.footer.tables if one.name == self._table)
        return next(projection_mismatches(self._spec.as_stored, table), None) is None

    def decoded(self, batch: FileBatch, files: Sequence[SmallFile]) -> list[Vector] | None:
        """Return the columns of some files; None if one is better decoded file by file."""
        vectors: list[Vector] = []
        byte_count = 0
        for column in self._columns:
            found = batch.column(files, self._table, *column)
            if found is None or byte_count > _DECODED_BYTES_MAX:
                return None
            vector = _merged(found) if isinstance(found, StackedIds) else found
            byte_count += vector.nbytes
            byte_count += vector.dictionary.nbytes if isinstance(vector, Ids) else 0
            vectors.append(vector)
        return vectors


def _merged(stacked: StackedIds) -> Ids:
    """Return ids in one dictionary of all values."""
    ids, values = stacked
    if len(ids) < len(values) // _SPARSE_SHARE:
        used, ids = np.unique(ids, return_inverse=True)
        values = values.take(primitive_array(used))
    merged = encode_sorted(values)
    return Ids(merged.ids.take(ids), merged.dictionary)
