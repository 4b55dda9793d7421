"""Check what a snapshot says of its definitions and manifests against these, read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from projseg.algebra.projection.spec import from_definition
from projseg.table_layer.metadata.footer_match import Mismatch
from projseg.table_layer.metadata.manifest import (
    Manifest,
    ManifestReference,
    load_manifest,
    time_range,
)
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import stored_schema
from projseg.table_layer.storage.locate_storage import Storage


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
