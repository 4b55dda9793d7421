"""A table's metadata as rows: a record for each metadata table, from which every door derives.

The rows of `indexes` and `projectionStats` are counted in `coverage`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa
from msgspec import UNSET

from projseg.segment_format.logical_types import TIMESTAMP
from projseg.table_layer import coverage
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot, kept_versions
from projseg.table_layer.metadata.table_properties import StoredSource
from projseg.table_layer.metadata.table_schema import named_schema

_HISTORY = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("userName", pa.string()),
        ("operation", pa.string()),
        ("operationParameters", pa.map_(pa.string(), pa.string())),
        ("operationMetrics", pa.map_(pa.string(), pa.string())),
        ("engineInfo", pa.string()),
        ("userMetadata", pa.string()),
        ("readVersion", pa.int64()),
        ("isBlindAppend", pa.bool_()),
        ("metrics", pa.map_(pa.string(), pa.int64())),
        ("write_id", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
_TAGS = pa.schema([("tag", pa.string()), ("version", pa.int64())])
_SEGMENTS = pa.schema(
    [
        ("segment", pa.string()),
        ("interval_start", TIMESTAMP),
        ("interval_end", TIMESTAMP),
        ("min_time", TIMESTAMP),
        ("max_time", TIMESTAMP),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("projections", pa.list_(pa.string())),
        ("not_built", pa.map_(pa.string(), pa.string())),
        ("deleted_rows", pa.int64()),
    ]
)
_PROJECTIONS = pa.schema(
    [
        ("name", pa.string()),
        ("group_by", pa.list_(pa.string())),
        ("aggregators", pa.list_(pa.string())),
        ("columns", pa.list_(pa.string())),
        ("order_by", pa.list_(pa.string())),
        ("filter", pa.string()),
        ("definition_hash", pa.string()),
        ("segments", pa.int64()),
        ("segments_missing", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
_COLUMNS = pa.schema(
    [
        ("column", pa.string()),
        ("type", pa.string()),
        ("bytes", pa.int64()),
        ("null_count", pa.int64()),
        ("segments", pa.int64()),
    ]
)


def _history(snapshot: Snapshot) -> pa.Table:
    """Return one row per kept version; facts that earlier releases did not record are null."""
    rows = [_commit_row(kept) for kept in kept_versions(snapshot.storage)]
    return pa.Table.from_pylist(rows, _HISTORY)


def _commit_row(snapshot: Snapshot) -> dict[str, Any]:
    metrics = snapshot.metrics
    row = {
        "version": snapshot.version,
        "timestamp": snapshot.timestamp_us,
        "operation": snapshot.operation,
        "operationMetrics": [(name, str(count)) for name, count in metrics.items()],
        "isBlindAppend": snapshot.file.change in ("create", "append"),
        "metrics": list(metrics.items()),
        "write_id": snapshot.file.write_id,
        "rows": snapshot.row_count,
        "bytes": snapshot.data_bytes,
    }
    info = snapshot.commit_info
    if info is not None:
        row |= {
            "userName": info.user_name,
            "operationParameters": list(info.parameters.items()),
            "engineInfo": info.engine,
            "userMetadata": info.user_metadata,
            "readVersion": info.read_version,
        }
    return row


def tags(newest: Snapshot) -> pa.Table:
    """Return one row per tag, by name."""
    rows = [{"tag": name, "version": version} for name, version in newest.tags.items()]
    return pa.Table.from_pylist(rows, _TAGS)


_DETAIL_VERSIONS_MAX: Final = 100
"""How many earlier versions `detail` looks at, so that it stays quick where all are kept."""


def detail(snapshot: Snapshot) -> dict[str, Any]:
    """Return the table's declaration and its totals."""
    # Imported here, as in `_projections`: Spark's look-up of formats imports this module.
    from projseg.table_layer.still_stored import as_table, in_earlier_versions, in_own_segments

    stored = snapshot.stored
    own = in_own_segments(stored)
    oldest = max(snapshot.kept_from, snapshot.version - _DETAIL_VERSIONS_MAX)
    earlier = in_earlier_versions(stored, oldest, "vacuum removes what was replaced long ago")
    properties = snapshot.properties
    source = {} if properties.source is UNSET else source_facts(snapshot, properties.source)
    return {
        **source,
        "location": snapshot.storage.location,
        "table_id": properties.table_id,
        "version": snapshot.version,
        "columns": {column.name: column.type for column in properties.columns},
        "time_column": properties.time_column,
        "segment_granularity": properties.segment_granularity,
        "cluster_by": list(properties.cluster_by),
        "target_segment_rows": properties.target_segment_rows,
        "projections": [projection.name for projection in properties.projections],
        "properties": dict(properties.properties),
        "segments": len(snapshot.segments),
        "rows": snapshot.row_count,
        "bytes": snapshot.data_bytes,
        "dead_bytes": sum(one.bytes for one in own),
        "still_stored": as_table([*own, *earlier]).to_pylist(),
    }


def source_facts(snapshot: Snapshot, source: StoredSource) -> dict[str, Any]:
    """Return a table's source, how far it is covered, and the columns that are left out."""
    files, covered = set(), set()
    for entry in snapshot.segments:
        if entry.foreign is not None:
            files.add(entry.foreign.path)
            if entry.has_file:
                covered.add(entry.foreign.path)
    return {
        "source": f"{source.kind}:{source.location}",
        "source_version": source.version,
        "source_files": len(files),
        "source_files_without_companion": len(files - covered),
        "left_out": dict(source.left_out),
    }


def _segments(snapshot: Snapshot) -> pa.Table:
    """Return one row per segment, ordered by time."""
    by_time = [("interval_start", "ascending"), ("min_time", "ascending")]
    return segment_rows(snapshot.segments).sort_by(by_time)


