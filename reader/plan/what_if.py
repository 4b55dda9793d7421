"""A version of a table as if it had other projections: planned as any version, and never stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count
from typing import Final, Protocol

import msgspec

from projseg.table_layer.metadata.manifest import Manifest, ManifestReference
from projseg.table_layer.metadata.segment_entry import SegmentEntry, StoredProjection
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import ProjectionDeclaration

_NUMBERS: Final = count(1)


class CandidateSizes(Protocol):
    """An imagined projection, and its size in each segment."""

    @property
    def declaration(self) -> ProjectionDeclaration:
        """The projection, over stored names."""

    def of(self, entry: SegmentEntry) -> StoredProjection | None:
        """Return how a segment would list it; None if it would not hold it."""


class HypotheticalSnapshot(Snapshot):
    """A version planned as if its segments held projections `added` and none in `without`.

    Its identity is another than the version's, so no plan of one is found for the other.
    """

    def __init__(
        self, snapshot: Snapshot, added: Sequence[CandidateSizes], without: Collection[str] = ()
    ) -> None:
        file, self._added = snapshot.file, tuple(added)
        self._version = snapshot
        gone = {one.definition_hash for one in file.properties.projections if one.name in without}
        kept = [one for one in file.properties.projections if one.name not in without]
        # What another name still declares stays stored.
        self._gone = gone - {one.definition_hash for one in kept}
        declared = [one.declaration for one in added]
        properties = msgspec.structs.replace(file.properties, projections=(*kept, *declared))
        definitions = {one.definition_hash: one.definition for one in declared}
        super().__init__(
            snapshot.storage,
            msgspec.structs.replace(
                file,
                write_id=f"{file.write_id} what if {next(_NUMBERS)}",
                properties=properties,
                definitions={**file.definitions, **definitions},
            ),
        )

    def load(self, reference: ManifestReference) -> Manifest:
        """Return one of the manifests that the version lists."""
        return self._version.load(reference)

    def load_all(self, references: Iterable[ManifestReference] | None = None) -> Iterator[Manifest]:
        """Yield manifests that the version lists, in order; None means all of them."""
        return self._version.load_all(references)

    def as_planned(self, entry: SegmentEntry) -> SegmentEntry:
        """Return a segment as it would be listed."""
        stored = [one for one in entry.projections if one.definition_hash not in self._gone]
        there = {one.definition_hash for one in stored}
        names = {one.name for one in stored}
        is_written = False
        for one in self._added:
            declaration = one.declaration
            if declaration.definition_hash in there or declaration.name in names:
                continue
            listed = one.of(entry)
            if listed is not None:
                stored.append(listed)
                is_written = True
        if not is_written:
            return msgspec.structs.replace(entry, projections=tuple(stored))
        # Building writes the segment again, without its deleted rows.
        return msgspec.structs.replace(
            entry,
            projections=tuple(stored),
            row_count=entry.live_row_count,
            deletion_vector=None,
        )
