"""Turn a draft into the next version's snapshot file: write its manifests, merge small ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET
from msgspec.structs import replace

from projseg.errors import InvalidInputError
from projseg.table_layer.commits.rebase import Draft
from projseg.table_layer.metadata.commit_info import CommitNote, now_us
from projseg.table_layer.metadata.index_declaration import stored_indexes
from projseg.table_layer.metadata.manifest import ManifestReference, write_manifests
from projseg.table_layer.metadata.metadata_limits import (
    NAME_BYTES_MAX,
    SMALL_MANIFEST_SEGMENTS,
    SMALL_MANIFESTS_MAX,
)
from projseg.table_layer.metadata.segment_entry import SegmentEntry, bloom_files_of
from projseg.table_layer.metadata.snapshot import (
    Snapshot,
    SnapshotFile,
    Transaction,
    optional_members,
)
from projseg.table_layer.storage.paths import check_write_id


@dataclass(frozen=True, slots=True)
class CommitLabel:
    """The facts that a commit states about itself, the same in every try.

    Parameters
    ----------
    write_id : str
        Names the commit; found again in the log when an answer was lost.
    operation : str
        The user's operation, such as `append`.
    metrics : mapping of str to int
        Its counts, such as rows.
    txn : (str, int) or None
        Application id and its version, by which a repeated commit is recognised.
    note : CommitNote
        What the history is to say of it.
    """

    write_id: str
    operation: str
    metrics: Mapping[str, int] = field(default_factory=dict)
    txn: tuple[str, int] | None = None
    note: CommitNote = field(default_factory=CommitNote)

    def __post_init__(self) -> None:
        check_write_id(self.write_id)
        if self.txn is not None and not 0 < len(self.txn[0].encode()) <= NAME_BYTES_MAX:
            raise InvalidInputError(
                "PROJSEG_BAD_NAME",
                f"txnAppId must have 1 to {NAME_BYTES_MAX} bytes of UTF-8, not "
                f"{len(self.txn[0].encode())}",
            )


class NewManifests:
    """Manifests of one commit's entries, written once however often the commit is tried.

    Parameters
    ----------
    files : list of str
        Gets the name of each manifest before it is written.
    """

    def __init__(self, files: list[str]) -> None:
        self._files = files
        self._written: dict[tuple[str, ...], list[ManifestReference]] = {}

    def write(self, snapshot: Snapshot, entries: Sequence[SegmentEntry]) -> list[ManifestReference]:
        """Return references to manifests of these entries in the snapshot's table."""
        key = tuple(sorted(entry.listed_as for entry in entries))
        if key not in self._written:
            self._written[key] = write_manifests(snapshot.storage, entries, self._files)
        return self._written[key]


def next_file(
    draft: Draft, base: Snapshot, current: Snapshot, label: CommitLabel, manifests: NewManifests
) -> SnapshotFile:
    """Return the snapshot after `current`, its manifests published.

    Raises
    ------
    InvalidInputError
        If an entry embeds a projection whose definition nobody has declared.
    OSError
        If a manifest could not be written; nothing was committed then.
    """
    kept, entries = _merge_small(draft.kept, draft.entries, current)
    definitions = _definitions(draft, kept, entries, base, current)
    version = current.version + 1
    transactions = dict(current.file.transactions)
    if label.txn is not None:
        transactions[label.txn[0]] = Transaction(label.txn[1], version)
    tags = current.tags if draft.tags is None else dict(draft.tags)
    kept_from = current.kept_from if draft.kept_from is None else draft.kept_from
    listed = current.bloom_files if draft.bloom_files is None else draft.bloom_files
    indexes = stored_indexes(
        draft.properties.declared_indexes,
        (*listed, *bloom_files_of(draft.entries)) if kept or entries else (),
    )
    file = SnapshotFile(
        kind="snapshot",
        version=version,
        timestamp_us=max(now_us(), current.timestamp_us),
        write_id=label.write_id,
        change=draft.kind,
        change_interval=draft.interval,
        operation=label.operation,
        metrics=dict(label.metrics),
        properties=replace(draft.properties, indexes=UNSET),
        definitions=definitions,
        transactions=transactions,
        manifests=(*kept, *manifests.write(current, entries)),
        tags=tags or UNSET,
        kept_from=kept_from or UNSET,
        indexes=indexes,
        optional=optional_members(label.note.info(base.version)),
    )
    return replace(file, required_features=file.features)


def _merge_small(
    kept: Sequence[ManifestReference], entries: Sequence[SegmentEntry], current: Snapshot
) -> tuple[Sequence[ManifestReference], Sequence[SegmentEntry]]:
    """Move the entries of small manifests to the new ones if there are too many of them."""
    small = [r for r in kept if r.segment_count < SMALL_MANIFEST_SEGMENTS]
    if len(small) < SMALL_MANIFESTS_MAX or not entries:
        return kept, entries
    moved = list(entries)
    for reference in small:
        manifest = current.load(reference)
        moved += [manifest.entry(index) for index in range(len(manifest))]
    return [r for r in kept if r.segment_count >= SMALL_MANIFEST_SEGMENTS], moved


def _definitions(
    draft: Draft,
    kept: Iterable[ManifestReference],
    entries: Iterable[SegmentEntry],
    base: Snapshot,
    current: Snapshot,
) -> dict[str, str]:
    """Return the definitions that the declaration or a listed segment mentions, and no other."""
    known = {**base.definitions, **current.definitions, **draft.definitions}
    known |= {p.definition_hash: p.definition for p in draft.properties.projections}
    needed = {p.definition_hash for p in draft.properties.projections}
    needed.update(*(reference.definition_hashes for reference in kept))
    needed.update(*(entry.definition_hashes for entry in entries))
    unknown = needed - known.keys()
    if unknown:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_DEFINITION",
            f"a segment embeds a projection with definition hash {min(unknown)}, which the table "
            "never declared; declare it before writing",
        )
    return {definition_hash: known[definition_hash] for definition_hash in sorted(needed)}
