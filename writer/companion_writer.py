"""Write the companion of a foreign file: its projections, without its rows."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from projseg.evaluation.arrow_vectors import vector_of_array
from projseg.evaluation.rows import MemorySource
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.footer import BASE_TABLE
from projseg.segment_format.logical_types import MICROS_A_DAY, is_nested
from projseg.segment_format.vectors import Ids, Vector
from projseg.table_layer.foreign.parquet_file import ParquetRows
from projseg.table_layer.foreign.source_files import bad_source
from projseg.table_layer.metadata.change import now_us
from projseg.table_layer.metadata.segment_entry import ColumnZone, ForeignEntry, ForeignFile
from projseg.table_layer.storage.storage_contract import Storage
from projseg.writer.column_vectors import column_vector, column_zone
from projseg.writer.segment_contents import NotBuilt, SegmentContents, build_projection
from projseg.writer.segment_filters import FilterWriter
from projseg.writer.segment_writer import (
    SegmentLayout,
    add_projections,
    each_once,
    new_segment,
    not_built,
    stored_projections,
)


class ForeignRows(NamedTuple):
    """Rows that a companion stands for, and how an entry lists their file.

    `names` has the source's names of the columns that the file has, by stored name.
    """

    rows: ParquetRows
    foreign: ForeignFile
    names: Mapping[str, str]


def write_companion(
    wanted: ForeignRows,
    layout: SegmentLayout,
    *,
    storage: Storage,
    file: str,
    write_id: str,
    pool: Executor,
    filters: FilterWriter,
    makes_all: bool = False,
) -> ForeignEntry:
    """Write the projections of some row groups, durably, and return how a manifest lists them.

    Projections whose building is deferred are built only if `makes_all`.
    """
    rows, foreign, names = wanted
    found = pool.map(lambda name: _column(wanted, layout, name), names)
    read = dict(zip(names, found, strict=True))
    zones = {name: zone for name, (_, zone) in read.items()}
    lacking = (field for field in layout.schema if field.name not in read)
    vectors = {field.name: _nulls(field.type, rows.row_count) for field in lacking}
    vectors |= {name: vector for name, (vector, _) in read.items()}
    low, high = _times(wanted, layout, zones)
    now = now_us()
    source = MemorySource(rows.row_count, vectors)
    results = []
    specs = (s for s in layout.specs if makes_all or not layout.scopes[s.name].is_deferred)
    for spec in each_once(specs):
        reason = layout.scopes[spec.name].reason_against(low, high, now)
        built = build_projection(source, spec) if reason is None else NotBuilt(spec, reason)
        results.append(built)
    base_bytes = sum(zone.bytes for zone in zones.values())
    with new_segment(storage, file, pa.schema([]), has_foreign_rows=True) as encoder:
        contents = SegmentContents(encoder, pool)
        encoder.begin_table(BASE_TABLE, rows.row_count)
        encoder.end_table()
        results = add_projections(contents, encoder, results, layout, rows.row_count, base_bytes)
        keys = filters.keys_of(vectors, low, high)
        summary = encoder.finish()
    entry = ForeignEntry(
        file=file,
        write_id=write_id,
        row_count=rows.row_count,
        byte_count=summary.byte_count,
        footer_checksum=summary.footer_checksum,
        min_time_us=low,
        max_time_us=high,
        columns=zones,
        projections=stored_projections(results, summary),
        not_built=not_built(results),
        foreign=foreign,
    )
    filters.add(entry, keys, {})
    return entry


def _column(wanted: ForeignRows, layout: SegmentLayout, name: str) -> tuple[Vector, ColumnZone]:
    """Return a column in its stored type, and its zone, which is computed from all rows."""
    vector = wanted.rows.vector(wanted.names[name], layout.schema.field(name).type)
    wanted.rows.prove_bounds(wanted.names[name], vector)
    zone = column_zone(vector, wanted.rows.byte_count(wanted.names[name]))
    if not isinstance(vector, Ids):
        arrays = pa.chunked_array([vector.to_arrow()])
        vector = column_vector(arrays, wants_dictionary=name in layout.dictionary_columns)
    return vector, zone


def _nulls(arrow_type: pa.DataType, row_count: int) -> Vector:
    if is_nested(arrow_type):
        return vector_of_array(pa.nulls(row_count, arrow_type))
    return Ids(np.zeros(row_count, np.uint8), Dictionary(pa.nulls(1, arrow_type)))


def _times(
    wanted: ForeignRows, layout: SegmentLayout, zones: Mapping[str, ColumnZone]
) -> tuple[int | None, int | None]:
    """Return the smallest and largest time, microseconds; None where no row has one."""
    zone = zones.get(layout.time_column or "")
    if zone is None or layout.time_column is None or zone.null_count == wanted.rows.row_count:
        return None, None
    is_days = pa.types.is_date32(layout.schema.field(layout.time_column).type)
    unit = MICROS_A_DAY if is_days else 1
    if not isinstance(zone.min, int) or not isinstance(zone.max, int):
        raise bad_source(
            f"{wanted.foreign.path} has times outside the years 1 to 9999 in column "
            f"'{wanted.names[layout.time_column]}'; choose another time column"
        )
    return zone.min * unit, zone.max * unit
