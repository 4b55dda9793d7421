"""One segment from its rows: encode columns, sort, build projections, write and describe it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import pyarrow as pa

from projseg.aggregation.rows import MemorySource
from projseg.algebra.projection_spec import ProjectionSpec
from projseg.segment_format.footer import BASE_TABLE, Role
from projseg.segment_format.segment_encoder import SegmentEncoder, SegmentSummary
from projseg.segment_format.vectors import Ids, Vector
from projseg.table_layer.manifest import SegmentEntry, StoredProjection
from projseg.table_layer.storage import Storage
from projseg.writer.column_vectors import vectors_of
from projseg.writer.column_zones import column_zone, time_bounds
from projseg.writer.projection_builder import BuiltProjection, NotBuilt, build_projection
from projseg.writer.sort_order import sort_columns, sorted_row_ids


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """How every segment of a table is laid out.

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
    """
    vectors = vectors_of(rows, layout.dictionary_columns, pool)
    order = sorted_row_ids(
        vectors, sort_columns(layout.cluster_by, layout.time_column), rows.num_rows
    )
    if order is not None:
        taken = pool.map(lambda vector: vector.take(order), vectors.values())
        vectors = dict(zip(vectors, taken, strict=True))
    source = MemorySource(rows.num_rows, vectors)
    results = list(pool.map(lambda spec: build_projection(source, spec), layout.specs))
    built = [result for result in results if isinstance(result, BuiltProjection)]
    failed = [result for result in results if isinstance(result, NotBuilt)]
    with storage.create(file) as sink:
        encoder = SegmentEncoder(sink.write, file_id=uuid.uuid4().bytes, schema=layout.schema)
        summary = _encode(encoder, layout, source, built, failed)
        sink.commit()
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
        projections=tuple(_stored(projection, summary) for projection in built),
        not_built=tuple((f.spec.name, f.spec.definition_hash, f.reason[:1000]) for f in failed),
    )


def _encode(
    encoder: SegmentEncoder,
    layout: SegmentLayout,
    source: MemorySource,
    built: Sequence[BuiltProjection],
    failed: Sequence[NotBuilt],
) -> SegmentSummary:
    names = _DictionaryNames(encoder)
    order = sort_columns(layout.cluster_by, layout.time_column)
    columns: list[_Column] = [("base", name, vector) for name, vector in source.vectors.items()]
    names.add(columns, prefix="")
    encoder.begin_table(BASE_TABLE, source.row_count, sort_order=order)
    _add_columns(encoder, columns, names)
    for projection in built:
        spec = projection.spec
        columns = [("grouping", name, vector) for name, vector in projection.grouping.items()]
        columns += [("state", name, vector) for name, vector in projection.states.items()]
        names.add(columns, prefix=f"{spec.name}/")
        encoder.begin_table(
            spec.name,
            projection.row_count,
            definition=spec.definition,
            definition_hash=spec.definition_hash,
            sort_order=tuple(projection.grouping),
        )
        _add_columns(encoder, columns, names)
    for result in failed:
        encoder.add_not_built(result.spec.name, result.spec.definition_hash, result.reason[:1000])
    return encoder.finish()


_Column = tuple[Role, str, Vector]


def _add_columns(
    encoder: SegmentEncoder, columns: Sequence[_Column], names: _DictionaryNames
) -> None:
    for role, name, vector in columns:
        encoder.add_column(name, vector, role=role, dictionary=names.of(vector))
    encoder.end_table()


class _DictionaryNames:
    """Adds each dictionary to the file once, before the first table that refers to it."""

    def __init__(self, encoder: SegmentEncoder) -> None:
        self._encoder = encoder
        self._name_by_identity: dict[int, str] = {}

    def add(self, columns: Sequence[_Column], prefix: str) -> None:
        """Add the dictionaries of columns that have one no earlier table has."""
        for number, (_, name, vector) in enumerate(columns):
            if isinstance(vector, Ids) and id(vector.dictionary) not in self._name_by_identity:
                unique = f"{prefix}{number}" if prefix else name
                self._encoder.add_dictionary(unique, vector.dictionary)
                self._name_by_identity[id(vector.dictionary)] = unique

    def of(self, vector: Vector) -> str | None:
        """Return the name of the dictionary of an `Ids` vector; None of other vectors."""
        return self._name_by_identity[id(vector.dictionary)] if isinstance(vector, Ids) else None


def _stored(projection: BuiltProjection, summary: SegmentSummary) -> StoredProjection:
    table = summary.table(projection.spec.name)
    return StoredProjection(
        name=projection.spec.name,
        definition_hash=projection.spec.definition_hash,
        row_count=projection.row_count,
        byte_count=table.byte_count,
        column_bytes={name: size for (_, name), size in table.column_bytes.items()},
    )
