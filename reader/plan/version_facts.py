"""Turn manifest entries into the facts that the planner works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.planning.match_facts import decided_columns
from projseg.algebra.projection.spec import ProjectionSpec, definition_name
from projseg.algebra.proofs.segment_facts import (
    NOTHING_KNOWN,
    ColumnFacts,
    ProjectionFacts,
    SegmentFacts,
)
from projseg.algebra.time.interval import Interval
from projseg.errors import CorruptTableError, one_line
from projseg.table_layer.metadata.column_bounds import bound_decoder
from projseg.table_layer.metadata.segment_entry import (
    Bound,
    ColumnZone,
    SegmentEntry,
    StoredProjection,
)
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import TableSchema, named_schema, stored_schema
from projseg.table_layer.renamed_columns import declared_spec, named_spec, stored_spec


class CoveredRows(msgspec.Struct, frozen=True):
    """The rows, of a version's segments by name, that a part of a wider source stands for.

    It answers for the times of `interval`, None for all.
    """

    version: int
    names: frozenset[str]
    interval: Interval | None


class VersionFacts:
    """The planner's facts about the segments of one table version.

    With `as_stored`, columns have the names of segments and not of the table; `known` has
    projections that are not the version's, such as views, by name and definition hash. Facts are
    not cached: making them costs no more than looking them up, and the plans made from them are
    cached.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        as_stored: bool = False,
        known: Mapping[tuple[str, str], ProjectionSpec] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._as_stored = as_stored
        properties = snapshot.properties
        self._schema = stored_schema(properties) if as_stored else named_schema(properties)
        self._read = _ZoneReader(self._schema).facts
        self._specs: dict[tuple[str, str], ProjectionSpec | str] = dict(known or {})
        self._names: dict[str, tuple[str, ...]] = {}  # that the table gives each definition
        for declared in properties.projections:
            names = self._names.get(declared.definition_hash, ())
            self._names[declared.definition_hash] = (*names, declared.name)

    def declared_specs(self) -> tuple[ProjectionSpec, ...]:
        """Return the table's present projections, over the table's names."""
        properties = self._snapshot.properties
        return tuple(declared_spec(declared, properties) for declared in properties.projections)

    def decided_columns(self) -> frozenset[str]:
        """Return the columns that filters and aggregators of the segments' projections read."""
        properties = self._snapshot.properties
        found = (
            named_spec(definition_name(definition), definition, properties)
            for definition in self._snapshot.definitions.values()
        )
        return frozenset[str]().union(
            *(decided_columns(spec) for spec in found if isinstance(spec, ProjectionSpec))
        )

    def of(self, entry: SegmentEntry) -> SegmentFacts:
        """Return the facts of one listed segment."""
        zones = self._schema.zones(entry)
        not_built = {name: one_line(reason) for name, _, reason in entry.not_built}
        projections = []
        for listed in _of_different_definitions(entry.projections):
            spec = self._spec(listed)
            if isinstance(spec, str):
                not_built[listed.name] = f"for the present columns: {one_line(spec)}"
            else:
                sizes = column_bytes(listed, spec)
                facts = ProjectionFacts(spec, listed.row_count, listed.byte_count, sizes)
                projections.append(facts)
        return SegmentFacts(
            name=entry.file,
            row_count=entry.row_count,
            columns=_LazyColumns(zones, self._read)
            if entry.has_file
            else dict.fromkeys(zones, NOTHING_KNOWN),
            column_bytes={name: zone.bytes for name, zone in zones.items()},
            time_minimum_us=entry.min_time_us,
            time_maximum_us=entry.max_time_us,
            projections=tuple(projections),
            not_built=not_built,
            deleted_row_count=entry.deleted_row_count,
        )

    def _spec(self, listed: StoredProjection) -> ProjectionSpec | str:
        key = (listed.name, listed.definition_hash)
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = self._read_spec(*key)
        return spec

    def _read_spec(self, name: str, definition_hash: str) -> ProjectionSpec | str:
        """Return the spec of an embedded projection, whose hash must be that of its definition."""
        properties = self._snapshot.properties
        definition = self._snapshot.definitions.get(definition_hash)
        problem = "which no definition has"
        if definition is not None:
            stored = stored_spec(name, definition, properties)
            if stored.definition_hash == definition_hash:
                if self._as_stored:
                    return stored
                return self._under_its_names(named_spec(name, definition, properties))
            problem = f"whose definition has the hash {stored.definition_hash}"
        raise CorruptTableError(
            "PROJSEG_CORRUPT_TABLE",
            f"version {self._snapshot.version} of {self._snapshot.storage.location}: a segment "
            f"embeds projection '{name}' of hash {definition_hash}, {problem}; restore the "
            "snapshot from a copy",
        )

    def _under_its_names(self, spec: ProjectionSpec | str) -> ProjectionSpec | str:
        """Return a stored projection under the names that the table gives its definition now."""
        if isinstance(spec, str):
            return spec
        names = self._names.get(spec.as_stored.definition_hash, ())
        if names in ((), (spec.name,)):
            return spec
        first = spec.name if spec.name in names else names[0]
        others = tuple(name for name in names if name != first)
        return replace(spec, name=first, other_names=others, table_name=spec.name)


def _of_different_definitions(listed: Iterable[StoredProjection]) -> Iterator[StoredProjection]:
    """Yield the projections of a segment; of two that store the same, the first."""
    known = set()
    for one in listed:
        if one.definition_hash not in known:
            known.add(one.definition_hash)
            yield one


def column_bytes(listed: StoredProjection, spec: ProjectionSpec) -> Mapping[str, int]:
    """Return the stored bytes of a projection's columns, by the names that its spec gives them."""
    sizes = listed.column_bytes
    if spec.stored is None:
        return sizes
    names = (*spec.stored.grouping, *spec.stored.states)
    return {name: sizes[stored] for name, stored in names if stored in sizes}


class _LazyColumns(Mapping[str, ColumnFacts]):
    """Column facts, decoded when they are asked for: a query asks for few of many."""

    __slots__ = ("_decoded", "_read", "_zones")

    def __init__(
        self, zones: Mapping[str, ColumnZone], read: Callable[[str, ColumnZone], ColumnFacts]
    ) -> None:
        self._zones = zones
        self._read = read
        self._decoded: dict[str, ColumnFacts] = {}

    def __getitem__(self, name: str) -> ColumnFacts:
        found = self._decoded.get(name)
        if found is None:
            found = self._decoded[name] = self._read(name, self._zones[name])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._zones)

    def __len__(self) -> int:
        return len(self._zones)


class _ZoneReader:
    """Makes zones into facts; how bounds of a column are decoded is found once."""

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._decoders: dict[str, tuple[Callable[[Bound], object], bool]] = {}

    def facts(self, name: str, zone: ColumnZone) -> ColumnFacts:
        """Return the facts that a zone states of a column."""
        if name not in self._decoders:
            arrow_type = self._schema.field(name).type
            self._decoders[name] = bound_decoder(arrow_type), pa.types.is_floating(arrow_type)
        decode, may_have_nan = self._decoders[name]
        # Of other types it has no meaning, as a bound may have none.
        has_nan = zone.has_nan and may_have_nan
        return ColumnFacts(decode(zone.min), decode(zone.max), zone.null_count, has_nan, zone.exact)
