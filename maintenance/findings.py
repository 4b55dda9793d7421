"""Findings of verification in words, and those of a listing: definitions, manifests, versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from projseg.algebra.projection.spec import from_definition
from projseg.errors import ProjsegError, one_line
from projseg.table_layer.commits.footer_match import Mismatch
from projseg.table_layer.metadata.manifest import (
    Manifest,
    ManifestReference,
    load_manifest,
    time_range,
)
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import stored_schema
from projseg.table_layer.storage.paths import (
    MANIFEST_PREFIX,
    SNAPSHOT_PREFIX,
    is_temporary,
    snapshot_name,
)
from projseg.table_layer.storage.storage_contract import Storage


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong in one file of a table.

    Parameters
    ----------
    file : str
        Its name in the table.
    what : str
        Which fact is wrong.
    expected : str
        What the table or the file claims; empty if the file cannot be read that far.
    found : str
        What is there.
    """

    file: str
    what: str
    expected: str = ""
    found: str = ""

    @property
    def problem(self) -> str:
        """All of it as one line."""
        if not self.expected and not self.found:
            return self.what
        return one_line(f"{self.what}: expected {self.expected}, found {self.found}")


def findings(file: str, mismatches: Iterable[Mismatch]) -> Iterator[Finding]:
    """Yield the findings of a check of one file, and the error that ends it, if one does."""
    try:
        for what, expected, found in mismatches:
            yield Finding(file, one_line(what), one_line(str(expected)), one_line(str(found)))
    except ProjsegError as error:
        yield Finding(file, str(error))
    except OSError as error:
        yield Finding(file, one_line(f"{type(error).__name__}: {error}"))


def definition_mismatches(snapshot: Snapshot) -> Iterator[Mismatch]:
    """Yield definitions whose hash is not theirs, and declarations that differ from them."""
    schema = stored_schema(snapshot.properties).columns
    for stated, definition in snapshot.definitions.items():
        computed = from_definition(definition, schema).definition_hash
        if stated != computed:
            yield Mismatch(f"hash of the definition {definition[:100]}", stated, computed)
    for declared in snapshot.properties.projections:
        computed = from_definition(declared.definition, schema).definition_hash
        if declared.definition_hash != computed:
            yield Mismatch(
                f"hash of declared projection '{declared.name}'", declared.definition_hash, computed
            )
        if declared.definition_hash not in snapshot.definitions:
            yield Mismatch(f"definition of projection '{declared.name}'", "listed", "missing")


def read_manifest(storage: Storage, reference: ManifestReference) -> Manifest:
    """Return a manifest as the storage has it, with every entry decoded and checked."""
    manifest = load_manifest(storage, reference)
    for index in range(len(manifest)):
        manifest.entry(index)
    return manifest


def reference_mismatches(
    snapshot: Snapshot, reference: ManifestReference, entries: Sequence[SegmentEntry]
) -> Iterator[Mismatch]:
    """Yield where a snapshot's reference to a manifest differs from the manifest's entries."""
    ranges = [time_range(entry) for entry in entries]
    hashes = set().union(*(entry.definition_hashes for entry in entries))
    facts = {
        "rows of all segments": (reference.row_count, sum(e.live_row_count for e in entries)),
        "bytes of all segments": (reference.data_bytes, sum(e.byte_count for e in entries)),
        "smallest time": (reference.min_time_us, min(low for low, _ in ranges)),
        "largest time": (reference.max_time_us, max(high for _, high in ranges)),
        "definition hashes": (list(reference.definition_hashes), sorted(hashes)),
    }
    for what, (stated, found) in facts.items():
        if stated != found:
            yield Mismatch(f"{what} in the snapshot's list", stated, found)
    unknown = sorted(hashes - snapshot.definitions.keys())
    if unknown:
        yield Mismatch("definitions in the snapshot", unknown, "none of these")
    keys = [(*time_range(entry), entry.file) for entry in entries]
    if keys != sorted(keys):
        yield Mismatch("entries in the order of time", "ascending", "another order")


# Files later than the newest version: the only trace that a version above it may have been lost.
#
# Whether the newest snapshot was deleted cannot be known from a table. Its deletion leaves a
# manifest that is later than every snapshot and that no snapshot lists. A writer that was killed
# before it published leaves the same, and so does one that is about to publish. So this is a hint,
# not a finding.


def later_manifests(snapshot: Snapshot) -> list[str]:
    """Return the manifests written after the newest version `snapshot`, which no version lists.

    Of an older version, the manifests of its successors would be returned.
    """
    storage = snapshot.storage
    own_name = snapshot_name(snapshot.version)
    moments = {file.name: file.modified_us for file in storage.list_names(SNAPSHOT_PREFIX)}
    published_us = moments.get(own_name)
    if published_us is None:
        return []
    listed = {reference.name for reference in snapshot.file.manifests}
    return sorted(
        file.name
        for file in storage.list_names(MANIFEST_PREFIX)
        if file.modified_us > published_us
        and file.name not in listed
        and not is_temporary(file.name)
    )
