"""Manifests: immutable lists of segment entries that snapshots share. SPEC.md "Table", manifests.

Loaded ones are kept by name and checksum, in the one cache of the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from projseg.errors import CorruptTableError
from projseg.memory.cache import KEPT, Cache, Owner
from projseg.memory.forks import side_by_side
from projseg.segment_format.format_limits import SEGMENT_ROWS_MAX
from projseg.table_layer.metadata.checksummed_json import (
    SealedFile,
    checksum_of,
    read_sealed,
    seal,
    unseal,
)
from projseg.table_layer.metadata.metadata_limits import MANIFEST_BYTES_MAX, MANIFEST_SEGMENTS_MAX
from projseg.table_layer.metadata.segment_entry import (
    Count,
    DeletionVector,
    ForeignEntry,
    ForeignFile,
    Micros,
    SegmentEntry,
    encode_entry,
    entry_problem,
    listed_as,
)
from projseg.table_layer.storage.local_files import create_unique
from projseg.table_layer.storage.paths import new_manifest_name, parse_segment_name
from projseg.table_layer.storage.storage_contract import Storage

NO_TIME_MIN: Final = 2**63 - 1
NO_TIME_MAX: Final = -(2**63)
"""The empty time range (its end before its start) of a segment that holds no time value."""

DELETION_VECTORS: Final = "deletion_vectors"
"""The feature of a manifest with an entry that has deleted rows: others would return them."""
FOREIGN: Final = "foreign"
"""The feature of a foreign table, and of a manifest with entries of foreign files."""
FOREIGN_IDS: Final = "foreign_ids"
"""The feature of both where the source knows columns by ids: names would find other columns."""

_ENTRY_DECODER: Final = msgspec.json.Decoder(SegmentEntry)
_FOREIGN_DECODER: Final = msgspec.json.Decoder(ForeignEntry)

_KIND: Final = "manifest"
_DECODED_PER_STORED: Final = 5
"""Bytes an entry takes decoded for each byte of its JSON (measured: 5.2 for 20 columns)."""


class ManifestReference(
    msgspec.Struct, frozen=True, array_like=True, kw_only=True, forbid_unknown_fields=True
):
    """A snapshot's entry for one manifest: enough to prune it whole and to check its bytes."""

    name: str
    byte_count: Count
    checksum: str
    segment_count: Count
    row_count: Count
    data_bytes: Count
    min_time_us: Micros
    max_time_us: Micros
    definition_hashes: tuple[str, ...]


