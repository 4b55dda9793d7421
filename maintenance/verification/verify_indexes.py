"""Check the Bloom files that a version lists, and postings; deeply, against those made anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from projseg.maintenance.rewrite.stored_keys import stored_filter
from projseg.segment_format.file.postings import (
    BuiltPostings,
    StoredPostings,
    build_postings,
    column_postings,
)
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE
from projseg.segment_format.indexes.bloom_file import (
    BUILT,
    Band,
    BloomFile,
    SegmentFilter,
    SegmentSlot,
    stripes,
)
from projseg.table_layer.commits.footer_match import Mismatch, open_uncached
from projseg.table_layer.coverage import read_bloom
from projseg.table_layer.indexed_columns import WantedFilter, wanted_filters
from projseg.table_layer.metadata.segment_entry import BloomReference, SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import stored_schema

_HELD_BYTES_MAX = 64 << 20


def bloom_mismatches(
    snapshot: Snapshot, listed: BloomReference, entries: Mapping[str, SegmentEntry] | None
) -> Iterator[Mismatch]:
    """Yield where a Bloom file is not what the snapshot lists, or its filters what they should be.

    Parameters
    ----------
    snapshot : Snapshot
        The version.
    listed : BloomReference
        The file.
    entries : mapping of str to SegmentEntry, or None
        The version's segments by file, to make their filters anew; None: that is not wanted.

    Raises
    ------
    ProjsegError, OSError
        If it cannot be read.
    """
    file = read_bloom(snapshot.storage, listed)
    file.verify(partial(snapshot.storage.read_range, listed.name))
    if entries is None:
        return
    digest = listed.definition_hash
    for wanted in wanted_filters(snapshot.properties):
        if wanted.definition.definition_hash != digest:
            continue
        for number, band in enumerate(file.footer.bands):
            slots = [
                one for one in file.footer.segments if one.band == number and one.file in entries
            ]
            yield from _differing(snapshot, listed, file, band, slots, wanted, entries)


def postings_mismatches(segment: SegmentFile) -> Iterator[Mismatch]:
    """Yield the postings of a segment that are not those of its values.

    Raises
    ------
    CorruptionError, StorageError
        If it cannot be read.
    """
    for column in segment.tables[0].columns:
        for stored in column_postings(segment, BASE_TABLE, "base", column.name):
            if stored.definition.column_name != column.name:
                continue
            made = build_postings(
                stored.definition, segment.column(BASE_TABLE, "base", column.name)
            )
            if isinstance(made, str) or not _are_equal(made, stored):
                what = f"{stored.definition.kind} postings of column '{column.name}'"
                yield Mismatch(what, "those of its values", "others")


def _are_equal(made: BuiltPostings, stored: StoredPostings) -> bool:
    if not made.keys.values.equals(stored.keys.values):
        return False
    start = 0
    for keys, places in stored.pages():
        end = start + len(keys)
        if not np.array_equal(made.key_ids[start:end], keys):
            return False
        if not np.array_equal(made.places[start:end], places):
            return False
        start = end
    return start == len(made.places)


def _differing(
    snapshot: Snapshot,
    listed: BloomReference,
    file: BloomFile,
    band: Band,
    slots: list[SegmentSlot],
    wanted: WantedFilter,
    entries: Mapping[str, SegmentEntry],
) -> Iterator[Mismatch]:
    """Yield the segments of a band whose filter is another than one made anew."""
    schema = stored_schema(snapshot.properties)
    at_once = max(1, _HELD_BYTES_MAX // (band.blocks * 32))
    for start in range(0, len(slots), at_once):
        made: dict[int, SegmentFilter] = {}
        for slot in slots[start : start + at_once]:
            entry = entries[slot.file]
            segment = open_uncached(snapshot.storage, entry)
            anew = stored_filter(entry, segment, schema, wanted)
            if anew.status == BUILT and anew.key_count != slot.key_count:
                what = f"keys of segment {slot.file}"
                yield Mismatch(what, slot.key_count, anew.key_count)
            elif anew.blocks is not None and slot.slot is not None:
                made[slot.slot] = anew
        wrong = set[int]()
        for first, end in stripes(band):
            rows = file.stripe(band, first, end, partial(snapshot.storage.read_range, listed.name))
            for number, one in made.items():
                if one.blocks is not None and not np.array_equal(
                    rows[:, number], one.blocks[first:end]
                ):
                    wrong.add(number)
        for number in sorted(wrong):
            what = f"filter of segment {made[number].file}"
            yield Mismatch(what, "that of its values", "another")
