"""What follows a commit: Bloom files are gathered, segments compacted if the table asks for it.

The rows are committed by then, so nothing that goes wrong here is raised: it is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from projseg.errors import without_secrets
from projseg.table_layer.commits.follow_up import only_logged
from projseg.table_layer.metadata.known_properties import AUTO_COMPACT, is_auto_compacted
from projseg.table_layer.metadata.metadata_limits import SMALL_BLOOM_FILES_MAX
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot

if TYPE_CHECKING:
    from projseg.maintenance.rewrite_tasks import TaskRunner

LOGGER: Final = logging.getLogger("projseg.table")

_SMALL_SHARE: Final = 0.1  # of the table's target
_MANY_A_CHUNK: Final = 10
_ADVISED: Final[set[str]] = set()


def after_commit(
    snapshot: Snapshot, entries: Sequence[SegmentEntry], runner: TaskRunner | None = None
) -> Snapshot:
    """Compact the table, or warn once of small segments; return the newest version known."""
    landed = snapshot

    def failure() -> str:
        where = without_secrets(landed.storage.location)
        return f"version {landed.version} of {where} was committed; what follows a commit failed"

    with only_logged(LOGGER, failure):
        snapshot = _with_gathered_indexes(snapshot)
        if entries and is_auto_compacted(snapshot.properties.properties):
            # Imported here: most tables do not ask for it, and each task of a write would pay.
            from projseg.maintenance.compact import Compaction, compact

            compaction = Compaction(_span(entries), is_policy=True)
            return compact(snapshot, compaction, runner=runner)[0]
        if _are_small(snapshot, entries):
            _tell(snapshot, entries)
    return snapshot


def _with_gathered_indexes(snapshot: Snapshot) -> Snapshot:
    """Gather Bloom files where a commit left many small ones."""
    if len(snapshot.bloom_files) <= SMALL_BLOOM_FILES_MAX:
        return snapshot
    # Imported here: most tables have no index.
    from projseg.maintenance.gather_blooms import gather_small

    return gather_small(snapshot)


def _span(entries: Sequence[SegmentEntry]) -> tuple[int, int] | None:
    """Return the time chunks of segments as one `[start, end)`; None for all time."""
    chunks = [entry.interval for entry in entries if entry.interval is not None]
    if not chunks:
        return None
    return min(start for start, _ in chunks), max(end for _, end in chunks)


def _are_small(snapshot: Snapshot, entries: Sequence[SegmentEntry]) -> bool:
    """Whether a commit's segments are small, and one of many in their time chunks.

    A chunk of few rows has one small segment, which no compaction would make larger.
    """
    properties = snapshot.properties
    most = _SMALL_SHARE * properties.target_segment_rows
    row_count = sum(entry.row_count for entry in entries)
    if not entries or properties.table_id in _ADVISED or row_count >= most * len(entries):
        return False
    span, chunks = _span(entries), {entry.interval for entry in entries}
    listed = snapshot.segments if span is None else snapshot.segments_between(*span)
    many = _MANY_A_CHUNK * len(chunks)
    if len(listed) < many:
        return False
    return sum(e.interval in chunks and e.row_count < most for e in listed) >= many


def _tell(snapshot: Snapshot, entries: Sequence[SegmentEntry]) -> None:
    _ADVISED.add(snapshot.properties.table_id)
    LOGGER.warning(
        "version %d of %s added %d segments of %d rows on average, a small part of the target of "
        "%d, and many lie in one time chunk, which slows queries: run compact, set the table "
        "property %s to true, or write larger batches",
        snapshot.version,
        without_secrets(snapshot.storage.location),
        len(entries),
        sum(entry.row_count for entry in entries) // len(entries),
        snapshot.properties.target_segment_rows,
        AUTO_COMPACT,
    )
