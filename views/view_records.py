"""What a store of views holds: versions, lists of views, parts, covers. SPEC.md "Views"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec
import xxhash
from msgspec import UNSET, UnsetType

from projseg.segment_format.format_limits import name_problem
from projseg.table_layer.metadata.change import CommitInfo
from projseg.table_layer.metadata.checksummed_json import SealedFile
from projseg.table_layer.metadata.segment_entry import (
    Count,
    Micros,
    SegmentEntry,
    StoredProjection,
    entry_problem,
)
from projseg.table_layer.storage.paths import is_cover_name, is_manifest_name, parse_segment_name

VIEWS_MAX: Final = 10_000
"""Views of one store."""
PATHS_MAX: Final = 16
"""Paths of one view."""
VIEW_PARTS_MAX: Final = 65_536
"""Parts of one view."""
VIEW_SQL_BYTES_MAX: Final = 65_536
"""UTF-8 bytes of a definition as it was written."""
COVER_SEGMENTS_MAX: Final = 1_000_000
"""Segments that one part stands for."""
LISTED_VIEWS_MAX: Final = 256
"""Views of one list: what a commit writes anew where it changes one of them."""
LISTED_PARTS_MAX: Final = 1_024
"""Parts of one written manifest."""

GROUPS: Final = "groups"
"""The name of the table of groups in a part, and of its definition: names of views change."""

FACT: Final = ".."
"""The location of the table in whose folder a store is."""

_ID: Final = re.compile("[0-9a-f]{32}")


class TableReference(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A table that a view reads.

    Parameters
    ----------
    location : str
        Where it is; `..` is the table in whose folder the store is.
    table_id : str
        As it declares itself; another table at its place has another.
    """

    location: str
    table_id: str


