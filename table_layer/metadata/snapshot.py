"""One version of a table, pinned: its declarations and the segments that it lists.

SPEC.md "Table", snapshots. Snapshots are numbered from 0 without gaps; a reader needs one
snapshot and the manifests it lists, and never lists `data/`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Final, overload

import msgspec

from projseg.errors import CorruptTableError, InvalidInputError, without_secrets
from projseg.memory.forks import cached_property
from projseg.segment_format.footer import has_zone_rules, is_definition_of_rows
from projseg.table_layer.metadata.change import COMMIT_INFO, ChangeKind, CommitInfo
from projseg.table_layer.metadata.checksummed_json import SealedFile, read_sealed, seal, unseal
from projseg.table_layer.metadata.index_declaration import (
    INDEXES,
    StoredIndexes,
    declared_indexes,
    indexes_problem,
)
from projseg.table_layer.metadata.manifest import (
    FOREIGN,
    FOREIGN_IDS,
    MANIFESTS,
    Manifest,
    ManifestReference,
)
from projseg.table_layer.metadata.segment_entry import BloomReference, Count, Micros, SegmentEntry
from projseg.table_layer.metadata.stored_columns import STORED_COLUMNS
from projseg.table_layer.metadata.table_properties import TableProperties, check_properties
from projseg.table_layer.metadata.versions_and_tags import (
    latest_version,
    list_versions,
    tags_problem,
)
from projseg.table_layer.storage.paths import kept_name, snapshot_name
from projseg.table_layer.storage.storage_contract import Storage


class Transaction(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The newest version an application has committed, and the table version it made."""

    version: Micros
    table_version: Count


