"""What a commit changes, and what it says of itself: who, with what, on which version.

Each kind of change has its own conflict rule in `rebase`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from projseg import __version__
from projseg.algebra.time.interval import Interval
from projseg.errors import HALF_A_CHARACTER, InvalidInputError, LimitExceededError, is_storable
from projseg.table_layer.column_changes import NO_CHANGES, ColumnChanges, NewColumns
from projseg.table_layer.metadata.index_declaration import DeclaredIndex
from projseg.table_layer.metadata.manifest import ManifestReference
from projseg.table_layer.metadata.metadata_limits import COMMIT_TEXT_BYTES_MAX
from projseg.table_layer.metadata.segment_entry import BloomReference, Count, SegmentEntry
from projseg.table_layer.metadata.table_properties import ProjectionDeclaration, TableProperties

COMMIT_INFO: Final = "commit_info"
"""The feature that a snapshot names if it holds `CommitInfo`."""

ChangeKind = Literal["create", "append", "overwrite", "set_properties", "replace"]


class AdoptLayout(msgspec.Struct, frozen=True):
    """Declare the layout of new segments as a definition says; segments stay as they are.

    Applies unless the table has adopted a later version of the definition, or has adopted another
    definition and `takes_over` is false: then the table stays as it is, and what was written for
    this layout is right too. What is None stays as the table has it; projections and properties
    replace those of equal names.
    """

    definition: str
    definition_version: int
    segment_granularity: str | None = None
    cluster_by: tuple[str, ...] | None = None
    target_segment_rows: int | None = None
    projections: tuple[ProjectionDeclaration, ...] = ()
    properties: Mapping[str, str] = msgspec.field(default_factory=dict)
    takes_over: bool = False


class Append(msgspec.Struct, frozen=True):
    """Add segments, and make the changes of columns that they were written for.

    Applies unless others changed the same columns, or replaced all columns.
    """

    entries: tuple[SegmentEntry, ...]
    columns: ColumnChanges = NO_CHANGES
    layout: AdoptLayout | None = None


class Replace(msgspec.Struct, frozen=True):
    """Replace segments by others that hold the same rows, or fewer if rows are deleted.

    Conflicts unless every removed segment is still listed, with the same deleted rows; with
    `depends_on_all`, any segment that others listed since conflicts too. For compaction,
    materialisation, deletes. `removed` has `SegmentEntry.listed_as`, also of the `masked` segments,
    whose files stay and are listed anew with a deletion vector of this commit. New segments were
    written for `columns`.
    """

    removed: frozenset[str]
    entries: tuple[SegmentEntry, ...] = ()
    depends_on_all: bool = False
    masked: tuple[SegmentEntry, ...] = ()
    columns: ColumnChanges = NO_CHANGES


class Overwrite(msgspec.Struct, frozen=True):
    """Replace the segments that the base lists in `interval`, or all of them, by new ones.

    Rows that others appended after the base stay, as if the overwrite came before them. It
    conflicts if a segment it replaces was replaced by others, or if others overwrote the same time.

    The interval is `[start, end)` in microseconds UTC, which holds the rows of all entries; `cut`
    replaces segments with rows on both sides of it. New columns, or properties `declared` in place
    of all others, replace the whole table: then every commit since the base conflicts, but for
    changes of properties where these are declared.
    """

    entries: tuple[SegmentEntry, ...]
    interval: tuple[int, int] | None = None
    columns: ColumnChanges | NewColumns = NO_CHANGES
    cut: Replace | None = None
    layout: AdoptLayout | None = None
    declared: TableProperties | None = None

    def __post_init__(self) -> None:
        if self.interval is None:
            return
        start, end = self.interval
        for entry in self.entries:
            first, last = entry.min_time_us, entry.max_time_us
            if first is None or last is None or first < start or last >= end:
                raise InvalidInputError(
                    "PROJSEG_ROWS_OUTSIDE_INTERVAL",
                    f"rows of {entry.file} lie outside {Interval(start, end)}, which they were to "
                    "replace; nothing was replaced: keep the rows to the interval",
                )


class SetProperties(msgspec.Struct, frozen=True):
    """Change what the table declares; segments stay as they are.

    Conflicts if others gave one of the names another meaning since the base.
    """

    add_projections: tuple[ProjectionDeclaration, ...] = ()
    drop_projections: tuple[str, ...] = ()
    add_indexes: tuple[DeclaredIndex, ...] = ()
    drop_indexes: tuple[str, ...] = ()
    properties: Mapping[str, str] = msgspec.field(default_factory=dict)
    drop_properties: tuple[str, ...] = ()


class ListBloomFiles(msgspec.Struct, frozen=True):
    """List further Bloom files, in place of other ones; segments stay as they are.

    The change conflicts if a replaced file is no longer listed.
    """

    added: tuple[BloomReference, ...]
    removed: frozenset[str] = frozenset()


class ChangeColumns(msgspec.Struct, frozen=True):
    """Change the table's columns; segments stay as they are.

    Conflicts if others changed one of them otherwise since the base, or declared what reads it.
    """

    columns: ColumnChanges
    layout: AdoptLayout | None = None


class Restore(msgspec.Struct, frozen=True):
    """Restore the table to an earlier version, whatever is listed now. Always applies."""

    version: int
    properties: TableProperties
    definitions: Mapping[str, str]
    manifests: tuple[ManifestReference, ...]
    bloom_files: tuple[BloomReference, ...] = ()


class Sync(msgspec.Struct, frozen=True):
    """List what a source lists: segments of its new files, without those of files that are gone.

    Conflicts with every other change of segments or columns since the base. `removed` has
    `SegmentEntry.listed_as`; `retaken` are segments of older versions that are listed again, which
    conflicts with a vacuum since the base.
    """

    removed: frozenset[str]
    entries: tuple[SegmentEntry, ...]
    declared: TableProperties
    retaken: tuple[SegmentEntry, ...] = ()


class SetTags(msgspec.Struct, frozen=True):
    """Give versions names, or take names away.

    The change conflicts if others gave one of the tags to another version, or if a version is no
    longer kept.
    """

    add: Mapping[str, int] = msgspec.field(default_factory=dict)
    drop: tuple[str, ...] = ()


class Expire(msgspec.Struct, frozen=True):
    """Keep no version before this one, unless it has a tag. Always applies."""

    kept_from: int


Change = (
    Append
    | Overwrite
    | SetProperties
    | ListBloomFiles
    | ChangeColumns
    | Replace
    | Restore
    | Sync
    | SetTags
    | Expire
)


def added_entries(change: Change) -> tuple[SegmentEntry, ...]:
    """Return the segments a change adds."""
    if isinstance(change, Overwrite) and change.cut is not None:
        return (*change.entries, *change.cut.entries)
    return change.entries if isinstance(change, Append | Overwrite | Replace | Sync) else ()


def masked_entries(change: Change) -> tuple[SegmentEntry, ...]:
    """Return the segments that a change lists anew with a deletion vector."""
    replaced = change.cut if isinstance(change, Overwrite) else change
    return replaced.masked if isinstance(replaced, Replace) else ()


def kind_of(change: Change) -> ChangeKind:
    """Return the word that a snapshot states for this kind of change."""
    match change:
        case Append():
            return "append"
        case Overwrite() | Restore() | Sync():
            return "overwrite"
        case SetProperties() | ListBloomFiles() | ChangeColumns() | SetTags() | Expire():
            return "set_properties"
        case Replace():
            return "replace"


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a snapshot states of its commit, for the table's history.

    The change was made for `read_version`, None for a new table; `parameters` are the operation's.
    """

    read_version: Count | None
    parameters: dict[str, str]
    user_name: str | None
    user_metadata: str | None
    engine: str


