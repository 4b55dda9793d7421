"""Write one segment that holds the rows of several, without going through rows or strings.

Columns are merged one at a time, dictionaries by value, and brought into the cluster order.
Projections are merged from the states that the inputs store; for an input that lacks one, or has
deleted rows, and for sketches of quantiles, its base rows are folded. Memory is that of the merged
columns and of one column of the inputs, with their dictionaries: about two to three times the
decoded size of the new segment's columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from projseg.aggregation.fold import fold_base_rows
from projseg.aggregation.merge import merge_partials
from projseg.aggregation.partial import Partial
from projseg.algebra.expressions.tree import Column
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.evaluation.masks import filter_rows
from projseg.evaluation.rows import MemorySource, RowIds, Rows, all_rows
from projseg.maintenance.rewrite.stored_groups import stored_groups
from projseg.maintenance.rewrite.tasks import NewFile, Target
from projseg.maintenance.rewrite.uncached_segment import UncachedColumns
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.layout.footer import BASE_TABLE
from projseg.segment_format.vectors.vectors import Vector
from projseg.table_layer.metadata.deleted_rows import live_row_ids
from projseg.table_layer.metadata.listed_file import open_checked
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.table_schema import TableSchema, in_stored_names, stored_schema
from projseg.table_layer.storage.locate_storage import Storage
from projseg.writer.merged_columns import merged_column, with_dictionary_of, with_values_in_use
from projseg.writer.projection_builder import (
    BuiltProjection,
    NotBuilt,
    build_projection,
    projection_of,
)
from projseg.writer.segment_writer import SegmentLayout, each_once, write_sorted
from projseg.writer.sort_order import sorted_row_ids


@dataclass(frozen=True, slots=True)
class _Input:
    """One of the segments."""

    entry: SegmentEntry
    segment: SegmentFile
    schema: TableSchema
    live: NDArray[np.uint32] | None

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
        declared = ((spec.name, spec.definition_hash) for spec in self.target.layout.specs)
        columns = in_stored_names(self.target.snapshot.properties).columns
        return (columns, *declared, *(entry.listed_as for entry in self.replaced))

    def write(self, file: NewFile, pool: Executor) -> SegmentEntry:
        """Write the segment."""
        snapshot, layout = self.target.snapshot, self.target.layout
        schema = stored_schema(snapshot.properties)
        return write_merged(snapshot.storage, self.replaced, layout, schema, file, pool)


def write_merged(
    storage: Storage,
    entries: Sequence[SegmentEntry],
    layout: SegmentLayout,
    schema: TableSchema,
    file: NewFile,
    pool: Executor,
) -> SegmentEntry:
    """Write the rows of some segments of one time chunk as one segment.

    Parameters
    ----------
    storage : Storage
        The table.
    entries : sequence of SegmentEntry
        The segments, the oldest first.
    layout : SegmentLayout
        What the table declares; deferred projections are built too.
    schema : TableSchema
        What the segments may hold, under stored names.
    file : NewFile
        The file to write.
    pool : Executor
        Projections are worked on side by side.

    Raises
    ------
    CorruptionError
        If one of the segments is damaged.
    LimitExceededError, StorageError
        As of `write_segment`.
    """
    inputs = [
        _Input(
            entry,
            open_checked(storage, entry, schema),
            schema,
            None if entry.deletion_vector is None else live_row_ids(storage, entry),
        )
        for entry in entries
    ]
    wanted = layout.dictionary_columns
    vectors = {
        name: merged_column([one.column(name) for one in inputs], wants_dictionary=name in wanted)
        for name in layout.schema.names
    }
    row_count = sum(entry.live_row_count for entry in entries)
    order = sorted_row_ids(vectors, layout.sort_order)
    if order is not None:
        for name, vector in vectors.items():
            vectors[name] = vector.take(order)
    source = MemorySource(row_count, vectors)
    return write_sorted(
        source,
        layout,
        each_once(layout.specs),
        lambda spec: _merged_projection(inputs, source, spec),
        storage=storage,
        file=file.name,
        write_id=file.write_id,
        interval=entries[0].interval,
        pool=pool,
    )


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
