"""Leave out a projection that is too large beside its base table."""

from __future__ import annotations

import pyarrow as pa

from projseg.segment_format.file.segment_encoder import SegmentEncoder
from projseg.segment_format.layout.footer import BASE_TABLE
from projseg.segment_format.layout.frame import FILE_ID_BYTES
from projseg.table_layer.metadata.projection_scope import ProjectionScope
from projseg.writer.projection_builder import BuiltProjection, NotBuilt
from projseg.writer.segment_contents import SegmentContents


def guarded(
    result: BuiltProjection | NotBuilt, scope: ProjectionScope, base_rows: int, base_bytes: int
) -> BuiltProjection | NotBuilt:
    """Return a projection, or why its scope leaves it out.

    Parameters
    ----------
    result : BuiltProjection or NotBuilt
        What was built.
    scope : ProjectionScope
        What is declared of its size.
    base_rows, base_bytes : int
        Rows of the base table, and stored bytes of its columns.
    """
    if isinstance(result, NotBuilt):
        return result
    reason = scope.row_guard(result.row_count, base_rows)
    if reason is None and scope.max_bytes_ratio is not None:
        reason = scope.bytes_guard(_stored_bytes(result), base_bytes)
    return result if reason is None else NotBuilt(result.spec, reason)


def _stored_bytes(projection: BuiltProjection) -> int:
    """Return the stored bytes of a projection's columns, by encoding it to nowhere."""
    encoder = SegmentEncoder(lambda _: None, file_id=bytes(FILE_ID_BYTES), schema=pa.schema([]))
    encoder.begin_table(BASE_TABLE, 0)
    encoder.end_table()
    if isinstance(SegmentContents(encoder).add_projection(projection), NotBuilt):
        return 0  # it passes a limit of the format, which says more than its size
    return encoder.column_bytes(projection.spec.name)