@dataclass(frozen=True, slots=True)
class CommitNote:
    """What the history is to say of a commit: the operation's parameters, and the user's own words.

    The user's name and metadata are given, never guessed.
    """

    parameters: Mapping[str, str] = field(default_factory=dict)
    user_name: str | None = None
    user_metadata: str | None = None

    def __post_init__(self) -> None:
        texts = {"user name": self.user_name, "user metadata": self.user_metadata}
        for what, text in {**texts, **self.parameters}.items():
            if text is not None and not isinstance(text, str):
                raise InvalidInputError(
                    "PROJSEG_BAD_ARGUMENT", f"{what} of a commit is {text!r}, not a text"
                )
            if text is not None and not is_storable(text):
                raise InvalidInputError(
                    "PROJSEG_BAD_ARGUMENT", f"{what} of a commit {HALF_A_CHARACTER}: {text!r}"
                )
            if text is not None and len(text.encode()) > COMMIT_TEXT_BYTES_MAX:
                raise LimitExceededError(
                    "PROJSEG_METADATA_TOO_LARGE",
                    f"{what} of a commit has {len(text.encode())} bytes; a table's history keeps "
                    f"at most {COMMIT_TEXT_BYTES_MAX}",
                )

    def asking(self, **parameters: str | None) -> CommitNote:
        """Return this note of an operation with parameters; those that are None are left out."""
        given = {name: text for name, text in parameters.items() if text is not None}
        return CommitNote(given, self.user_name, self.user_metadata)

    def info(self, read_version: int) -> CommitInfo:
        """Return the snapshot's record of it; below 0 there is no version that was read."""
        return CommitInfo(
            read_version=read_version if read_version >= 0 else None,
            parameters=dict(self.parameters),
            user_name=self.user_name,
            user_metadata=self.user_metadata,
            engine=f"projseg {__version__}",
        )


NO_NOTE: Final = CommitNote()


def now_us() -> int:
    """Return this machine's time, microseconds UTC."""
    return time.time_ns() // 1000