class SnapshotFile(SealedFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A snapshot as stored; what is unset is not in the file, and what is set names a feature."""

    version: Count
    timestamp_us: Micros
    write_id: str
    change: ChangeKind
    change_interval: tuple[Micros, Micros] | None = None
    operation: str
    metrics: dict[str, Micros] = msgspec.field(default_factory=dict)
    properties: TableProperties
    definitions: dict[str, str] = msgspec.field(default_factory=dict)
    transactions: dict[str, Transaction] = msgspec.field(default_factory=dict)
    manifests: tuple[ManifestReference, ...] = ()
    commit: CommitInfo | msgspec.UnsetType = msgspec.UNSET
    tags: dict[str, Count] | msgspec.UnsetType = msgspec.UNSET
    kept_from: Count | msgspec.UnsetType = msgspec.UNSET
    indexes: StoredIndexes | msgspec.UnsetType = msgspec.UNSET
    optional: dict[str, msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET

    @property
    def features(self) -> tuple[str, ...]:
        """The features that a reader of these fields must know."""
        found = {
            STORED_COLUMNS: self.properties.stored_columns,
            FOREIGN: self.properties.source,
            COMMIT_INFO: self.commit,
            TAGS: self.tags,
            VACUUM: self.kept_from,
            INDEXES: self.indexes,
            OPTIONAL: self.optional,
        }
        names = [name for name, value in found.items() if value is not msgspec.UNSET]
        source = self.properties.source
        if source is not msgspec.UNSET and source.field_ids is not msgspec.UNSET:
            names.insert(names.index(FOREIGN) + 1, FOREIGN_IDS)
        if any(map(is_definition_of_rows, self.definitions.values())):
            names.append(ROW_PROJECTIONS)
        if any(map(has_zone_rules, self.definitions.values())):
            names.append(ZONE_RULES)
        return tuple(names)


ROW_PROJECTIONS: Final = "row_projections"
"""The feature of tables whose definitions are not all of groups."""
ZONE_RULES: Final = "time_zone_rules"
"""The feature of tables with definitions that name rules of time zones."""
TAGS: Final = "tags"
VACUUM: Final = "vacuum"
"""Features of tables that were tagged or vacuumed: who does not know them would forget both."""

OPTIONAL: Final = "optional"
"""The feature of snapshots with members that readers ignore if they do not know them."""
_COMMIT: Final = "commit"

_DECODER: Final = msgspec.json.Decoder(SnapshotFile)
_COMMIT_DECODER: Final = msgspec.json.Decoder(CommitInfo)


def optional_members(info: CommitInfo) -> dict[str, msgspec.Raw]:
    """Return a snapshot's record of its commit as members that readers may ignore."""
    return {_COMMIT: msgspec.Raw(msgspec.json.encode(info))}


class SegmentList(Sequence[SegmentEntry]):
    """The segments of a snapshot; manifests are read when first needed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._references = snapshot.file.manifests
        self._ends = list(accumulate(one.segment_count for one in self._references))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[SegmentEntry]:
        for manifest in self._snapshot.load_all(self._references):
            for index in range(len(manifest)):
                yield manifest.entry(index)

    @overload
    def __getitem__(self, index: int) -> SegmentEntry: ...
    @overload
    def __getitem__(self, index: slice) -> list[SegmentEntry]: ...
    def __getitem__(self, index: int | slice) -> SegmentEntry | list[SegmentEntry]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"segment {index} of {len(self)}")
        which = bisect_right(self._ends, position)
        before = self._ends[which - 1] if which else 0
        manifest = self._snapshot.load(self._references[which])
        return manifest.entry(position - before)


class Snapshot:
    """A table version that a reader or writer has pinned, by the content of its file."""

    def __init__(self, storage: Storage, file: SnapshotFile) -> None:
        self.storage = storage
        self.file = file

    def __repr__(self) -> str:
        return f"Snapshot({without_secrets(self.storage.location)!r}, version={self.version})"

    @property
    def version(self) -> int:
        """The table version."""
        return self.file.version

    @property
    def timestamp_us(self) -> int:
        """When it was committed by its writer's clock, microseconds UTC; never used for order."""
        return self.file.timestamp_us

    @property
    def operation(self) -> str:
        """The operation that made it, in the committer's words."""
        return self.file.operation

    @property
    def metrics(self) -> dict[str, int]:
        """The counts of the commit."""
        return self.file.metrics

    @property
    def commit_info(self) -> CommitInfo | None:
        """What the commit said of itself; None if an earlier release made it."""
        return _commit_info(self.file)

    @property
    def tags(self) -> dict[str, int]:
        """Tagged versions by tag; the newest version has them all."""
        return {} if self.file.tags is msgspec.UNSET else self.file.tags

    @property
    def kept_from(self) -> int:
        """The oldest version that vacuum left in the log."""
        return 0 if self.file.kept_from is msgspec.UNSET else self.file.kept_from

    def keeps(self, version: int) -> bool:
        """Whether an earlier version's files are safe from vacuum, as far as this one knows."""
        return self.kept_from <= version or version in self.tags.values()

    @cached_property
    def properties(self) -> TableProperties:
        """The table's declaration, its indexes included."""
        declared = declared_indexes(self.file.indexes)
        return msgspec.structs.replace(self.file.properties, indexes=declared or msgspec.UNSET)

    @property
    def bloom_files(self) -> tuple[BloomReference, ...]:
        """The listed Bloom files."""
        return () if self.file.indexes is msgspec.UNSET else self.file.indexes.files

    @property
    def definitions(self) -> dict[str, str]:
        """Canonical JSON of every projection definition declared or embedded, by hash."""
        return self.file.definitions

    @property
    def segments(self) -> SegmentList:
        """The listed segments."""
        return SegmentList(self)

    @property
    def row_count(self) -> int:
        """Base rows of all segments; needs no manifest."""
        return sum(reference.row_count for reference in self.file.manifests)

    @property
    def data_bytes(self) -> int:
        """Bytes of all segment files; needs no manifest."""
        return sum(reference.data_bytes for reference in self.file.manifests)

    def segments_between(self, start_us: int, end_us: int) -> list[SegmentEntry]:
        """Return the segments that may hold a time in `[start_us, end_us)`, in microseconds UTC.

        Manifests outside the interval are not read, and entries outside it are not decoded.
        Segments without any time value cannot match.
        """
        found = []
        within = [
            reference
            for reference in self.file.manifests
            if reference.min_time_us < end_us and reference.max_time_us >= start_us
        ]
        for manifest in self.load_all(within):
            chosen = manifest.overlapping(start_us, end_us).tolist()
            found += [manifest.entry(index) for index in chosen]
        return found

    def as_planned(self, entry: SegmentEntry) -> SegmentEntry:
        """Return a segment as planning is to see it."""
        return entry

    def load(self, reference: ManifestReference) -> Manifest:
        """Return one of the manifests that `file.manifests` lists."""
        return MANIFESTS.load(self.storage, reference)

    def load_all(self, references: Iterable[ManifestReference] | None = None) -> Iterator[Manifest]:
        """Yield manifests that `file.manifests` lists, in order; None means all of them."""
        wanted = self.file.manifests if references is None else references
        return MANIFESTS.load_all(self.storage, wanted)

    @property
    def number(self) -> int:
        """Its number for `open_as_of` in any process: the version, and the state pinned with it."""
        return self.version

    @property
    def stored(self) -> Snapshot:
        """The version as the table's log has it, which commits follow."""
        return self

    def with_file(self, file: SnapshotFile) -> Snapshot:
        """Return this version with another file, which lists the same manifests."""
        return Snapshot(self.storage, file)

    def with_files_only(self) -> Snapshot:
        """Return this version without entries that have no file of their own."""
        return self

    def followed_by(self, made: Snapshot) -> Snapshot:
        """Return a later version as whoever pinned this one sees it."""
        return made


def open_snapshot(storage: Storage, version: int | None = None) -> Snapshot:
    """Pin a table version, the newest by default."""
    if version is not None and type(version) is not int:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_VERSION",
            f"version {version!r} is no whole number; give one of the table's history",
        )
    wanted = latest_version(storage) if version is None else version
    snapshot = read_version(storage, wanted)
    if snapshot is not None:
        return snapshot
    if version is None:
        raise CorruptTableError(
            "PROJSEG_CORRUPT_TABLE",
            f"{storage.location}/{snapshot_name(wanted)} was listed and is gone; something other "
            "than projseg removes its files",
        )
    raise InvalidInputError(
        "PROJSEG_UNKNOWN_VERSION",
        f"version {version} of table {storage.location} does not exist or is no longer kept; "
        f"the newest is {latest_version(storage)}, the oldest {min(list_versions(storage))}",
    )


