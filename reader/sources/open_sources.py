"""The sources that plans choose, as tables of open segments and how many rows to decode at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from projseg.algebra.planning.source_plan import SourcePlan
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.evaluation.rows import RowRange
from projseg.memory.cache import KEPT, Owner
from projseg.reader.sources.segment_source import SegmentSource
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.layout.footer import BASE_TABLE
from projseg.segment_format.layout.footer_checks import ENDING_BYTES
from projseg.segment_format.layout.format_limits import PAGE_ROWS_MAX, expanded_bytes_max
from projseg.table_layer.columns.renamed_columns import viewed, viewed_projection
from projseg.table_layer.commits.fetched_ranges import FetchedRanges, ending_bytes
from projseg.table_layer.commits.verify_entries import listed_ending
from projseg.table_layer.metadata.deleted_rows import deleted_rows
from projseg.table_layer.metadata.footer_match import (
    footer_mismatches,
    projection_mismatches,
    require_match,
)
from projseg.table_layer.metadata.segment_entry import SegmentEntry, StoredProjection
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.table_layer.storage.locate_storage import Storage


class _Opened(msgspec.Struct, frozen=True):
    """An open segment, and the entry and the specs that it was already compared with."""

    segment: SegmentFile
    entry: SegmentEntry
    specs: dict[str, ProjectionSpec] = msgspec.field(default_factory=dict)

    def require(self, entry: SegmentEntry, schema: TableSchema) -> None:
        if self.entry is not entry and self.entry != entry:
            require_match(footer_mismatches(entry, self.segment, schema), self.segment.path)

    def require_projection(self, spec: ProjectionSpec) -> None:
        name = spec.table_name or spec.name
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

    Parameters
    ----------
    storage : Storage
        The table.
    entry : SegmentEntry
        The segment as listed.
    schema : TableSchema
        The snapshot's.
    spec : ProjectionSpec or None
        The projection that will be read, under the name it is stored by.
    holds_ending : bool
        Whether bytes at the end of the file that are read to open it are held, as parts will be
        read soon; of an object store they always are.

    Raises
    ------
    CorruptTableError
        If the file is missing, or is not what the entry, the schema and the definition say.
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
    """Return the table of a segment that a plan reads; `holds_ending` as of `open_segment`."""
    name = BASE_TABLE if plan.source is None else (plan.source.table_name or plan.source.name)
    segment = open_segment(storage, entry, schema, plan.source, holds_ending=holds_ending)
    view = (
        viewed(segment, schema) if plan.source is None else viewed_projection(segment, plan.source)
    )
    holds_rows = plan.source is None or plan.source.holds_rows
    is_hiding = holds_rows and entry.deletion_vector is not None
    deleted = deleted_rows(storage, entry) if is_hiding else None
    part = None if plan.rows is None else rows_to_read(entry, plan)
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
    """Return what is listed of the projection that a plan reads; None: it reads none."""
    if plan.source is None:
        return None
    return next(
        p for p in entry.projections if p.name == (plan.source.table_name or plan.source.name)
    )


# Choose how many rows of a source are decoded at a time.
#
# A column of few bytes may hold very many rows: constants, runs, steps of one size. An ordinary
# source is decoded whole, which is fastest. A source whose columns would take far more memory than
# its file is decoded in batches.

BATCH_BYTES: Final = 16 << 20
"""Approximate bytes of the decoded columns of a batch, and of the texts of a returned batch."""

_BATCH_ROWS_MIN: Final = 1 << 12
_WORK_BYTES: Final = 24  # of a row: its group, a mask, a computed value


def rows_at_a_time(
    source: SegmentSource, names: Iterable[str], states: Iterable[str] = ()
) -> int | None:
    """Return how many rows of a source may be decoded together, None for all of them.

    Parameters
    ----------
    source : SegmentSource
        The base table or a projection of one segment.
    names, states : iterable of str
        The columns that are read, and the state columns.

    Returns
    -------
    int or None
        A whole number of pages, or a fraction of one where rows are very wide.
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

    Parameters
    ----------
    rows : RowRange
        Of `source`.
    rows_max : int
        What `rows_at_a_time` returned.
    source : SegmentSource
        Where they are.
    names : iterable of str
        The columns that are read; pages of texts and of nested values differ much in size.
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
