"""A refresh of a view: its request, its work in a chunk of time, and its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from typing import Final

from msgspec.structs import replace

from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.joined_values import path_of
from projseg.algebra.expressions.tree import Call
from projseg.algebra.planning.partial_match import is_reversible
from projseg.algebra.time.interval import Interval
from projseg.segment_format.format_limits import SEGMENT_ROWS_MAX
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.views.classify_parts import RewrittenParts
from projseg.views.definitions.result_definition import RunSelect
from projseg.views.followed_parts import may_subtract
from projseg.views.part_files import PART_GROUPS_MAX, Folder, NewPart
from projseg.views.view_commits import StoreWrite, conflict, edited, store_write
from projseg.views.view_records import COVER_SEGMENTS_MAX, ViewEntry
from projseg.views.view_store import StoreVersion
from projseg.views.written_rows import WrittenRows

OnProgress = Callable[[int, int], object]

_CHUNK_PARTS_MAX: Final = 4

Chunk = tuple[int | None, frozenset[str]]
"""The start of a chunk of time, and the forms in which its segments store widened columns."""

_BUILT: Final = ("manifests", "result", "fact")
"""Fields of a view of which a refresh must have known the newest values."""
_OF_USERS: Final = ("name", "is_enabled", "options", "comment")
"""Fields of a view that no refresh changes."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a refresh is to do: build all parts anew, or fold segments with rows in an interval.

    `on_progress` gets the number of chunks done and of all; `run_select` has Spark run the SELECT
    of a stored result, if there is Spark; `written` has rows of new segments that are still in
    memory.
    """

    is_full: bool = False
    interval: Interval | None = None
    on_progress: OnProgress | None = None
    run_select: RunSelect | None = None
    written: WrittenRows | None = None

    def wants(self, entry: SegmentEntry) -> bool:
        """Whether an uncovered segment is to be folded."""
        low, high = entry.min_time_us, entry.max_time_us
        if self.interval is None:
            return True
        return (
            low is not None
            and high is not None
            and (low < self.interval.end_us and high >= self.interval.start_us)
        )


@dataclass(slots=True)
class ChunkWork:
    """What new parts of a chunk are made of: segments to fold, and parts to write anew."""

    entries: list[SegmentEntry] = field(default_factory=list)
    rewritten: list[RewrittenParts] = field(default_factory=list)


def by_chunk(item: tuple[Chunk, ChunkWork]) -> tuple[int, list[str]]:
    """Return the key by which chunks are sorted."""
    (chunk, forms), _ = item
    return (-(2**63) if chunk is None else chunk, sorted(forms))


def rewritten_counts(rewritten: Iterable[RewrittenParts]) -> tuple[int, int]:
    """Return how many parts are joined with all their rows, and how many lose some."""
    counts = [(len(one.followed.parts), bool(one.followed.deleted)) for one in rewritten]
    return sum(n for n, is_less in counts if not is_less), sum(
        n for n, is_less in counts if is_less
    )


def settled(folder: Folder, pieces: list[NewPart]) -> list[NewPart]:
    """Merge the two smallest pieces while there are many, or these two are of like size."""
    while len(pieces) > 1:
        pieces.sort(key=lambda piece: piece.group_count)
        one, other, *rest = pieces
        are_alike = other.group_count < 2 * one.group_count or one.group_count == 0
        if not (are_alike or len(pieces) > _CHUNK_PARTS_MAX) or _is_large([one, other]):
            break
        pieces = [folder.merged([one, other]), *rest]
    return pieces


def _is_large(pieces: list[NewPart]) -> bool:
    segments = sum(len(p.entries) + sum(m.cover.segment_count for m in p.merged) for p in pieces)
    return (
        sum(piece.group_count for piece in pieces) > PART_GROUPS_MAX
        or sum(piece.row_count for piece in pieces) > SEGMENT_ROWS_MAX
        or segments > COVER_SEGMENTS_MAX
    )


@dataclass(frozen=True, slots=True)
class Refresh:
    """What a refresh of a view did, or would do.

    Parameters
    ----------
    kept, relabelled, subtracted, refolded, added, dropped : int
        Parts that stayed; that stand for rewritten segments of the same rows; that deleted rows
        were subtracted from; whose segments were folded anew; that were written; that left.
    rows_read : int
        Rows of segments and groups of parts that were folded.
    milliseconds : int
        How long it took.
    version : int or None
        The store's version written; None if there was nothing to do.
    not_built : mapping of str to str
        Chunks that could not be built, and why; their segments answer for themselves.
    costs : mapping of str to str
        Of a dry run: what a refresh will have to do after each kind of change, and which keys of
        dimensions were proved.
    """

    kept: int = 0
    relabelled: int = 0
    subtracted: int = 0
    refolded: int = 0
    added: int = 0
    dropped: int = 0
    rows_read: int = 0
    milliseconds: int = 0
    version: int | None = None
    not_built: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[str, str] = field(default_factory=dict)


def commit_refresh(
    store: StoreVersion,
    view_id: str,
    build: Callable[[StoreWrite], tuple[ViewEntry | None, Refresh]],
    note: CommitNote,
) -> tuple[StoreVersion, Refresh]:
    """Build what a view answers from, and publish it; return the store, and what was done.

    `build` returns the view as it is to be listed, or None if nothing changed, and what was done.
    """
    with store_write(store) as write:
        view, done = build(write)
        if view is None:
            return store, done
        before = store.views[view_id]

        def edit(now: ViewEntry) -> ViewEntry:
            if any(getattr(now, name) != getattr(before, name) for name in _BUILT):
                conflict(f"view '{now.name}' was refreshed by another commit")
            kept = {name: getattr(now, name) for name in _OF_USERS}
            return replace(view, **kept)

        store = write.commit(edited(view_id, edit), "refresh", note.asking(view=view.name))
    return store, replace_fields(done, version=store.version)


def costs_of_changes(
    primitives: Sequence[Primitive], joins: Iterable[Call], names: Mapping[str, str]
) -> dict[str, str]:
    """Return the work of a view's refresh after each kind of change."""
    deleted = "reads the rows that are gone alone"
    if not may_subtract(primitives):
        why = ", ".join(one.text for one in primitives if not is_reversible(one))
        deleted = f"folds parts anew that lost rows, as nothing is subtracted from {why}"
    found = {"append": "folds the new segments alone", "delete, update, merge": deleted}
    for path in map(path_of, joins):
        name = names[path.dimension.table_id]
        keys = found.get(f"key of {name}", "")
        key = f"({', '.join(path.names)})"
        found[f"key of {name}"] = keys if key in keys else "; ".join(filter(None, (keys, key)))
        found[f"rows of {name} changed"] = "folds parts anew that have rows with their keys"
    return found
