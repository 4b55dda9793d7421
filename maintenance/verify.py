"""Check a table version, past every cache: everything a reader trusts, file by file.

Snapshot, manifests and segments are read from the storage again. Memory is that of one manifest, a
batch of rows of one segment, its dictionaries, and the groups of one projection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from projseg.maintenance.finding import Finding, findings
from projseg.maintenance.verify_listing import (
    definition_mismatches,
    read_manifest,
    reference_mismatches,
)
from projseg.maintenance.verify_segment import verify_listed_segment
from projseg.table_layer.footer_match import Mismatch
from projseg.table_layer.manifest import ManifestReference
from projseg.table_layer.paths import snapshot_name
from projseg.table_layer.segment_entry import SegmentEntry
from projseg.table_layer.snapshot import Snapshot, read_version
from projseg.table_layer.storage import Storage

__all__ = ["Finding", "verify_table"]


def verify_table(
    storage: Storage,
    snapshot: Snapshot,
    *,
    deep: bool = False,
    on_segment: Callable[[SegmentEntry], object] | None = None,
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
    found: list[Finding] = []
    fresh = _read_again(storage, snapshot, found)
    if fresh is None:
        return found
    seen: set[str] = set()
    for reference in fresh.file.manifests:
        for entry in _entries(fresh, reference, found):
            if entry.file in seen:
                found.append(Finding(entry.file, "times that the version lists it", "1", "2"))
            seen.add(entry.file)
            found += verify_listed_segment(fresh, entry, deep=deep)
            if on_segment is not None:
                on_segment(entry)
    return found


def _read_again(storage: Storage, snapshot: Snapshot, found: list[Finding]) -> Snapshot | None:
    """Return the version as its file has it; add what is wrong with it to `found`."""
    name = snapshot_name(snapshot.version)
    read: list[Snapshot] = []

    def check() -> Iterator[Mismatch]:
        fresh = read_version(storage, snapshot.version)
        if fresh is None:
            yield Mismatch("file", "there", "missing")
            return
        read.append(fresh)
        # A snapshot that this process committed does not hold the checksum of its own file.
        if fresh.file != replace(snapshot.file, checksum=fresh.file.checksum):
            yield Mismatch("content", "what was opened", "something else: open the table again")
        yield from definition_mismatches(fresh)

    found += findings(name, check())
    return read[0] if read else None


def _entries(
    snapshot: Snapshot, reference: ManifestReference, found: list[Finding]
) -> Sequence[SegmentEntry]:
    """Return a manifest's entries; add what is wrong with it to `found`."""
    entries: list[SegmentEntry] = []

    def check() -> Iterator[Mismatch]:
        manifest = read_manifest(snapshot.storage, reference)
        entries.extend(manifest.entry(index) for index in range(len(manifest)))
        yield from reference_mismatches(snapshot, reference, entries)

    found += findings(reference.name, check())
    return entries
