"""A segment read past every cache: its columns, its groups for projections, its keys for indexes.

Work that passes over a segment once reads it by column or in batches. Groups of a projection are
made from what the segment stores already, or from its base rows; the keys of a stored column are
for filters and postings of segments that are there already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.aggregation.fold import fold, stored_partial
from projseg.aggregation.partial import Partial
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.aggregates.state_columns import stored_column
from projseg.algebra.planning.planner import choose
from projseg.algebra.planning.source_plan import MergeStates, SourcePlan
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.segment_facts import SegmentFacts
from projseg.algebra.query.bound_query import QuerySpec
from projseg.errors import CorruptionError, ProjsegError, StorageError
from projseg.evaluation.masks import filter_rows
from projseg.evaluation.rows import RowRange, Rows, all_rows
from projseg.kernels.sorting import distinct
from projseg.reader.segment_source import null_vector
from projseg.segment_format.dictionary_pages import NULL_HASH
from projseg.segment_format.file.postings import NO_DICTIONARY, postings_bytes
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE, Role
from projseg.segment_format.format_limits import PAGE_ROWS_MAX
from projseg.segment_format.indexes.bloom_file import SegmentFilter
from projseg.segment_format.indexes.index_kinds import KINDS, same_hashes
from projseg.segment_format.logical_types import parse_type_name
from projseg.segment_format.vectors import Vector
from projseg.table_layer.commits.footer_match import projection_mismatches, require_match
from projseg.table_layer.coverage import FAILED
from projseg.table_layer.foreign.foreign_segment import ForeignSegment
from projseg.table_layer.indexed_columns import WantedFilter
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.table_layer.renamed_columns import viewed
from projseg.writer.segment_contents import (
    BuiltProjection,
    NotBuilt,
    build_projection,
    projection_of,
)
from projseg.writer.segment_filters import SegmentKeys, segment_filter, segment_keys

BATCH_ROWS: Final = 16 * PAGE_ROWS_MAX


@dataclass(frozen=True, slots=True)
class UncachedColumns:
    """One table of a segment as a source of whole columns, each decoded once and then held.

    The table is `__base`, whose rows may be in a foreign file, or a stored projection. A base
    column may have an earlier type in the segment, and one that the segment lacks is null.
    """

    segment: SegmentFile
    table: str
    schema: TableSchema
    foreign: ForeignSegment | None = None
    _held: dict[tuple[Role, str], Vector] = field(default_factory=dict)

    @property
    def row_count(self) -> int:
        """Number of rows of the table."""
        return self.segment.table(self.table).row_count

    @property
    def held_bytes(self) -> int:
        """Memory of the columns that are held."""
        return sum(vector.nbytes for vector in self._held.values())

    def vector(self, name: str, *, is_state: bool = False) -> Vector:
        """Return a whole column."""
        role: Role = "base" if self.table == BASE_TABLE else "state" if is_state else "grouping"
        if (role, name) not in self._held:
            self._held[role, name] = self.read(role, name)
        return self._held[role, name]

    def read(self, role: Role, name: str) -> Vector:
        """Return a whole column without holding it."""
        if role != "base":
            return self.segment.column(self.table, role, name)
        base = self.foreign or viewed(self.segment, self.schema)
        if not base.has_column(self.table, role, name):
            return null_vector(self.schema.field(name).type, self.row_count)
        return base.column(self.table, role, name)

    def vector_of_rows(
        self, name: str, row_ids: NDArray[np.uint32], *, is_state: bool = False
    ) -> Vector:
        """Return a column at `row_ids`, uint32[n]."""
        return self.vector(name, is_state=is_state).take(row_ids)

    def vector_of_range(self, name: str, first: int, end: int, *, is_state: bool = False) -> Vector:
        """Return the rows [first, end) of a column."""
        return self.vector(name, is_state=is_state).slice(first, end)


@dataclass(frozen=True, slots=True)
class PagedSource:
    """The base table of a segment; every page is read and decoded each time it is asked for.

    Columns that the segment lacks are null; the base rows may be in a foreign file.
    """

    segment: SegmentFile
    schema: TableSchema
    foreign: ForeignSegment | None = None

    @property
    def row_count(self) -> int:
        """Number of base rows."""
        return self.segment.tables[0].row_count

    def batches(self) -> Iterator[Rows]:
        """Yield all rows, at most `BATCH_ROWS` at a time."""
        for start in range(0, self.row_count, BATCH_ROWS):
            yield Rows(self, RowRange(start, min(start + BATCH_ROWS, self.row_count)))

    def vector(self, name: str, *, is_state: bool = False) -> Vector:
        """Return a whole column."""
        return self.vector_of_range(name, 0, self.row_count, is_state=is_state)

    def vector_of_rows(
        self, name: str, row_ids: NDArray[np.uint32], *, is_state: bool = False
    ) -> Vector:
        """Return a column at `row_ids`, uint32[k] ascending."""
        if len(row_ids) == 0:
            return self.vector_of_range(name, 0, 0, is_state=is_state)
        first, end = int(row_ids[0]), int(row_ids[-1]) + 1
        vector = self.vector_of_range(name, first, end, is_state=is_state)
        return vector.take(row_ids - np.uint32(first))

    def vector_of_range(self, name: str, first: int, end: int, *, is_state: bool = False) -> Vector:
        """Return the rows [first, end) of a column."""
        del is_state  # base tables have no states
        base = self.foreign or viewed(self.segment, self.schema)
        if not base.has_column(BASE_TABLE, "base", name):
            return null_vector(self.schema.field(name).type, end - first)
        starts = base.directory(BASE_TABLE, "base", name).row_starts
        first_page = int(np.searchsorted(starts, first, side="right")) - 1
        page_end = int(np.searchsorted(starts, end, side="left"))
        pages = base.column(BASE_TABLE, "base", name, first_page, page_end)
        offset = int(starts[first_page])
        return pages.slice(first - offset, end - offset)


def build_from_segment(
    base: UncachedColumns, spec: ProjectionSpec, facts: SegmentFacts
) -> BuiltProjection | NotBuilt:
    """Return a projection of a segment, from a finer one that it stores where that is exact."""
    plan = None if spec.holds_rows else _finer(spec, facts)
    if plan is None or plan.source is None:
        return build_projection(base, spec)
    source = _projection_columns(base.segment, plan.source, base.schema)

    def folded() -> tuple[Partial, int]:
        rows = filter_rows(all_rows(source), plan.filter)
        partial = fold(rows, plan.keys, spec.primitives, plan.feeds, in_order=True)
        return partial, partial.group_count if len(rows) else 0

    return projection_of(spec, folded)


def stored_groups(
    segment: SegmentFile, spec: ProjectionSpec, schema: TableSchema, stored_name: str
) -> Partial:
    """Return the groups of a projection that a segment stores, perhaps under another name."""
    source = _projection_columns(segment, replace(spec, name=stored_name), schema)
    keys = [stored_column(named.expression) for named in spec.grouping]
    feeds = [MergeStates(primitive.text) for primitive in spec.primitives]
    return stored_partial(all_rows(source), keys, spec.primitives, feeds)


def _finer(spec: ProjectionSpec, facts: SegmentFacts) -> SourcePlan | None:
    """Return how a stored projection yields the same states as the base rows; None if none does."""
    if not all(map(_merges_exactly, spec.primitives)):
        return None
    query = QuerySpec(
        keys=spec.grouping,
        aggregates=spec.aggregators,
        filter=spec.filter,
        time_column=spec.time_column,
    )
    plans = choose(query, facts).plans
    is_plain = len(plans) == 1 and not plans[0].is_metadata and plans[0].present is None
    return plans[0] if is_plain else None


def _merges_exactly(primitive: Primitive) -> bool:
    """Whether a state does not depend on the order of rows: no sums of doubles, nothing thinned."""
    has_doubles = any(pa.types.is_floating(arrow_type) for _, arrow_type in primitive.fields)
    return not (has_doubles and primitive.kind.is_weighable) and not primitive.kind.is_thinned


def _projection_columns(
    segment: SegmentFile, spec: ProjectionSpec, schema: TableSchema
) -> UncachedColumns:
    """Return a stored projection as a source, once it is known to be what its definition says."""
    where = f"{segment.path}: projection '{spec.name}'"
    require_match(projection_mismatches(spec, segment.table(spec.name)), where)
    return UncachedColumns(segment, spec.name, schema)


def column_keys(segment: SegmentFile, schema: TableSchema, wanted: WantedFilter) -> SegmentKeys:
    """Return the keys of a stored column with the postings that its segment is to hold."""
    base = UncachedColumns(segment, BASE_TABLE, schema)
    return segment_keys(wanted, base.read("base", wanted.column))


def stored_filter(
    entry: SegmentEntry, segment: SegmentFile, schema: TableSchema, wanted: WantedFilter
) -> SegmentFilter:
    """Return the filter of a segment, as it is listed or is to be, that is stored already.

    Where values are keys, only the value hashes of a column of ids are read.
    """
    postings = _stored_postings_bytes(segment, wanted)
    try:
        keys = _stored_keys(segment, schema, wanted)
    except (CorruptionError, StorageError):
        raise
    except (ProjsegError, ArithmeticError, ValueError) as error:
        return SegmentFilter(entry.file, 0, f"{FAILED}{error}", None, postings)
    return segment_filter(entry, keys, wanted, postings)


def _stored_postings_bytes(segment: SegmentFile, wanted: WantedFilter) -> int | str | None:
    """Return the bytes of a segment's postings, or why it has none; None if it might have some."""
    definition = wanted.definition
    if not definition.postings:
        return None
    digest = definition.definition_hash
    for entry in segment.footer.postings:
        if entry.definition_hash == digest:
            return postings_bytes(segment, entry)
    name = definition.column_name
    is_there = segment.has_column(BASE_TABLE, "base", name)
    if is_there and segment.column_entry(BASE_TABLE, "base", name).dictionary is not None:
        return None
    return NO_DICTIONARY


def _stored_keys(
    segment: SegmentFile, schema: TableSchema, wanted: WantedFilter
) -> NDArray[np.uint64]:
    forms = schema.forms.get(wanted.column)
    names = [wanted.column] if forms is None else [form.name for form in reversed(forms)]
    present = next((name for name in names if segment.has_column(BASE_TABLE, "base", name)), None)
    kind = KINDS[wanted.definition.kind]
    if present is None:
        return kind.keys(wanted.value_of_null())
    entry = segment.column_entry(BASE_TABLE, "base", present)
    type_ = parse_type_name(wanted.definition.type)
    is_same = same_hashes(parse_type_name(entry.type), type_)
    is_stored = wanted.expression is None and kind.are_values and is_same
    if is_stored and entry.dictionary is not None:
        hashes = segment.stored_hashes(segment.footer.dictionaries[entry.dictionary])
        if hashes is not None:
            return distinct(hashes[hashes != NULL_HASH])  # which no value has: coupons are above 0
    base = UncachedColumns(segment, BASE_TABLE, schema)
    return kind.keys(wanted.values(base.read("base", wanted.column)))
