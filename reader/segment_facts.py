"""From what a manifest says of a segment to what the planner asks about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

import pyarrow as pa

from projseg.algebra.projection_spec import ProjectionSpec, from_definition
from projseg.algebra.segment_facts import ColumnFacts, SegmentFacts, StoredProjection
from projseg.errors import CorruptTableError, one_line
from projseg.memory.cache import KEPT
from projseg.table_layer.column_bounds import decode_bound
from projseg.table_layer.manifest import ColumnZone, SegmentEntry
from projseg.table_layer.snapshot import Snapshot

# About what the facts of a segment take in memory, and those of a column.
_FACTS_BYTES: Final = 2048
_COLUMN_FACTS_BYTES: Final = 512


def facts_of(snapshot: Snapshot, entry: SegmentEntry) -> SegmentFacts:
    """Return what is known of one listed segment."""
    facts: SegmentFacts = KEPT.get_or_load(
        ("facts", snapshot.storage.location, entry.file),
        lambda: _read(snapshot, entry),
        lambda _: _FACTS_BYTES + _COLUMN_FACTS_BYTES * len(entry.columns),
    )
    return facts


def declared_specs(snapshot: Snapshot) -> tuple[ProjectionSpec, ...]:
    """Return the table's present projections."""
    properties = snapshot.properties
    return tuple(_spec(p.name, p.definition, properties.schema) for p in properties.projections)


@lru_cache(maxsize=4096)
def _spec(name: str, definition: str, schema: pa.Schema) -> ProjectionSpec:
    """Return a definition under the name that it is stored by, which may not be its own."""
    return replace(from_definition(definition, schema), name=name)


def _stored_spec(snapshot: Snapshot, name: str, definition_hash: str) -> ProjectionSpec:
    """Return what a segment embeds under a name; the hash must be that of its definition."""
    definition = snapshot.definitions.get(definition_hash)
    problem = "which no definition has"
    if definition is not None:
        spec = _spec(name, definition, snapshot.properties.schema)
        if spec.definition_hash == definition_hash:
            return spec
        problem = f"whose definition has the hash {spec.definition_hash}"
    raise CorruptTableError(
        "PROJSEG_CORRUPT_TABLE",
        f"version {snapshot.version} of {snapshot.storage.location}: a segment embeds projection "
        f"'{name}' of hash {definition_hash}, {problem}; restore the snapshot from a copy",
    )


def _read(snapshot: Snapshot, entry: SegmentEntry) -> SegmentFacts:
    schema = snapshot.properties.schema
    zones = {name: zone for name, zone in entry.columns.items() if name in schema.names}
    return SegmentFacts(
        name=entry.file,
        row_count=entry.row_count,
        columns=_LazyColumns(zones, schema),
        column_bytes={name: zone.bytes for name, zone in zones.items()},
        time_minimum_us=entry.min_time_us,
        time_maximum_us=entry.max_time_us,
        projections=tuple(
            StoredProjection(
                _stored_spec(snapshot, stored.name, stored.definition_hash),
                stored.row_count,
                stored.byte_count,
                stored.column_bytes,
            )
            for stored in entry.projections
        ),
        not_built={name: one_line(reason) for name, _, reason in entry.not_built},
    )


class _LazyColumns(Mapping[str, ColumnFacts]):
    """Column facts, decoded when they are asked for: a query asks for few of many."""

    def __init__(self, zones: Mapping[str, ColumnZone], schema: pa.Schema) -> None:
        self._zones = zones
        self._schema = schema
        self._decoded: dict[str, ColumnFacts] = {}

    def __getitem__(self, name: str) -> ColumnFacts:
        if name not in self._decoded:
            self._decoded[name] = _column(self._zones[name], self._schema.field(name).type)
        return self._decoded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._zones)

    def __len__(self) -> int:
        return len(self._zones)


def _column(zone: ColumnZone, arrow_type: pa.DataType) -> ColumnFacts:
    return ColumnFacts(
        minimum=decode_bound(zone.min, arrow_type),
        maximum=decode_bound(zone.max, arrow_type),
        null_count=zone.null_count,
        has_nan=zone.has_nan,
        is_exact=zone.exact,
    )