def segment_rows(entries: Iterable[SegmentEntry]) -> pa.Table:
    """Return one row per segment."""
    rows = [
        {
            "segment": segment_label(entry),
            "interval_start": entry.interval[0] if entry.interval else None,
            "interval_end": entry.interval[1] if entry.interval else None,
            "min_time": entry.min_time_us,
            "max_time": entry.max_time_us,
            "rows": entry.live_row_count,
            "deleted_rows": entry.deleted_row_count,
            "bytes": entry.byte_count,
            "projections": [projection.name for projection in entry.projections],
            "not_built": [(name, reason) for name, _, reason in entry.not_built],
        }
        for entry in entries
    ]
    return pa.Table.from_pylist(rows, _SEGMENTS)


def segment_label(entry: SegmentEntry) -> str:
    """Return a segment's name: its file, or that of the source where it has none."""
    foreign = entry.foreign
    return entry.file if foreign is None or entry.has_file else foreign.path


def _projections(snapshot: Snapshot) -> pa.Table:
    """Return one row per declared projection, with the number of segments that hold it."""
    from projseg.table_layer.renamed_columns import declared_spec

    segment_count: Counter[str] = Counter()
    row_count: Counter[str] = Counter()
    byte_count: Counter[str] = Counter()
    for entry in snapshot.segments:
        for stored in entry.projections:
            segment_count[stored.definition_hash] += 1
            row_count[stored.definition_hash] += stored.row_count
            byte_count[stored.definition_hash] += stored.byte_count
    rows = []
    for declared in snapshot.properties.projections:
        content = json.loads(declared_spec(declared, snapshot.properties).definition)
        found = segment_count[declared.definition_hash]
        rows.append(
            {
                "name": declared.name,
                "group_by": _outputs(content, "groupBy"),
                "aggregators": _outputs(content, "aggregators"),
                "columns": _outputs(content, "columns"),
                "order_by": content.get("orderBy"),
                "filter": content["filter"],
                "definition_hash": declared.definition_hash,
                "segments": found,
                "segments_missing": len(snapshot.segments) - found,
                "rows": row_count[declared.definition_hash],
                "bytes": byte_count[declared.definition_hash],
            }
        )
    return pa.Table.from_pylist(rows, _PROJECTIONS)


def _outputs(content: Mapping[str, Any], key: str) -> list[str] | None:
    """Return the outputs of a definition under a key, None if it has none of these."""
    outputs = content.get(key)
    return None if outputs is None else [f"{sql} AS {name}" for name, sql in outputs]


def _columns(snapshot: Snapshot) -> pa.Table:
    """Return one row per column, with its bytes and nulls over all segments."""
    byte_count: Counter[str] = Counter()
    null_count: Counter[str] = Counter()
    segment_count: Counter[str] = Counter()
    schema = named_schema(snapshot.properties)
    for entry in snapshot.segments:
        for name, zone in schema.zones(entry).items():
            byte_count[name] += zone.bytes
            null_count[name] += zone.null_count
            segment_count[name] += 1
    rows = [
        {
            "column": column.name,
            "type": column.type,
            "bytes": byte_count[column.name],
            "null_count": null_count[column.name],
            "segments": segment_count[column.name],
        }
        for column in snapshot.properties.columns
    ]
    return pa.Table.from_pylist(rows, _COLUMNS)


class MetadataTable(msgspec.Struct, frozen=True):
    """A metadata table, and the doors that offer it.

    `meaning` goes on after "List" in a verb of the shell. Besides the method of `Table` and the
    option `metadataTable`, the doors are `t.name` of a catalog in Spark, `SHOW` of projseg's SQL,
    and a verb of the `shell`. Spark's statement shows the columns in `shown`; without any there is
    no such statement. A table of versions is the same at every version, so that none can be chosen.
    """

    rows: Callable[[Snapshot], pa.Table]
    schema: pa.Schema
    meaning: str
    doors: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    is_of_versions: bool = False


METADATA_TABLES: Final[dict[str, MetadataTable]] = {
    "segments": MetadataTable(
        _segments,
        _SEGMENTS,
        "a table's segments: file, interval, rows, bytes.",
        ("t.name", "SHOW", "shell"),
        ("segment", "min_time", "max_time", "rows", "bytes", "projections"),
    ),
    "projections": MetadataTable(
        _projections,
        _PROJECTIONS,
        "a table's projections and how many segments hold each.",
        ("t.name", "SHOW", "shell"),
        (
            *("name", "group_by", "aggregators", "filter"),
            *("segments", "segments_missing", "rows", "bytes"),
        ),
    ),
    "projectionStats": MetadataTable(
        coverage.projection_stats,
        coverage.PROJECTION_SCHEMA,
        "where each projection is built, and where not and why.",
    ),
    "indexes": MetadataTable(
        coverage.indexes,
        coverage.INDEX_SCHEMA,
        "a table's indexes and how many segments each covers.",
        ("shell",),
        tuple(coverage.INDEX_SCHEMA.names),
    ),
    "columns": MetadataTable(
        _columns, _COLUMNS, "a table's columns with their bytes and nulls.", ("t.name",)
    ),
    "history": MetadataTable(
        _history,
        _HISTORY,
        "the commits of a table, newest first.",
        ("t.name", "shell"),
        tuple(name for name in _HISTORY.names if name not in ("metrics", "write_id")),
        is_of_versions=True,
    ),
}
"""By the names that option `metadataTable` takes; methods of `Table` are in snake case."""


def offered_by(door: str) -> tuple[str, ...]:
    """Return the names of the metadata tables that a door offers."""
    return tuple(name for name, table in METADATA_TABLES.items() if door in table.doors)
