"""Removed values that a listed segment's file still stores: dropped columns, projections, rows.

Nothing reads them. They leave with the next compaction of the segment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from projseg.table_layer.columns.projection_names import named_spec
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import live_stored_names


class DeadParts(msgspec.Struct, frozen=True):
    """What a segment stores that the table no longer has.

    Parameters
    ----------
    columns : mapping of str to int
        Stored bytes of dropped columns, without their dictionaries, by stored name.
    projections : mapping of str to int
        Stored bytes of dropped projections, by stored name; 0 for one that could not be built and
        of which only the reason is stored.
    deleted_rows : int
        Rows that are deleted.
    row_bytes : int
        Their share of the base table's live columns, and the bytes of the file that names them.
    """

    columns: Mapping[str, int]
    projections: Mapping[str, int]
    deleted_rows: int
    row_bytes: int

    def __bool__(self) -> bool:
        return bool(self.columns or self.projections or self.deleted_rows)

    @property
    def byte_count(self) -> int:
        """Bytes that a compaction frees, as far as metadata tell."""
        return sum(self.columns.values()) + sum(self.projections.values()) + self.row_bytes


@dataclass(frozen=True, slots=True)
class LiveParts:
    """What a table version has; whatever else its segments store is dead.

    Parameters
    ----------
    snapshot : Snapshot
        The version.
    columns : frozenset of str
        The stored names of its columns.
    projections : frozenset of (str, str)
        Its projections, by name and definition hash.
    """

    snapshot: Snapshot
    columns: frozenset[str]
    projections: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, snapshot: Snapshot) -> LiveParts:
        """Return what a version has."""
        properties = snapshot.properties
        declared = ((one.name, one.definition_hash) for one in properties.projections)
        return cls(snapshot, live_stored_names(properties), frozenset(declared))

    def dead(self, entry: SegmentEntry) -> DeadParts:
        """Return what a segment stores that this version does not have."""
        stored = [(one.name, one.definition_hash, one.byte_count) for one in entry.projections]
        failed = [(name, digest, 0) for name, digest, _ in entry.not_built]
        by_name = {(name, digest) for name, digest, _ in (*stored, *failed)} & self.projections
        served = {digest for _, digest in by_name}
        projections: dict[str, int] = {}
        for name, digest, byte_count in (*stored, *failed):
            if (name, digest) in by_name or (digest not in served and self._serves(name, digest)):
                served.add(digest)
            else:
                projections[name] = projections.get(name, 0) + byte_count
        columns = {
            name: zone.bytes for name, zone in entry.columns.items() if name not in self.columns
        }
        return DeadParts(columns, projections, entry.deleted_row_count, self._row_bytes(entry))

    def _serves(self, name: str, digest: str) -> bool:
        """Whether a definition is one that is declared, perhaps over columns that are wider now."""
        declared = {one.definition_hash: one for one in self.snapshot.properties.projections}
        if digest in declared:
            return True
        present = next((one for one in declared.values() if one.name == name), None)
        definition = self.snapshot.definitions.get(digest)
        if present is None or definition is None:
            return False
        properties = self.snapshot.properties
        specs = [named_spec(name, text, properties) for text in (definition, present.definition)]
        before, now = (None if isinstance(spec, str) else spec.definition for spec in specs)
        return before is not None and before == now

    def _row_bytes(self, entry: SegmentEntry) -> int:
        vector = entry.deletion_vector
        if vector is None:
            return 0
        live = sum(zone.bytes for name, zone in entry.columns.items() if name in self.columns)
        return live * vector.row_count // entry.row_count + vector.byte_count
