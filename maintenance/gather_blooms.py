"""Gather small Bloom files into large ones: blocks are copied by stripes, and no segment is read.

A commit of its own lists the new file in place of the old ones. It gives way to any other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from projseg.errors import CommitConflictError, ProjsegError
from projseg.segment_format.format_limits import BLOOM_SEGMENTS_MAX
from projseg.segment_format.indexes.bloom_file import (
    Band,
    Blocks,
    BloomFile,
    BloomSummary,
    BloomWriter,
    SegmentFilter,
    SegmentSlot,
)
from projseg.segment_format.indexes.index_kinds import IndexDefinition, read_definition
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.commits.publish import removed_on_failure
from projseg.table_layer.coverage import open_bloom
from projseg.table_layer.metadata.change import NO_NOTE, CommitNote, ListBloomFiles
from projseg.table_layer.metadata.metadata_limits import SMALL_BLOOM_FILES_MAX, SMALL_BLOOM_SEGMENTS
from projseg.table_layer.metadata.segment_entry import BloomReference
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.paths import new_bloom_name, new_write_id
from projseg.writer.segment_filters import write_bloom_file

_GATHERED_BYTES_MAX: Final = 64 << 20

_Places = dict[int, list[tuple[BloomFile, BloomReference, Band, SegmentSlot]]]


def gather_small(snapshot: Snapshot) -> Snapshot:
    """Gather the smallest files of definitions that have many; return the newest version known."""
    chosen = []
    for files in _by_definition(snapshot):
        small = [one for one in files if one.segment_count < SMALL_BLOOM_SEGMENTS]
        if len(small) > SMALL_BLOOM_FILES_MAX:
            small.sort(key=lambda one: one.segment_count)
            chosen.append(_up_to_limit(small))
    return _gathered(snapshot, chosen, NO_NOTE)


def gather_all(snapshot: Snapshot, note: CommitNote = NO_NOTE) -> Snapshot:
    """Gather the files of each definition to the limits, without segments that are gone.

    Raises what `gather_small` raises.
    """
    listed = _segments_of(snapshot)
    chosen = []
    for files in _by_definition(snapshot):
        small = [one for one in files if _is_small_or_stale(snapshot, one, listed)]
        small.sort(key=lambda one: one.segment_count)
        batch: list[BloomReference] = []
        for one in small:
            if (
                batch
                and sum(b.segment_count for b in batch) + one.segment_count > BLOOM_SEGMENTS_MAX
            ):
                chosen.append(batch)
                batch = []
            batch.append(one)
        chosen.append(batch)
    worth = [batch for batch in chosen if len(batch) > 1 or _is_stale(snapshot, batch, listed)]
    return _gathered(snapshot, worth, note)


def _by_definition(snapshot: Snapshot) -> list[list[BloomReference]]:
    found = defaultdict(list)
    for one in snapshot.bloom_files:
        found[one.definition_hash].append(one)
    return list(found.values())


def _up_to_limit(files: Sequence[BloomReference]) -> list[BloomReference]:
    """Return the first files that hold as many bytes and segments as one file may."""
    chosen: list[BloomReference] = []
    byte_count = _GATHERED_BYTES_MAX
    for one in files:
        byte_count -= one.byte_count
        segments = sum(known.segment_count for known in chosen) + one.segment_count
        if chosen and (byte_count < 0 or segments > BLOOM_SEGMENTS_MAX):
            break
        chosen.append(one)
    return chosen


def _segments_of(snapshot: Snapshot) -> set[str]:
    return {
        file
        for reference in snapshot.file.manifests
        for file in snapshot.load(reference).segment_files()
    }


def _is_small_or_stale(snapshot: Snapshot, one: BloomReference, listed: set[str]) -> bool:
    return one.segment_count < BLOOM_SEGMENTS_MAX // 2 or _is_stale(snapshot, [one], listed)


def _is_stale(snapshot: Snapshot, files: Sequence[BloomReference], listed: set[str]) -> bool:
    """Whether a file speaks of a segment that is gone, or cannot be read."""
    for one in files:
        file = _opened(snapshot, one)
        if file is None or any(segment.file not in listed for segment in file.footer.segments):
            return True
    return False


def _opened(snapshot: Snapshot, one: BloomReference) -> BloomFile | None:
    try:
        return open_bloom(snapshot.storage, one)
    except (ProjsegError, OSError):
        return None


def _gathered(
    snapshot: Snapshot, batches: Sequence[Sequence[BloomReference]], note: CommitNote
) -> Snapshot:
    batches = [batch for batch in batches if batch]
    if not batches:
        return snapshot
    storage, write_id, listed = snapshot.storage, new_write_id(), _segments_of(snapshot)
    try:
        with removed_on_failure(storage, write_id, snapshot.version) as files:
            added = []
            for batch in batches:
                added += _merged(snapshot, batch, listed, write_id, files)
            removed = frozenset(one.name for batch in batches for one in batch)
            return commit(
                storage,
                snapshot,
                ListBloomFiles(tuple(added), removed),
                write_id=write_id,
                operation="gather indexes",
                metrics={"removed_bloom_files": len(removed), "added_bloom_files": len(added)},
                note=note,
            )
    except CommitConflictError:
        return snapshot  # whoever changed the list gathers, or the next commit does


def _merged(
    snapshot: Snapshot,
    batch: Sequence[BloomReference],
    listed: set[str],
    write_id: str,
    files: list[str],
) -> list[BloomReference]:
    """Write the filters of some files as one; none if none of their segments is listed.

    What a damaged file held is lost, and made anew by materialising.
    """
    bands: _Places = defaultdict(list)
    without: dict[str, SegmentFilter] = {}
    seen: set[str] = set()
    ranges = []
    definition: IndexDefinition | None = None
    for reference in batch:
        file = _sound(snapshot, reference)
        if file is None:
            continue
        definition = read_definition(file.footer.definition)
        ranges.append((reference.min_time_us, reference.max_time_us))
        for one in file.footer.segments:
            if one.file not in listed or one.file in seen:
                continue
            if one.band is None:
                without[one.file] = SegmentFilter(
                    one.file, one.key_count, one.status, None, one.postings
                )
                continue
            seen.add(one.file)
            band = file.footer.bands[one.band]
            bands[band.blocks].append((file, reference, band, one))
    left = [one for name, one in without.items() if name not in seen]
    if definition is None or not (bands or left):
        return []
    name = new_bloom_name(write_id)
    files.append(name)

    def fill(writer: BloomWriter) -> BloomSummary:
        for block_count in sorted(bands):
            _copy_band(snapshot, writer, block_count, bands[block_count])
        return writer.finish(left)

    return [write_bloom_file(snapshot.storage, name, definition, ranges, fill)]


def _sound(snapshot: Snapshot, reference: BloomReference) -> BloomFile | None:
    """Return a file if every page is sound, else None: a damaged file is left out whole."""
    file = _opened(snapshot, reference)
    if file is None:
        return None
    try:
        file.verify(partial(snapshot.storage.read_range, reference.name))
    except (ProjsegError, OSError):
        return None
    return file


def _copy_band(
    snapshot: Snapshot,
    writer: BloomWriter,
    block_count: int,
    places: list[tuple[BloomFile, BloomReference, Band, SegmentSlot]],
) -> None:
    """Write a band of all files' filters of one size, a stripe of each at a time."""
    files = {reference.name: (file, band) for file, reference, band, _ in places}

    def stripe(first: int, end: int) -> Blocks:
        rows = {
            name: file.stripe(band, first, end, partial(snapshot.storage.read_range, name))
            for name, (file, band) in files.items()
        }
        found = [rows[reference.name][:, slot.slot] for _, reference, _, slot in places]
        return np.stack(found, axis=1)

    writer.add_band(
        block_count, [(one.file, one.key_count, one.postings) for *_, one in places], stripe
    )
