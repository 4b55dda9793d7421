"""Groups of a projection made from what a segment stores already, or from its base rows."""

from __future__ import annotations

import pyarrow as pa
from msgspec.structs import replace

from projseg.aggregation.fold import fold, stored_partial
from projseg.aggregation.partial import Partial
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.aggregates.state_columns import stored_column
from projseg.algebra.planning.planner import choose
from projseg.algebra.planning.source_plan import MergeStates, SourcePlan
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.segment_facts import SegmentFacts
from projseg.algebra.query.bound_query import QuerySpec
from projseg.evaluation.masks import filter_rows
from projseg.evaluation.rows import all_rows
from projseg.maintenance.rewrite.uncached_segment import UncachedColumns
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.table_layer.commits.footer_match import projection_mismatches, require_match
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.writer.segment_contents import (
    BuiltProjection,
    NotBuilt,
    build_projection,
    projection_of,
)


def build_from_segment(
    base: UncachedColumns, spec: ProjectionSpec, facts: SegmentFacts
) -> BuiltProjection | NotBuilt:
    """Return a projection of a segment, from a finer one that it stores where that is exact.

    Parameters
    ----------
    base : UncachedColumns
        The segment's base table.
    spec : ProjectionSpec
        The projection.
    facts : SegmentFacts
        What the planner knows of the segment.
    """
    plan = None if spec.holds_rows else _finer(spec, facts)
    if plan is None or plan.source is None:
        return build_projection(base, spec)
    source = projection_columns(base.segment, plan.source, base.schema)

    def folded() -> tuple[Partial, int]:
        rows = filter_rows(all_rows(source), plan.filter)
        partial = fold(rows, plan.keys, spec.primitives, plan.feeds, in_order=True)
        return partial, partial.group_count if len(rows) else 0

    return projection_of(spec, folded)


def stored_groups(
    segment: SegmentFile, spec: ProjectionSpec, schema: TableSchema, stored_name: str
) -> Partial:
    """Return the groups of a projection that a segment stores, perhaps under another name."""
    source = projection_columns(segment, replace(spec, name=stored_name), schema)
    keys = [stored_column(named.expression) for named in spec.grouping]
    feeds = [MergeStates(primitive.text) for primitive in spec.primitives]
    return stored_partial(all_rows(source), keys, spec.primitives, feeds)


def projection_columns(
    segment: SegmentFile, spec: ProjectionSpec, schema: TableSchema
) -> UncachedColumns:
    """Return a stored projection as a source, once it is known to be what its definition says.

    Raises
    ------
    CorruptTableError
        If its columns are others.
    """
    where = f"{segment.path}: projection '{spec.name}'"
    require_match(projection_mismatches(spec, segment.table(spec.name)), where)
    return UncachedColumns(segment, spec.name, schema)


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
