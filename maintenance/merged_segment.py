"""Write the rows of several segments as one, or cut by time, without going through strings.

Columns are merged one at a time, dictionaries by value, and brought into the cluster order.
Projections are merged from the states that the inputs store; for an input that lacks one, or has
deleted rows, and for sketches of quantiles, its base rows are folded. Memory is that of the merged
columns and of one column of the inputs, with their dictionaries: about two to three times the
decoded size of the new segment's columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.aggregation.fold import fold_base_rows
from projseg.aggregation.partial import Partial, merge_partials
from projseg.algebra.expressions.tree import Column
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.evaluation.masks import filter_rows
from projseg.evaluation.rows import MemorySource, RowIds, Rows, all_rows
from projseg.maintenance.rewrite_tasks import NewFile, Target
from projseg.maintenance.uncached_segment import UncachedColumns, stored_groups
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE
from projseg.segment_format.vectors import Vector
from projseg.table_layer.commits.footer_match import open_checked
from projseg.table_layer.commits.publish import remove
from projseg.table_layer.metadata.deleted_rows import live_row_ids
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.table_schema import TableSchema, in_stored_names, stored_schema
from projseg.table_layer.storage.storage_contract import Storage
from projseg.writer.column_vectors import merged_column, with_dictionary_of, with_values_in_use
from projseg.writer.segment_contents import (
    BuiltProjection,
    NotBuilt,
    build_projection,
    projection_of,
)
from projseg.writer.segment_filters import FilterWriter
from projseg.writer.segment_writer import SegmentLayout, each_once, write_sorted
from projseg.writer.sort_order import sorted_row_ids
from projseg.writer.table_writer import (
    chunk_around,
    is_coarser,
    rows_by_chunk,
    segment_granularity,
    time_micros,
)


@dataclass(frozen=True, slots=True)
class _Input:
    """One of the segments."""

    entry: SegmentEntry
    segment: SegmentFile
    schema: TableSchema
    live: NDArray[np.uint32] | None

    @classmethod
    def of(cls, storage: Storage, entry: SegmentEntry, schema: TableSchema) -> _Input:
        """Open a listed segment."""
        live = None if entry.deletion_vector is None else live_row_ids(storage, entry)
        return cls(entry, open_checked(storage, entry, schema), schema, live)

    def column(self, name: str) -> Vector:
        """Return a base column without deleted rows; null if the segment lacks it."""
        column = UncachedColumns(self.segment, BASE_TABLE, self.schema).read("base", name)
        return column if self.live is None else with_values_in_use(column.take(self.live))

    def stored_name(self, spec: ProjectionSpec) -> str | None:
        """Return the name of a projection whose stored groups can be merged exactly, if any is."""
        is_thinned = any(primitive.kind.is_thinned for primitive in spec.primitives)
        if self.live is not None or is_thinned:
            return None
        stored, wanted = self.entry.projections, spec.definition_hash
        return next((one.name for one in stored if one.definition_hash == wanted), None)

    def groups(self, spec: ProjectionSpec, stored_name: str | None) -> Partial | None:
        """Return the groups of a projection, as stored or folded; None if there are none."""
        if stored_name is not None:
            partial = stored_groups(self.segment, spec, self.schema, stored_name)
            return partial if partial.group_count else None
        base = UncachedColumns(self.segment, BASE_TABLE, self.schema)
        selected = all_rows(base) if self.live is None else Rows(base, RowIds(self.live))
        rows = filter_rows(selected, spec.filter)
        if len(rows) == 0:
            return None
        return fold_base_rows(rows, [named.expression for named in spec.grouping], spec.primitives)


@dataclass(frozen=True, slots=True)
class Merging:
    """Write the rows of some segments as one segment, those that are deleted left out."""

    target: Target
    replaced: tuple[SegmentEntry, ...]

    @property
    def key(self) -> tuple[object, ...]:
        """The segments with their deleted rows, and what the table declares."""
        written = self.target.layout
        declared = ((spec.name, spec.definition_hash) for spec in written.specs)
        filters = ((one.column, one.definition) for one in written.filters)
        stored = in_stored_names(self.target.snapshot.properties)
        layout = (stored.columns, stored.segment_granularity, stored.cluster_by)
        return (*layout, *declared, *filters, *(entry.listed_as for entry in self.replaced))

    def write(self, file: NewFile, pool: Executor) -> tuple[SegmentEntry, ...]:
        """Write the segment, or one for each of the table's time chunks that it would cross."""
        snapshot, layout = self.target.snapshot, self.target.layout
        storage, schema = snapshot.storage, stored_schema(snapshot.properties)
        inputs = [_Input.of(storage, entry, schema) for entry in self.replaced]
        merged = _Merged.of(inputs, layout)
        granularity = segment_granularity(snapshot.properties)
        if granularity is not None and any(
            is_coarser(entry.interval, granularity) for entry in self.replaced
        ):
            return _cut(merged, granularity, layout, storage, file, pool)
        source = merged.in_order()
        filters = FilterWriter(storage, file.write_id, layout.filters)
        entry = write_sorted(
            source,
            layout,
            each_once(layout.specs),
            lambda spec: _merged_projection(inputs, source, spec),
            storage=storage,
            file=file.name,
            write_id=file.write_id,
            interval=chunk_around(self.replaced[0].interval, granularity),
            pool=pool,
            filters=filters,
        )
        return (replace(entry, bloom_files=filters.finish()),)