class ViewDimension(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A table that a view joins.

    Parameters
    ----------
    alias : str
        Its name in the view's FROM.
    location, table_id : str
        As of a `TableReference`; below `..` where the fact and it lie below one folder.
    columns : tuple of (str, str)
        Stored names and types of the columns that are read of it.
    """

    alias: str
    location: str
    table_id: str
    columns: tuple[tuple[str, str], ...]


class Refreshed(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """The version of a table that a refresh pinned."""

    version: Count
    write_id: str
    timestamp_us: Micros


class FileReference(
    msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True
):
    """A list of views or of parts: enough to check its bytes."""

    name: str
    byte_count: Count
    checksum: str
    count: Count


class Failure(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Why the last refresh failed, and when."""

    code: str
    message: str
    timestamp_us: Micros


class RefreshFigures(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What a refresh did with parts; rows read, and milliseconds."""

    kept: Count = 0
    relabelled: Count = 0
    subtracted: Count = 0
    refolded: Count = 0
    added: Count = 0
    dropped: Count = 0
    rows_read: Count = 0
    milliseconds: Count = 0


class StoredResult(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The rows of a view of grade `result`, which are a table of their own in the store.

    Parameters
    ----------
    cover : str
        The file that says which versions of tables it stands for; the table's folder has its id.
    nomination : str
        Hash of the tables and operators of its SELECT, by which Spark finds it.
    is_ordered : bool
        Whether its last column is the number of each row in the order of its SELECT.
    """

    cover: str
    nomination: str
    is_ordered: bool


class ViewEntry(msgspec.Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """A view as a list has it.

    Parameters
    ----------
    name, view_id : str
        What users call it, and what never changes.
    grade : "grouped" or "result"
        Whether it is kept as parts, or as the rows of its SELECT.
    is_enabled : bool
        Whether it is used and refreshed.
    sql : str
        As written.
    definition, definition_hash : str
        As of a projection, over stored names; of a result, JSON of a `ResultDefinition`.
    fact : TableReference
        The table whose rows it groups, or in whose folder a result is.
    dimensions : tuple of ViewDimension
        Tables that are joined; of a result, all that it reads.
    zone : str
        The zone that it was bound under.
    is_ansi : bool
        Whether it was bound under ANSI rules.
    group_columns, state_columns : tuple of str
        Stored names that groups and filter, and aggregates, mention.
    options : mapping of str to str
        refresh, chunk, retain and such.
    scope : (int, int) or None
        Only segments that lie wholly in it are covered, microseconds UTC, half-open; None: all.
    comment : str
        Of the user.
    refreshed : mapping of str to Refreshed
        By table id, the versions that the last refresh pinned.
    fact_manifests : tuple of str
        The fact's manifests at that version.
    uncovered : (int, int)
        Segments, and rows, of that version that no part stands for.
    not_built : tuple of (str, str)
        Chunks that could not be built, and why.
    last_error : Failure or None
        None: the last refresh was well.
    last_refresh : RefreshFigures
        What it did.
    manifests : tuple of FileReference
        Lists of its parts.
    row_count, byte_count : int
        Groups, and bytes of files, of all parts.
    covered : (int, int)
        Segments, and live rows, that parts stand for.
    result : StoredResult or UNSET
        Of a built result.
    """

    name: str
    view_id: str
    grade: Literal["grouped", "result"] = "grouped"
    is_enabled: bool = True
    sql: str
    definition: str
    definition_hash: str
    fact: TableReference
    dimensions: tuple[ViewDimension, ...] = ()
    zone: str = "UTC"
    is_ansi: bool = True
    group_columns: tuple[str, ...] = ()
    state_columns: tuple[str, ...] = ()
    options: dict[str, str] = msgspec.field(default_factory=dict)
    scope: tuple[Micros, Micros] | None = None
    comment: str = ""
    refreshed: dict[str, Refreshed] = msgspec.field(default_factory=dict)
    fact_manifests: tuple[str, ...] = ()
    uncovered: tuple[Count, Count] = (0, 0)
    not_built: tuple[tuple[str, str], ...] = ()
    last_error: Failure | None = None
    last_refresh: RefreshFigures = RefreshFigures()
    manifests: tuple[FileReference, ...] = ()
    row_count: Count = 0
    byte_count: Count = 0
    covered: tuple[Count, Count] = (0, 0)
    result: StoredResult | UnsetType = UNSET

    @property
    def is_result(self) -> bool:
        """Whether it is kept as the rows of its SELECT, which Spark computes."""
        return self.grade == "result"

    @property
    def is_built(self) -> bool:
        """Whether there is something to answer from."""
        return bool(self.manifests) or self.result is not UNSET

    @property
    def part_count(self) -> int:
        """How many parts it has."""
        return sum([reference.count for reference in self.manifests])

    @property
    def is_on_commit(self) -> bool:
        """Whether commits to the fact refresh it."""
        return self.options.get("refresh", "commit") == "commit"


class PartCover(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """The segments that a part stands for.

    Parameters
    ----------
    segment_count, live_row_count, byte_count : int
        How many, their rows without deleted ones, and the bytes of their files.
    digest : str
        `digest_of` their list.
    file : str
        The file that lists them.
    """

    segment_count: Count
    live_row_count: Count
    byte_count: Count
    digest: str
    file: str


class PathState(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """The content of a dimension that a part was built with."""

    table_id: str
    version: Count
    write_id: str
    unmatched_row_count: Count


class ViewPart(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """One part: all that planning needs to know without opening its file or its cover's.

    Parameters
    ----------
    segment : SegmentEntry
        The file; rows, times and zones are those of the covered segments, and the projection is
        the table of groups.
    chunk : int or None
        Start of the chunk of time; None: all time.
    cover : PartCover
        The segments it stands for.
    paths : tuple of PathState
        For each path of the view's definition, in order, the content of its dimension.
    embedded : tuple of StoredProjection
        Sums over the projections that every covered segment embeds.
    """

    segment: SegmentEntry
    chunk: Micros | None
    cover: PartCover
    paths: tuple[PathState, ...]
    embedded: tuple[StoredProjection, ...]

    @property
    def group_count(self) -> int:
        """Groups that it stores."""
        return self.segment.projections[0].row_count


class ViewsFile(SealedFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A version of a store."""

    version: Count
    timestamp_us: Micros
    write_id: str
    operation: str
    metrics: dict[str, Micros] = msgspec.field(default_factory=dict)
    commit: CommitInfo
    kept_from: Count = 0
    lists: tuple[FileReference, ...] = ()


class ViewListFile(SealedFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Some of a store's views."""

    name: str
    views: tuple[ViewEntry, ...]


class PartsFile(SealedFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Some of a view's parts."""

    name: str
    view_id: str
    parts: tuple[ViewPart, ...]


class CoverFile(SealedFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The segments that a part stands for, each as it is listed, in order."""

    name: str
    segments: tuple[str, ...]


class ResultFile(SealedFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a stored result stands for, written before its table."""

    name: str
    tables: dict[str, Refreshed]


def digest_of(segments: Sequence[str]) -> str:
    """Return the digest of an ordered list of segments, 128 bits in hex."""
    return str(xxhash.xxh3_128_hexdigest("\n".join(segments).encode()))


def reference_problem(references: Sequence[FileReference]) -> str | None:
    """Return why references cannot be a file's, or None if they can."""
    names = [reference.name for reference in references]
    if len(names) > 1 and len(set(names)) != len(names):
        return "it lists a file twice"
    wrong = [name for name in names if not is_manifest_name(name)]  # thousands of short lists
    return f"{wrong[0][:200]!r} is not the name of a list" if wrong else None


def view_problem(view: ViewEntry) -> str | None:
    """Return why an entry cannot be a view's, or None if it can."""
    if (problem := name_problem(view.name)) is not None:
        return f"its view {view.name[:80]!r} {problem}"
    if _ID.fullmatch(view.view_id) is None or _ID.fullmatch(view.definition_hash) is None:
        return f"its view '{view.name}' has no id or no hash"
    if len(view.dimensions) > PATHS_MAX:
        return (
            f"its view '{view.name}' joins {len(view.dimensions)} tables; {PATHS_MAX} is the most"
        )
    if len(view.sql.encode()) > VIEW_SQL_BYTES_MAX or view.part_count > VIEW_PARTS_MAX:
        return f"its view '{view.name}' passes a limit"
    result = view.result
    is_result = result is UNSET or (view.is_result and is_cover_name(result.cover))
    if not is_result or view.fact.location != FACT:
        return f"its view '{view.name}' has a result that is none, or is of a table elsewhere"
    return reference_problem(view.manifests)


def part_problem(part: ViewPart, definition_hash: str) -> str | None:
    """Return why an entry cannot be a part of a view, or None if it can."""
    name = parse_segment_name(part.segment.file)
    if name is None or name.write_id != part.segment.write_id:
        return f"{part.segment.file[:200]!r} is not a part's name"
    if not is_cover_name(part.cover.file) or part.cover.segment_count > COVER_SEGMENTS_MAX:
        return f"part {part.segment.file} has no cover"
    stored = part.segment.projections
    if [one.definition_hash for one in stored] != [definition_hash] or stored[0].name != GROUPS:
        return f"part {part.segment.file} holds other groups than the view's"
    if part.segment.deletion_vector is not None or part.segment.not_built:
        return f"part {part.segment.file} has deleted rows, or lacks its groups"
    if part.cover.live_row_count > part.segment.row_count:
        return f"part {part.segment.file} stands for more rows than there are"
    # A part may hold more groups than one segment has rows, so its table is checked without them.
    rest = msgspec.structs.replace(part.segment, projections=())
    return entry_problem(rest)


def covered_of(parts: Iterable[ViewPart]) -> tuple[int, int]:
    """Return the segments and live rows that parts stand for."""
    covers = [part.cover for part in parts]
    return sum(c.segment_count for c in covers), sum(c.live_row_count for c in covers)
