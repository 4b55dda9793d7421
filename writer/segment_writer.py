"""Write one segment: encode columns, sort rows, build projections, write and describe the file."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import pyarrow as pa

from projseg.aggregation.rows import MemorySource
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.segment_format.footer import BASE_TABLE
from projseg.segment_format.segment_encoder import SegmentEncoder, SegmentSummary
from projseg.table_layer.segment_entry import SegmentEntry, StoredProjection
from projseg.table_layer.storage import PutOutcomeUnknownError, Storage
from projseg.table_layer.storage_errors import storage_error
from projseg.writer.column_vectors import vectors_of
from projseg.writer.column_zones import column_zone, time_bounds
from projseg.writer.projection_builder import BuiltProjection, NotBuilt, build_projection
from projseg.writer.segment_contents import REASON_CHARACTERS_MAX, SegmentContents
from projseg.writer.sort_order import sort_columns, sorted_row_ids


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """The layout of every segment of a table.

    Parameters
    ----------
    schema : pa.Schema
        Base columns.
    time_column : str or None
        The table's time column.
    cluster_by : sequence of str
        Sort order, time last unless it is named.
    specs : sequence of ProjectionSpec
        Projections to embed.
    """

    schema: pa.Schema
    time_column: str | None
    cluster_by: Sequence[str]
    specs: Sequence[ProjectionSpec]

    @property
    def dictionary_columns(self) -> frozenset[str]:
        """Base columns that sorting or a projection wants as dictionary ids."""
        grouped = {
            name
            for spec in self.specs
            for named in spec.grouping
            for name in named.expression.columns
        }
        return frozenset(grouped | set(self.cluster_by)) - {self.time_column}


def write_segment(
    rows: pa.Table,
    layout: SegmentLayout,
    *,
    storage: Storage,
    file: str,
    write_id: str,
    interval: tuple[int, int] | None,
    pool: Executor,
) -> SegmentEntry:
    """Write one segment file, durably, and return how a manifest lists it.

    Parameters
    ----------
    rows : pa.Table
        At least one row, in the table's schema, all of one time chunk.
    layout : SegmentLayout
        Sort order and projections.
    storage : Storage
        Where to; the file must not exist.
    file, write_id : str
        The segment's name, and the commit it is written for.
    interval : (int, int) or None
        The time chunk, microseconds, half-open.
    pool : Executor
        Columns and projections are worked on side by side.

    Raises
    ------
    LimitExceededError
        If a value, a dictionary or the file becomes too large.
    StorageError
        If the file cannot be written.
    """
    vectors = vectors_of(rows, layout.dictionary_columns, pool)
    sort_order = sort_columns(layout.cluster_by, layout.time_column)
    order = sorted_row_ids(vectors, sort_order, rows.num_rows)
    if order is not None:
        taken = pool.map(lambda vector: vector.take(order), vectors.values())
        vectors = dict(zip(vectors, taken, strict=True))
    source = MemorySource(rows.num_rows, vectors)
    results = list(pool.map(lambda spec: build_projection(source, spec), layout.specs))
    with storage.create(file) as sink:
        encoder = SegmentEncoder(sink.write, file_id=uuid.uuid4().bytes, schema=layout.schema)
        contents = SegmentContents(encoder)
        contents.add_base(source, sort_order)
        results = [
            contents.add_projection(result) if isinstance(result, BuiltProjection) else result
            for result in results
        ]
        failed = [result for result in results if isinstance(result, NotBuilt)]
        for result in failed:
            contents.add_not_built(result)
        summary = encoder.finish()
        try:
            sink.commit()
        except PutOutcomeUnknownError as error:
            # Nothing lists the segment yet, so it does not matter whether the file exists.
            raise storage_error(error, "write", f"{storage.location}/{file}") from error
    low, high = time_bounds(vectors, layout.time_column)
    return SegmentEntry(
        file=file,
        write_id=write_id,
        row_count=rows.num_rows,
        byte_count=summary.byte_count,
        footer_checksum=summary.footer_checksum,
        interval=interval,
        min_time_us=low,
        max_time_us=high,
        columns={
            name: column_zone(vector, summary.table(BASE_TABLE).column_bytes["base", name])
            for name, vector in vectors.items()
        },
        projections=tuple(
            _stored(result, summary) for result in results if isinstance(result, BuiltProjection)
        ),
        not_built=tuple(
            (f.spec.name, f.spec.definition_hash, f.reason[:REASON_CHARACTERS_MAX]) for f in failed
        ),
    )


def _stored(projection: BuiltProjection, summary: SegmentSummary) -> StoredProjection:
    table = summary.table(projection.spec.name)
    return StoredProjection(
        name=projection.spec.name,
        definition_hash=projection.spec.definition_hash,
        row_count=projection.row_count,
        byte_count=table.byte_count,
        column_bytes={name: size for (_, name), size in table.column_bytes.items()},
    )