class _ManifestFile(SealedFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    min_time_us: list[Micros]
    max_time_us: list[Micros]
    entries: list[msgspec.Raw]


class _Identity(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some fields of an entry, the others not decoded."""

    file: str
    _1: msgspec.Raw
    row_count: Count
    _3: msgspec.Raw
    _4: msgspec.Raw
    _5: msgspec.Raw
    _6: msgspec.Raw
    _7: msgspec.Raw
    _8: msgspec.Raw
    _9: msgspec.Raw
    _10: msgspec.Raw
    deletion_vector: DeletionVector | None = None

    @property
    def foreign(self) -> ForeignFile | None:
        """The source's file."""
        return None

    @property
    def listed_as(self) -> str:
        """The same as in `SegmentEntry`."""
        return listed_as(self.file, self.deletion_vector)


class _ForeignIdentity(_Identity, frozen=True, array_like=True, gc=False, kw_only=True):
    """The same of an entry of foreign rows."""

    bloom_files: tuple[()] = ()
    foreign: ForeignFile

    @property
    def listed_as(self) -> str:
        """The same as in `ForeignFile`."""
        return self.foreign.listed_as


_MANIFEST_DECODER: Final = msgspec.json.Decoder(_ManifestFile)
_IDENTITY_DECODER: Final = msgspec.json.Decoder(_Identity)
_FOREIGN_IDENTITY_DECODER: Final = msgspec.json.Decoder(_ForeignIdentity)


class Manifest:
    """A loaded manifest: the segments' time ranges, int64[n], and their encoded entries.

    A range includes its largest value; `NO_TIME_MIN` to `NO_TIME_MAX` is the range of no time.
    Features are those a reader has to know; `decoded_count` entries are held decoded as well.
    """

    def __init__(
        self,
        name: str,
        min_times: NDArray[np.int64],
        max_times: NDArray[np.int64],
        raw_entries: Sequence[msgspec.Raw],
        features: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.min_times = min_times
        self.max_times = max_times
        self.raw_entries = raw_entries
        self.decoded_count = 0
        self._entries: list[SegmentEntry | None] = [None] * len(raw_entries)
        self._features = features
        self._identities: tuple[_Identity, ...] | None = None

    def __len__(self) -> int:
        return len(self.raw_entries)

    def entry(self, index: int) -> SegmentEntry:
        """Return one entry, decoded and checked once."""
        entry = self._entries[index]
        if entry is None:
            entry = self._entries[index] = self._decode(index)
            self.decoded_count += 1
        return entry

    def listed(self) -> tuple[str, ...]:
        """Return each entry's `listed_as` in order, without decoding the entries."""
        return tuple(one.listed_as for one in self._identified())

    def foreign_files(self) -> list[ForeignFile]:
        """Return the source's file of each entry in order, without decoding the entries."""
        return [one.foreign for one in self._identified() if one.foreign is not None]

    def files(self) -> Iterator[str]:
        """Yield the names of the files that the entries need, without decoding the entries."""
        for one in self._identified():
            yield one.file
            if one.deletion_vector is not None:
                yield one.deletion_vector.file

    def segment_files(self) -> list[str]:
        """Return each entry's segment file in order, without decoding the entries."""
        return [one.file for one in self._identified()]

    @property
    def live_row_count(self) -> int:
        """Base rows that are not deleted, of all entries."""
        rows = 0
        for index, one in enumerate(self._identify()):
            # An entry that states more than a count of rows is decoded and checked.
            is_plain = one.deletion_vector is None and one.row_count <= SEGMENT_ROWS_MAX
            rows += one.row_count if is_plain else self.entry(index).live_row_count
        return rows

    @property
    def has_deleted_rows(self) -> bool:
        """Whether rows of some entry are deleted."""
        return DELETION_VECTORS in self._features

    @property
    def is_foreign(self) -> bool:
        """Whether the base rows of its entries are in foreign files."""
        return FOREIGN in self._features

    def _identified(self) -> tuple[_Identity, ...]:
        if self._identities is None:
            self._identities = tuple(self._identify())
        return self._identities

    def _identify(self) -> Iterator[_Identity]:
        """Yield the identity of each entry, which takes as much memory as its JSON."""
        decoder = _FOREIGN_IDENTITY_DECODER if self.is_foreign else _IDENTITY_DECODER
        has_deleted_rows = False
        try:
            for raw in self.raw_entries:
                one: _Identity = decoder.decode(raw)
                has_deleted_rows = has_deleted_rows or one.deletion_vector is not None
                yield one
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._corrupt(str(error)) from error
        if has_deleted_rows != self.has_deleted_rows:
            raise self._corrupt("it tells of deleted rows and has none, or the other way round")

    def overlapping(self, start_us: int, end_us: int) -> NDArray[np.int64]:
        """Return the indexes, intp[k], of segments that may hold a time in `[start_us, end_us)`."""
        may_match = (self.min_times < end_us) & (self.max_times >= start_us)
        return np.flatnonzero(may_match)

    def _decode(self, index: int) -> SegmentEntry:
        raw = self.raw_entries[index]
        try:
            decoder = _FOREIGN_DECODER if self.is_foreign else _ENTRY_DECODER
            entry: SegmentEntry = decoder.decode(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._corrupt(f"entry {index}: {error}") from error
        name = parse_segment_name(entry.file)
        if name is None or name.write_id != entry.write_id:
            raise self._corrupt(f"entry {index}: {entry.file[:200]!r} is not a segment's name")
        if time_range(entry) != (self.min_times[index], self.max_times[index]):
            raise self._corrupt(f"entry {index} states another time range than the manifest")
        if entry.deletion_vector is not None and not self.has_deleted_rows:
            raise self._corrupt(f"entry {index} has deleted rows, which the manifest does not tell")
        if (FOREIGN_IDS in self._features) != _is_by_id(entry):
            raise self._corrupt(f"entry {index} finds columns otherwise than the manifest tells")
        if encode_entry(entry) != bytes(raw):
            raise self._corrupt(f"entry {index} is not in canonical form")
        if (problem := entry_problem(entry)) is not None:
            raise self._corrupt(f"entry {index} {problem}")
        return entry

    def _corrupt(self, problem: str) -> CorruptTableError:
        return CorruptTableError(
            "PROJSEG_CORRUPT_TABLE", f"{self.name}: {problem}; restore it from a copy"
        )


def is_storable(entry: SegmentEntry) -> bool:
    """Whether a manifest gives an entry back unchanged: not one with a NaN bound, for example."""
    try:
        listed = msgspec.structs.replace(entry, bloom_files=())
        decoder = _ENTRY_DECODER if entry.foreign is None else _FOREIGN_DECODER
        return bool(decoder.decode(encode_entry(entry)) == listed)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError):
        return False


def time_range(entry: SegmentEntry) -> tuple[int, int]:
    """Return (smallest, largest) time of an entry, or the empty range if it has none."""
    if entry.min_time_us is None or entry.max_time_us is None:
        return NO_TIME_MIN, NO_TIME_MAX
    return entry.min_time_us, entry.max_time_us


def load_manifest(storage: Storage, reference: ManifestReference) -> Manifest:
    """Read and check the manifest a snapshot lists."""
    name = reference.name
    try:
        payload = read_sealed(storage, name)
    except FileNotFoundError as error:
        raise CorruptTableError(
            "PROJSEG_CORRUPT_TABLE",
            f"{storage.location}/{name} is listed by a snapshot and missing; removed by hand, or "
            "by a vacuum? read another version or restore it from a copy",
        ) from error
    file = unseal(payload, _MANIFEST_DECODER, _KIND, f"{storage.location}/{name}")
    manifest = Manifest(
        name,
        np.array(file.min_time_us, dtype=np.int64),
        np.array(file.max_time_us, dtype=np.int64),
        file.entries,
        file.required_features,
    )
    lengths = {len(file.entries), len(file.min_time_us), len(file.max_time_us)}
    stated = (file.name, len(payload), file.checksum, len(file.entries))
    listed = (name, reference.byte_count, reference.checksum, reference.segment_count)
    if stated != listed or len(lengths) != 1:
        raise CorruptTableError(
            "PROJSEG_CORRUPT_TABLE",
            f"{storage.location}/{name} is not the manifest that the snapshot lists; restore it "
            "from a copy",
        )
    return manifest


def write_manifests(
    storage: Storage, entries: Sequence[SegmentEntry], files: list[str]
) -> list[ManifestReference]:
    """Publish manifests that list these entries, ordered by time, and return how to list them.

    Each name is added to `files` before its manifest is written, so that a caller whose commit
    fails knows what to remove. Raises OSError if the storage refuses a manifest, or does not say
    whether it holds one.
    """
    ordered = _in_order(entries)
    references: list[ManifestReference] = []
    for start in range(0, len(ordered), MANIFEST_SEGMENTS_MAX):
        references += _write_chunk(storage, ordered[start : start + MANIFEST_SEGMENTS_MAX], files)
    return references


def _in_order(entries: Sequence[SegmentEntry]) -> list[SegmentEntry]:
    return sorted(entries, key=lambda entry: (*time_range(entry), entry.file))


def _write_chunk(
    storage: Storage, entries: Sequence[SegmentEntry], files: list[str]
) -> list[ManifestReference]:
    name = new_manifest_name()
    ranges = [time_range(entry) for entry in entries]
    payload = seal(
        _ManifestFile(
            kind=_KIND,
            required_features=features_of(entries),
            name=name,
            min_time_us=[smallest for smallest, _ in ranges],
            max_time_us=[largest for _, largest in ranges],
            entries=[msgspec.Raw(encode_entry(entry)) for entry in entries],
        )
    )
    if len(payload) > MANIFEST_BYTES_MAX and len(entries) > 1:
        half = len(entries) // 2
        first = _write_chunk(storage, entries[:half], files)
        return first + _write_chunk(storage, entries[half:], files)
    files.append(name)
    create_unique(storage, name, payload)
    return [_reference(name, len(payload), checksum_of(payload), entries)]


def _reference(
    name: str, byte_count: int, checksum: str, entries: Sequence[SegmentEntry]
) -> ManifestReference:
    ranges = [time_range(entry) for entry in entries]
    return ManifestReference(
        name=name,
        byte_count=byte_count,
        checksum=checksum,
        segment_count=len(entries),
        row_count=sum(entry.live_row_count for entry in entries),
        data_bytes=sum(entry.byte_count for entry in entries),
        min_time_us=min(smallest for smallest, _ in ranges),
        max_time_us=max(largest for _, largest in ranges),
        definition_hashes=tuple(
            sorted(set().union(*(entry.definition_hashes for entry in entries)))
        ),
    )


def features_of(entries: Iterable[SegmentEntry]) -> tuple[str, ...]:
    """Return the features that a reader of a manifest of these entries must have."""
    found = list(entries)
    vectors = (DELETION_VECTORS,) if any(entry.deletion_vector for entry in found) else ()
    foreign = (FOREIGN,) if any(entry.foreign for entry in found) else ()
    ids = (FOREIGN_IDS,) if any(map(_is_by_id, found)) else ()
    return (*vectors, *foreign, *ids)


def _is_by_id(entry: SegmentEntry) -> bool:
    return entry.foreign is not None and entry.foreign.names is not None


def manifest_in_memory(entries: Sequence[SegmentEntry]) -> tuple[ManifestReference, Manifest]:
    """Return a manifest that has no file, and how to list it; its name follows from its content."""
    ordered = _in_order(entries)
    ranges = np.array([time_range(entry) for entry in ordered], dtype=np.int64).reshape(-1, 2)
    raw = [msgspec.Raw(encode_entry(entry)) for entry in ordered]
    digest = xxhash.xxh3_128_hexdigest(b"\n".join(map(bytes, raw)))
    name = f"memory/{digest}"
    manifest = Manifest(name, ranges[:, 0], ranges[:, 1], raw, features_of(ordered))
    return _reference(name, sum(map(len, raw)), digest, ordered), manifest


class ManifestCache:
    """Manifests kept in a byte budget; safe to share between threads."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def load(self, storage: Storage, reference: ManifestReference) -> Manifest:
        """Return the manifest a snapshot lists, read at most once while it fits."""
        key = (_KIND, reference.name, reference.checksum)
        known: tuple[Manifest, Owner] | None = self._cache.get(key)
        if known is not None:
            manifest, owner = known
            # Entries may have been decoded since it was kept.
            self._cache.resize(owner, _held_bytes(manifest, reference))
            return manifest
        loaded, owner = load_manifest(storage, reference), Owner(key)
        byte_count = _held_bytes(loaded, reference)
        kept: tuple[Manifest, Owner] = self._cache.put(
            key, (loaded, owner), byte_count, stands_for=owner
        )
        return kept[0]

    def load_all(
        self, storage: Storage, references: Iterable[ManifestReference]
    ) -> Iterator[Manifest]:
        """Yield manifests in order, read side by side where each read is a round trip."""
        load = partial(self.load, storage)
        if storage.is_remote:
            yield from side_by_side(load, references)
        else:
            yield from map(load, references)


def _held_bytes(manifest: Manifest, reference: ManifestReference) -> int:
    share = manifest.decoded_count / max(1, len(manifest))
    return int(reference.byte_count * (1 + _DECODED_PER_STORED * share))


MANIFESTS: Final = ManifestCache(KEPT)
"""The process's manifests."""
