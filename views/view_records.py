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
    """A table that a view reads; `..` is the table in whose folder the store is.

    It declares its id itself; another table at its place has another.
    """

    location: str
    table_id: str


class ViewDimension(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A table that a view joins, by its alias in FROM, with stored names and types of columns read.

    Location and id are those of a `TableReference`; the location is below `..` where it and the
    fact lie below one folder.
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

    The file `cover` says which versions of tables it stands for; the table's folder has its id.
    Spark looks it up by `nomination`, the hash of its SELECT's tables and operators. If it is
    ordered, its last column is the number of each row in the order of its SELECT.
    """

    cover: str
    nomination: str
    is_ordered: bool


class ViewEntry(msgspec.Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """A view as a list has it, by a name that may change and an id that never does.

    It is kept as parts (`grouped`), or as the rows of its SELECT (`result`); a view that is not
    enabled is neither used nor refreshed. `sql` is as written, `definition` as in a projection,
    over stored names, or JSON of a `ResultDefinition`. `fact` is the table whose rows it groups, or
    in whose folder a result is; `dimensions` are tables that it joins, or all that a result reads.

    `zone` and `is_ansi` are those it was bound under. Groups and filter mention the stored names in
    `group_columns`, aggregates those in `state_columns`. Only segments wholly in `scope`,
    microseconds UTC, half-open, are covered.

    `refreshed` has, by table id, the versions that the last refresh pinned, `fact_manifests` the
    fact's manifests then, `uncovered` the segments and rows of that version that no part stands
    for, `not_built` chunks and why they could not be built, and `last_error` is None if all went
    well. `manifests` list its parts, of which `row_count` counts groups; `covered` has the segments
    and live rows that parts stand for.
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
    """The segments that a part stands for: their number, live rows and bytes of files.

    `digest` is `digest_of` their list, which is in `file`.
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

    The segment is its file: rows, times and zones are those of the covered segments, and the
    projection is the table of groups. `chunk` is the start of its chunk of time, None for all time.
    `paths` has the content of the dimension of each path of the definition, in order; `embedded`
    has sums over the projections that every covered segment embeds.
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
    """Return why a list of references is invalid, or None if it is valid."""
    names = [reference.name for reference in references]
    if len(names) > 1 and len(set(names)) != len(names):
        return "it lists a file twice"
    wrong = [name for name in names if not is_manifest_name(name)]  # thousands of short lists
    return f"{wrong[0][:200]!r} is not the name of a list" if wrong else None


def view_problem(view: ViewEntry) -> str | None:
    """Return why the entry of a view is invalid, or None if it is valid."""
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
    """Return why the entry of a part is invalid, or None if it is valid."""
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
