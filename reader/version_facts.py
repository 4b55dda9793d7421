"""Turn manifest entries into the facts that the planner works on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.projection.spec import ProjectionSpec, from_definition
from projseg.algebra.proofs.segment_facts import ColumnFacts, ProjectionFacts, SegmentFacts
from projseg.errors import CorruptTableError, one_line
from projseg.table_layer.column_bounds import bound_decoder
from projseg.table_layer.segment_entry import ColumnZone, SegmentEntry, StoredProjection
from projseg.table_layer.snapshot import Snapshot


class VersionFacts:
    """The planner's facts about the segments of one table version.

    Facts are not cached: making them costs no more than finding them would, and the plans made from
    them are cached.

    Parameters
    ----------
    snapshot : Snapshot
        The version.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._schema = snapshot.properties.schema
        self._types = {field.name: field.type for field in self._schema}
        self._specs: dict[tuple[str, str], ProjectionSpec] = {}

    def declared_specs(self) -> tuple[ProjectionSpec, ...]:
        """Return the table's present projections."""
        declared = self._snapshot.properties.projections
        return tuple(_spec(p.name, p.definition, self._schema) for p in declared)

    def of(self, entry: SegmentEntry) -> SegmentFacts:
        """Return the facts of one listed segment."""
        zones = {name: zone for name, zone in entry.columns.items() if name in self._types}
        return SegmentFacts(
            name=entry.file,
            row_count=entry.row_count,
            columns=_LazyColumns(zones, self._types),
            column_bytes={name: zone.bytes for name, zone in zones.items()},
            time_minimum_us=entry.min_time_us,
            time_maximum_us=entry.max_time_us,
            projections=tuple(map(self._projection, entry.projections)),
            not_built={name: one_line(reason) for name, _, reason in entry.not_built},
            deleted_row_count=entry.deleted_row_count,
        )

    def _projection(self, listed: StoredProjection) -> ProjectionFacts:
        key = (listed.name, listed.definition_hash)
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = self._stored_spec(*key)
        return ProjectionFacts(spec, listed.row_count, listed.byte_count, listed.column_bytes)

    def _stored_spec(self, name: str, definition_hash: str) -> ProjectionSpec:
        """Return the spec of an embedded projection, whose hash must be that of its definition."""
        definition = self._snapshot.definitions.get(definition_hash)
        problem = "which no definition has"
        if definition is not None:
            spec = _spec(name, definition, self._schema)
            if spec.definition_hash == definition_hash:
                return spec
            problem = f"whose definition has the hash {spec.definition_hash}"
        raise CorruptTableError(
            "PROJSEG_CORRUPT_TABLE",
            f"version {self._snapshot.version} of {self._snapshot.storage.location}: a segment "
            f"embeds projection '{name}' of hash {definition_hash}, {problem}; restore the "
            "snapshot from a copy",
        )


@lru_cache(maxsize=4096)
def _spec(name: str, definition: str, schema: pa.Schema) -> ProjectionSpec:
    """Return a definition under the name that it is stored by, which may not be its own."""
    return replace(from_definition(definition, schema), name=name)


class _LazyColumns(Mapping[str, ColumnFacts]):
    """Column facts, decoded when they are asked for: a query asks for few of many."""

    def __init__(self, zones: Mapping[str, ColumnZone], types: Mapping[str, pa.DataType]) -> None:
        self._zones = zones
        self._types = types
        self._decoded: dict[str, ColumnFacts] = {}

    def __getitem__(self, name: str) -> ColumnFacts:
        found = self._decoded.get(name)
        if found is None:
            found = self._decoded[name] = _column(self._zones[name], self._types[name])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._zones)

    def __len__(self) -> int:
        return len(self._zones)


def _column(zone: ColumnZone, arrow_type: pa.DataType) -> ColumnFacts:
    decode = bound_decoder(arrow_type)
    return ColumnFacts(
        decode(zone.min), decode(zone.max), zone.null_count, zone.has_nan, zone.exact
    )