@dataclass(frozen=True, slots=True)
class _Merged:
    """The columns of some segments as one, in no order, and the order of the layout, uint32[n]."""

    row_count: int
    vectors: dict[str, Vector]
    order: NDArray[np.uint32] | None

    @classmethod
    def of(cls, inputs: Sequence[_Input], layout: SegmentLayout) -> _Merged:
        wanted = layout.dictionary_columns
        vectors = {
            name: merged_column(
                [one.column(name) for one in inputs], wants_dictionary=name in wanted
            )
            for name in layout.schema.names
        }
        row_count = sum(one.entry.live_row_count for one in inputs)
        return cls(row_count, vectors, sorted_row_ids(vectors, layout.sort_order))

    def in_order(self) -> MemorySource:
        """Return all rows; each column is freed once it is sorted."""
        if self.order is not None:
            for name, vector in self.vectors.items():
                self.vectors[name] = vector.take(self.order)
        return MemorySource(self.row_count, self.vectors)

    def by_chunk(
        self, time_column: str, granularity: Granularity
    ) -> Iterator[tuple[int, MemorySource]]:
        """Yield the rows of each time chunk, with its start, in the order of the layout."""
        times = time_micros(self.vectors[time_column].to_arrow())
        times = times if self.order is None else times[self.order]
        for start, rows in rows_by_chunk(times, granularity):
            chosen = rows if self.order is None else self.order[rows]
            taken = {
                name: with_values_in_use(vector.take(chosen))
                for name, vector in self.vectors.items()
            }
            yield start, MemorySource(len(chosen), taken)


def _cut(
    merged: _Merged,
    granularity: Granularity,
    layout: SegmentLayout,
    storage: Storage,
    file: NewFile,
    pool: Executor,
) -> tuple[SegmentEntry, ...]:
    """Write a segment for each time chunk; the states that the inputs store cannot be cut."""
    assert layout.time_column is not None, "a granularity needs a time column"
    entries: list[SegmentEntry] = []
    filters = FilterWriter(storage, file.write_id, layout.filters)
    try:
        for start, source in merged.by_chunk(layout.time_column, granularity):
            entries.append(
                write_sorted(
                    source,
                    layout,
                    each_once(layout.specs),
                    partial(build_projection, source),
                    storage=storage,
                    file=file.numbered(len(entries)),
                    write_id=file.write_id,
                    interval=(start, granularity.next_boundary(start)),
                    pool=pool,
                    filters=filters,
                )
            )
        bloom_files = filters.finish()
    except BaseException:
        remove(storage, [entry.file for entry in entries] + filters.files)
        raise
    return tuple(replace(entry, bloom_files=bloom_files) for entry in entries)


def _merged_projection(
    inputs: Sequence[_Input], source: MemorySource, spec: ProjectionSpec
) -> BuiltProjection | NotBuilt:
    """Return a projection from the inputs' states; from the new base rows if no input has them.

    A projection of rows is sorted anew: its rows have other numbers in the new segment.
    """
    if spec.holds_rows:
        return build_projection(source, spec)
    stored = [one.stored_name(spec) for one in inputs]
    if not any(stored):
        return build_projection(source, spec)

    def merged() -> tuple[Partial, int]:
        found = (one.groups(spec, name) for one, name in zip(inputs, stored, strict=True))
        partials = [partial for partial in found if partial is not None]
        if not partials:
            return _no_groups(source, spec)
        partial = merge_partials(partials, spec.primitives, in_order=True)
        return partial, partial.group_count

    return _sharing(projection_of(spec, merged), source.vectors)


def _no_groups(source: MemorySource, spec: ProjectionSpec) -> tuple[Partial, int]:
    nothing = all_rows(source).slice(0, 0)
    keys = [named.expression for named in spec.grouping]
    return fold_base_rows(nothing, keys, spec.primitives), 0


def _sharing(
    result: BuiltProjection | NotBuilt, base: Mapping[str, Vector]
) -> BuiltProjection | NotBuilt:
    """Return a projection whose grouping columns use the dictionaries of the base table."""
    if isinstance(result, NotBuilt):
        return result
    names = {
        column.name: named.expression.name
        for named in result.spec.grouping
        if isinstance(named.expression, Column)
        for column in [result.spec.column_by_expression[named.expression]]
    }
    grouping = {
        name: with_dictionary_of(with_values_in_use(vector), base.get(names.get(name, "")))
        for name, vector in result.grouping.items()
    }
    return BuiltProjection(result.spec, result.row_count, grouping, result.states)