def read_version(storage: Storage, version: int) -> Snapshot | None:
    """Return the snapshot of one version, or None if it certainly has no file.

    Raises CorruptTableError or UnsupportedFeatureError if the file is there and cannot be trusted
    or understood, and OSError if the storage cannot say.
    """
    if version < 0:
        return None
    # The log comes first: a tagged version is copied before it leaves the log.
    for name in (snapshot_name(version), kept_name(version)):
        with suppress(FileNotFoundError):
            payload = read_sealed(storage, name)
            break
    else:
        return None
    where = f"{storage.location}/{name}"
    file = unseal(payload, _DECODER, "snapshot", where)
    _check_file(file, version, where)
    return Snapshot(storage, file)


def encode_snapshot(file: SnapshotFile) -> bytes:
    """Return a snapshot's bytes, having read them back: nothing unreadable is ever published."""
    try:
        payload = seal(file)
        unseal(payload, _DECODER, "snapshot", "the new snapshot")
    except (CorruptTableError, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"version {file.version} cannot be stored: {error}; metrics must be 64-bit integers, "
            "names and properties valid text",
        ) from error
    return payload


def kept_versions(storage: Storage) -> Iterator[Snapshot]:
    """Yield the table's versions, newest first, down to the oldest that is kept."""
    version = latest_version(storage)
    snapshot: Snapshot | None = open_snapshot(storage, version)
    while snapshot is not None:
        yield snapshot
        version -= 1
        snapshot = read_version(storage, version)


def _commit_info(file: SnapshotFile) -> CommitInfo | None:
    """Return a snapshot's record of its commit, where its release wrote one."""
    if file.commit is not msgspec.UNSET:
        return file.commit
    raw = None if file.optional is msgspec.UNSET else file.optional.get(_COMMIT)
    if raw is None:
        return None
    info = _COMMIT_DECODER.decode(raw)
    if msgspec.json.encode(info) != bytes(raw):
        raise ValueError("it is not in canonical form")
    return info


def _kept_problem(file: SnapshotFile, version: int) -> str | None:
    if file.kept_from is not msgspec.UNSET and file.kept_from > version:
        return f"it says that version {file.kept_from} is the oldest that is kept"
    return None if file.tags is msgspec.UNSET else tags_problem(file.tags, version)


def _check_file(file: SnapshotFile, version: int, where: str) -> None:
    problem = ""
    if file.required_features != file.features:
        problem = f"it names features {list(file.required_features)} and has {list(file.features)}"
    try:
        _commit_info(file)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        problem = f"its commit is none: {error}"
    if file.properties.indexes is not msgspec.UNSET:
        problem = "it declares indexes among its properties"
    problem = indexes_problem(file.indexes) or problem
    if file.version != version:
        problem = f"it says it is version {file.version}"
    try:
        check_properties(file.properties)
    except InvalidInputError as error:
        problem = error.message
    problem = _kept_problem(file, version) or problem
    names = [reference.name for reference in file.manifests]
    if len(set(names)) != len(names):
        problem = "it lists a manifest twice"
    if problem:
        raise CorruptTableError(
            "PROJSEG_CORRUPT_TABLE", f"{where}: {problem}; restore it from a copy"
        )
