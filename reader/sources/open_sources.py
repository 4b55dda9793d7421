"""The sources that plans choose, as tables of open segments."""

from __future__ import annotations

from projseg.algebra.planning.source_plan import SourcePlan
from projseg.evaluation.rows import RowRange
from projseg.reader.sources.segment_source import SegmentSource, open_segment
from projseg.segment_format.layout.footer import BASE_TABLE
from projseg.table_layer.columns.renamed_columns import viewed, viewed_projection
from projseg.table_layer.metadata.deleted_rows import deleted_rows
from projseg.table_layer.metadata.segment_entry import SegmentEntry, StoredProjection
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.table_layer.storage.locate_storage import Storage


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
