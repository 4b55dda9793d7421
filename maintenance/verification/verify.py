"""Check table versions, past every cache: everything a reader trusts, file by file.

Snapshot, manifests and segments are read from the storage again. Memory is that of one manifest, a
batch of rows of one segment, its dictionaries, and the groups of one projection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import xxhash
from msgspec.structs import replace

from projseg.maintenance.verification.findings import (
    Finding,
    definition_mismatches,
    findings,
    read_manifest,
    reference_mismatches,
)
from projseg.maintenance.verification.verify_segment import verify_listed_segment
from projseg.table_layer.metadata.footer_match import Mismatch
from projseg.table_layer.metadata.manifest import ManifestReference
from projseg.table_layer.metadata.segment_entry import SegmentEntry, encode_entry
from projseg.table_layer.metadata.snapshot import Snapshot, read_version
from projseg.table_layer.storage.locate_storage import Storage
from projseg.table_layer.storage.paths import kept_name, snapshot_name

__all__ = ["Finding", "kept_version_numbers", "verify_kept_versions", "verify_table"]

OnSegment = Callable[[SegmentEntry], object]


def verify_table(
    storage: Storage,
    snapshot: Snapshot,
    *,
    deep: bool = False,
    on_segment: OnSegment | None = None,
) -> list[Finding]:
    """Check everything that a version says.

    Parameters
    ----------
    storage : Storage
        The table.
    snapshot : Snapshot
        The version; its file is read again.
    deep : bool
        Also compare zones and order with the rows, and each projection with its recomputation.
    on_segment : callable or None
        Called after each segment, for progress.

    Returns
    -------
    list of Finding
        Empty if all is well.
    """
    verification = _Verification(storage, deep, on_segment)
    verification.verify(snapshot.version, opened=snapshot)
    return verification.found


def verify_kept_versions(
    storage: Storage,
    newest: Snapshot,
    *,
    deep: bool = False,
    on_segment: OnSegment | None = None,
) -> list[Finding]:
    """Check what every version says that retention or a tag keeps; each file is read once.

    Parameters
    ----------
    storage : Storage
        The table.
    newest : Snapshot
        The newest version.
    deep, on_segment
        As of `verify_table`.
    """
    verification = _Verification(storage, deep, on_segment, newest.kept_from)
    for version in kept_version_numbers(newest):
        verification.verify(version, opened=newest if version == newest.version else None)
    return verification.found


def kept_version_numbers(newest: Snapshot) -> list[int]:
    """Return the versions that can be read, as the newest one knows, itself first."""
    kept = {*range(newest.kept_from, newest.version + 1), *newest.tags.values()}
    return sorted(kept, reverse=True)


class _Verification:
    """Versions of one table, of which manifests and segments that they share are read once."""

    def __init__(
        self, storage: Storage, deep: bool, on_segment: OnSegment | None, kept_from: int = 0
    ) -> None:
        self.found: list[Finding] = []
        self._storage, self._deep, self._on_segment = storage, deep, on_segment
        self._kept_from = kept_from
        self._references: set[ManifestReference] = set()
        self._entries: set[bytes] = set()

    def verify(self, version: int, opened: Snapshot | None) -> None:
        """Check a version; its file is read again."""
        fresh = self._read_again(version, opened)
        if fresh is None:
            return
        listed: set[str] = set()
        for reference in fresh.file.manifests:
            for entry in self._entries_of(fresh, reference):
                if entry.file in listed:
                    mismatch = Finding(entry.file, "times that the version lists it", "1", "2")
                    self.found.append(mismatch)
                listed.add(entry.file)
                self._verify_segment(fresh, entry)

    def _verify_segment(self, snapshot: Snapshot, entry: SegmentEntry) -> None:
        key = xxhash.xxh3_128_digest(encode_entry(entry))
        if key in self._entries:
            return
        self._entries.add(key)
        self.found += verify_listed_segment(snapshot, entry, deep=self._deep)
        if self._on_segment is not None:
            self._on_segment(entry)

    def _read_again(self, version: int, opened: Snapshot | None) -> Snapshot | None:
        """Return the version as its file has it; add what is wrong with it to `found`."""
        read: list[Snapshot] = []

        def check() -> Iterator[Mismatch]:
            fresh = read_version(self._storage, version)
            if fresh is None:
                yield Mismatch("file", "there", "missing")
                return
            read.append(fresh)
            # A snapshot that this process committed does not hold the checksum of its own file.
            if opened is not None and fresh.file != replace(
                opened.file, checksum=fresh.file.checksum
            ):
                other = "something else: open the table again"
                yield Mismatch("content", "what was opened", other)
            yield from definition_mismatches(fresh)

        is_logged = opened is not None or version >= self._kept_from
        name = snapshot_name(version) if is_logged else kept_name(version)
        self.found += findings(name, check())
        return read[0] if read else None

    def _entries_of(
        self, snapshot: Snapshot, reference: ManifestReference
    ) -> Sequence[SegmentEntry]:
        """Return a manifest's entries; add what is wrong with it to `found`."""
        entries: list[SegmentEntry] = []

        def check() -> Iterator[Mismatch]:
            unknown = sorted(set(reference.definition_hashes) - snapshot.definitions.keys())
            if reference in self._references:
                if unknown:
                    yield Mismatch("definitions in the snapshot", unknown, "none of these")
                return
            self._references.add(reference)
            manifest = read_manifest(snapshot.storage, reference)
            entries.extend(manifest.entry(index) for index in range(len(manifest)))
            yield from reference_mismatches(snapshot, reference, entries)

        self.found += findings(reference.name, check())
        return entries
