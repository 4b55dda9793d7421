"""What a refresh does in one chunk of time, and which pieces of it become one part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from projseg.segment_format.format_limits import SEGMENT_ROWS_MAX
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.views.changes.classify_parts import RewrittenParts
from projseg.views.part_files import PART_GROUPS_MAX, Folder, NewPart
from projseg.views.view_records import COVER_SEGMENTS_MAX

_CHUNK_PARTS_MAX: Final = 4

Chunk = tuple[int | None, frozenset[str]]
"""The start of a chunk of time, and the forms in which its segments store widened columns."""


@dataclass(slots=True)
class ChunkWork:
    """What new parts of a chunk are made of.

    Parameters
    ----------
    entries : list of SegmentEntry
        Segments to fold.
    rewritten : list of RewrittenParts
        Parts to write anew.
    """

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
