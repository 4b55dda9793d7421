"""Where removed values are still stored: in which versions' files, how many bytes, and why.

They are dropped columns, projections and rows of a segment that is still listed. Nothing reads
them; they leave with the next compaction of the segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec
import pyarrow as pa

from projseg.errors import CorruptionError
from projseg.memory.forks import side_by_side
from projseg.table_layer.metadata.manifest import ManifestReference
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot, read_version
from projseg.table_layer.metadata.table_schema import live_stored_names
from projseg.table_layer.renamed_columns import named_spec
from projseg.table_layer.storage.storage_contract import Storage

_SCHEMA: Final = pa.schema(
    [
        ("versions", pa.string()),
        ("tag", pa.string()),
        ("segments", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("dropped_columns", pa.list_(pa.string())),
        ("dropped_projections", pa.list_(pa.string())),
        ("why", pa.string()),
    ]
)


class DeadParts(msgspec.Struct, frozen=True):
    """What a segment stores that the table no longer has.

    Bytes of dropped columns, without their dictionaries, and of dropped projections are by stored
    name; 0 stands for a projection of which only the reason why it could not be built is stored.
    `row_bytes` are the deleted rows' share of the base table's live columns, and the bytes of the
    file that names them.
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
    """A version's stored columns, and projections as (name, hash); all else is dead."""

    snapshot: Snapshot
    columns: frozenset[str]
    projections: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, snapshot: Snapshot) -> LiveParts:
        """Return the live parts of a version."""
        properties = snapshot.properties
        declared = ((one.name, one.definition_hash) for one in properties.projections)
        return cls(snapshot, live_stored_names(properties), frozenset(declared))

    def dead(self, entry: SegmentEntry) -> DeadParts:
        """Return the parts of a segment that this version does not have."""
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


class StillStored(msgspec.Struct, frozen=True):
    """Removed values that versions, `7` or `3 to 6`, or a tag keep, by stored names.

    `versions` is empty for files that no version lists. Of a version's own segments, the figures
    are those with removed values, their deleted rows, and the dead bytes; of earlier versions, the
    segments that are no longer listed, whole. `why` says why they are stored, and what removes
    them.
    """

    versions: str
    tag: str | None
    segments: int
    rows: int
    bytes: int
    dropped_columns: Sequence[str]
    dropped_projections: Sequence[str]
    why: str


def as_table(found: Iterable[StillStored]) -> pa.Table:
    """Return one row for each."""
    return pa.Table.from_pylist([msgspec.structs.asdict(one) for one in found], _SCHEMA)


def in_own_segments(snapshot: Snapshot) -> list[StillStored]:
    """Return the removed values in the segments of a version; none or one record."""
    live = LiveParts.of(snapshot)
    dead = [parts for entry in snapshot.segments if (parts := live.dead(entry))]
    if not dead:
        return []
    return [
        StillStored(
            versions=str(snapshot.version),
            tag=None,
            segments=len(dead),
            rows=sum(parts.deleted_rows for parts in dead),
            bytes=sum(parts.byte_count for parts in dead),
            dropped_columns=sorted({name for parts in dead for name in parts.columns}),
            dropped_projections=sorted({name for parts in dead for name in parts.projections}),
            why="not compacted since: run compact, or compact with purge",
        )
    ]


def in_earlier_versions(snapshot: Snapshot, kept_from: int, why: str) -> list[StillStored]:
    """Return which earlier versions keep segments that a version no longer lists.

    These are versions from `kept_from` on, kept for the reason `why`, and tagged ones.
    """
    storage, live = snapshot.storage, LiveParts.of(snapshot)
    listed = {file for r in snapshot.file.manifests for file in snapshot.load(r).segment_files()}
    log = range(kept_from, snapshot.version)
    tags = {tag: version for tag, version in snapshot.tags.items() if version < snapshot.version}
    wanted = sorted({*log, *tags.values()})
    read = partial(_readable, storage)
    opened = list(side_by_side(read, wanted) if storage.is_remote else map(read, wanted))
    found = dict(zip(wanted, opened, strict=True))
    holders = [_of_versions([found[v] for v in log], listed, live, _span(log), None, why)]
    for tag, version in tags.items():
        reason = f"the tag keeps it: drop_tag('{tag}'), then vacuum"
        holders.append(_of_versions([found[version]], listed, live, str(version), tag, reason))
    return [one for one in holders if one is not None]


def _readable(storage: Storage, version: int) -> Snapshot | str | None:
    """Return a version, why it cannot be read, or None if it is gone."""
    try:
        return read_version(storage, version)
    except CorruptionError as error:
        return f"version {version} cannot be read: {error.message}"


def _of_versions(
    snapshots: Iterable[Snapshot | str | None],
    listed: set[str],
    live: LiveParts,
    versions: str,
    tag: str | None,
    why: str,
) -> StillStored | None:
    references: dict[str, ManifestReference] = {}
    problems: list[str] = []
    for snapshot in snapshots:
        if isinstance(snapshot, str):
            problems.append(snapshot)
        elif snapshot is not None:
            references |= {reference.name: reference for reference in snapshot.file.manifests}
    entries: dict[str, SegmentEntry] = {}
    for reference in references.values():
        try:
            manifest = live.snapshot.load(reference)
            for index, file in enumerate(manifest.segment_files()):
                if file not in listed and file not in entries:
                    entries[file] = manifest.entry(index)
        except CorruptionError as error:
            problems.append(error.message)
    if not entries and not problems:
        return None
    dead = [live.dead(entry) for entry in entries.values()]
    return StillStored(
        versions=versions,
        tag=tag,
        segments=len(entries),
        rows=sum(entry.row_count for entry in entries.values()),
        bytes=sum(entry.byte_count for entry in entries.values()),
        dropped_columns=sorted({name for parts in dead for name in parts.columns}),
        dropped_projections=sorted({name for parts in dead for name in parts.projections}),
        why="; ".join([why, *problems]),
    )


def _span(log: range) -> str:
    return str(log.start) if len(log) == 1 else f"{log.start} to {log.stop - 1}"


@dataclass(slots=True)
class Holders:
    """The versions of a table that can be read, and the files that each needs.

    `earlier` are kept by retention or a tag, the newest first.
    """

    newest: Snapshot
    earlier: list[Snapshot]
    _versions: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, newest: Snapshot) -> Holders:
        """Return them as the newest version knows them."""
        log = range(newest.kept_from, newest.version)
        versions = sorted({*log, *(v for v in newest.tags.values() if v != newest.version)})
        earlier = [open_snapshot(newest.storage, version) for version in reversed(versions)]
        holders = cls(newest, earlier)
        for snapshot in (newest, *earlier):
            for reference in snapshot.file.manifests:
                for file in (reference.name, *snapshot.load(reference).files()):
                    holders._versions.setdefault(file, []).append(snapshot.version)
            for listed in snapshot.bloom_files:
                holders._versions.setdefault(listed.name, []).append(snapshot.version)
        return holders

    def versions_of(self, file: str) -> list[int]:
        """Return the versions that need a segment, deletion vector, manifest or Bloom file."""
        return self._versions.get(file, [])

    def tags_of(self, versions: list[int]) -> list[str]:
        """Return the tags of some versions."""
        return [tag for tag, version in self.newest.tags.items() if version in versions]

    def others(self) -> Iterator[Snapshot]:
        """Yield the earlier versions that list other segments than the newest."""
        same = set(self.newest.file.manifests)
        for snapshot in self.earlier:
            if not same.issuperset(snapshot.file.manifests):
                yield snapshot
