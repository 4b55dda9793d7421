"""Open segments by the column names of a table version, where those are not the stored ones."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from projseg.algebra.aggregates.state_columns import stored_column
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.segment_format.file.column_view import ColumnView
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE, Role
from projseg.table_layer.metadata.table_schema import TableSchema


def viewed(segment: SegmentFile, schema: TableSchema) -> SegmentFile | ColumnView:
    """Return the base table of a segment under the names, and in the types, of a schema."""
    if not schema.forms:
        return segment

    def find(role: Role, name: str) -> tuple[str, pa.DataType] | None:
        del role
        stored = schema.stored_name(name, _BaseColumns(segment))
        return None if stored is None else (stored, schema.field(name).type)

    return ColumnView(segment, find)


def viewed_projection(segment: SegmentFile, spec: ProjectionSpec) -> SegmentFile | ColumnView:
    """Return a stored projection under the names, and in the types, of its spec."""
    if spec.stored is None:
        return segment
    grouping, states = dict(spec.stored.grouping), dict(spec.stored.states)
    names: dict[tuple[Role, str], tuple[str, pa.DataType]] = {}
    for named in spec.grouping:
        column = stored_column(named.expression)
        names["grouping", column.name] = (grouping[column.name], column.type)
    for name, arrow_type in spec.state_columns:
        names["state", name] = (states[name], arrow_type)
    return ColumnView(segment, lambda role, name: names.get((role, name)))


@dataclass(frozen=True, slots=True)
class _BaseColumns:
    """The names of a segment's base columns."""

    segment: SegmentFile

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.segment.has_column(BASE_TABLE, "base", name)
