"""The indexes of new segments: postings inside them, and a Bloom file for each task and column.

The keys of a column are made once for both. Filters are gathered as segments are written and go to
a file when the task ends, or when they take much memory. What fails here, but for a storage that
takes no file, leaves a segment without.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projseg.errors import CorruptionError, LimitExceededError, ProjsegError, StorageError
from projseg.kernels.bloom_blocks import BLOCK_BYTES, bloom_blocks
from projseg.segment_format.file.postings import BuiltPostings, build_postings
from projseg.segment_format.file.segment_encoder import SegmentEncoder
from projseg.segment_format.format_limits import BLOOM_BLOCKS_MAX, BLOOM_SEGMENTS_MAX
from projseg.segment_format.indexes.bloom_file import (
    BUILT,
    BloomSummary,
    BloomWriter,
    SegmentFilter,
    write_filters,
)
from projseg.segment_format.indexes.index_kinds import KINDS, IndexDefinition, block_count_of
from projseg.segment_format.vectors import Vector
from projseg.table_layer.coverage import FAILED
from projseg.table_layer.indexed_columns import WantedFilter
from projseg.table_layer.metadata.change import now_us
from projseg.table_layer.metadata.known_properties import SKIPPED
from projseg.table_layer.metadata.manifest import NO_TIME_MAX, NO_TIME_MIN, time_range
from projseg.table_layer.metadata.segment_entry import BloomReference, SegmentEntry
from projseg.table_layer.storage.local_files import storage_error
from projseg.table_layer.storage.paths import new_bloom_name
from projseg.table_layer.storage.storage_contract import PutOutcomeUnknownError, Storage

_HELD_BYTES_MAX: Final = 64 << 20


class SegmentKeys(NamedTuple):
    """The keys and postings of one index for a segment's column, or why there are none.

    `keys` has the value hash of each key, each once; `postings` is None if none are declared.
    """

    wanted: WantedFilter
    keys: NDArray[np.uint64] | str
    postings: BuiltPostings | str | None = None


def segment_keys(wanted: WantedFilter, vector: Vector) -> SegmentKeys:
    """Return the keys of a base column."""
    definition = wanted.definition
    try:
        vector = wanted.values(vector)
        postings = build_postings(definition, vector) if definition.postings else None
        if isinstance(postings, BuiltPostings):
            return SegmentKeys(wanted, postings.hashes, postings)
        return SegmentKeys(wanted, KINDS[definition.kind].keys(vector), postings)
    except (CorruptionError, StorageError):
        raise
    except (ProjsegError, ArithmeticError, ValueError) as error:
        return SegmentKeys(wanted, f"{FAILED}{error}", f"{FAILED}{error}")


def put_postings(
    encoder: SegmentEncoder, made: Iterable[SegmentKeys]
) -> dict[IndexDefinition, int | str]:
    """Write postings into a segment; return their bytes, or why there are none."""
    found: dict[IndexDefinition, int | str] = {}
    for one in made:
        definition, postings = one.wanted.definition, one.postings
        if isinstance(postings, BuiltPostings):
            try:
                found[definition] = encoder.add_postings(postings)
            except LimitExceededError as error:
                found[definition] = f"{SKIPPED}{error}"
        elif postings is not None:
            found[definition] = postings
    return found


def segment_filter(
    entry: SegmentEntry,
    keys: NDArray[np.uint64],
    wanted: WantedFilter,
    postings: int | str | None,
) -> SegmentFilter:
    """Return the filter of a segment's keys, uint64[k], each once, or why it has none."""
    block_count = block_count_of(len(keys), wanted.definition.bits)
    if block_count > BLOOM_BLOCKS_MAX:
        reason: str | None = f"{SKIPPED}{len(keys)} keys need more than {BLOOM_BLOCKS_MAX} blocks"
    else:
        base_bytes = sum(zone.bytes for zone in entry.columns.values())
        reason = wanted.bytes_guard(block_count * BLOCK_BYTES, base_bytes)
    if reason is not None:
        return SegmentFilter(entry.file, len(keys), reason, None, postings)
    return SegmentFilter(entry.file, len(keys), BUILT, bloom_blocks(keys, block_count), postings)


@dataclass(slots=True)
class FilterWriter:
    """Gathers the filters of a task's segments and writes them. Safe to use from several threads.

    `files` has the names of the files that were begun.
    """

    storage: Storage
    write_id: str
    wanted: Sequence[WantedFilter]
    files: list[str] = field(default_factory=list)
    _held: dict[IndexDefinition, list[tuple[SegmentFilter, tuple[int, int]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _written: list[BloomReference] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def keys_of(
        self, vectors: Mapping[str, Vector], first_us: int | None, last_us: int | None
    ) -> list[SegmentKeys]:
        """Return the keys and postings of a segment for each index."""
        now = now_us()
        found = []
        for wanted in self.wanted:
            reason = wanted.reason_against(first_us, last_us, now)
            if reason is None:
                found.append(segment_keys(wanted, vectors[wanted.column]))
            else:
                found.append(SegmentKeys(wanted, reason))
        return found

    def add(
        self,
        entry: SegmentEntry,
        made: Iterable[SegmentKeys],
        postings: Mapping[IndexDefinition, int | str],
    ) -> None:
        """Add the filters of a segment, given its keys and what `put_postings` returned."""
        for one in made:
            wanted, posted = one.wanted, postings.get(one.wanted.definition)
            if isinstance(one.keys, str):
                made_filter = SegmentFilter(entry.file, 0, one.keys, None, posted)
            else:
                made_filter = segment_filter(entry, one.keys, wanted, posted)
            self.put(wanted.definition, made_filter, entry)

    def put(self, definition: IndexDefinition, made: SegmentFilter, entry: SegmentEntry) -> None:
        """Add a segment's filter."""
        with self._lock:
            held = self._held[definition]
            held.append((made, time_range(entry)))
            size = sum(one.blocks.nbytes for one, _ in held if one.blocks is not None)
            if size > _HELD_BYTES_MAX or len(held) == BLOOM_SEGMENTS_MAX:
                self._write(definition)

    def finish(self) -> tuple[BloomReference, ...]:
        """Write the remaining filters; return how the commit is to list all files."""
        with self._lock:
            for definition in [one for one, held in self._held.items() if held]:
                self._write(definition)
        return tuple(self._written)

    def _write(self, definition: IndexDefinition) -> None:
        held = self._held.pop(definition)
        name = new_bloom_name(self.write_id)
        self.files.append(name)
        filters = [made for made, _ in held]
        self._written.append(
            write_bloom_file(
                self.storage,
                name,
                definition,
                [times for _, times in held],
                lambda writer: write_filters(writer, filters),
            )
        )


def write_bloom_file(
    storage: Storage,
    name: str,
    definition: IndexDefinition,
    ranges: Iterable[tuple[int, int]],
    fill: Callable[[BloomWriter], BloomSummary],
) -> BloomReference:
    """Write a new Bloom file, durably, and return how a snapshot lists it.

    `ranges` has the smallest and largest time of each segment; the empty range of one without
    times.
    """
    with storage.create(name) as sink:
        writer = BloomWriter(
            sink.write,
            file_id=uuid.uuid4().bytes,
            definition_hash=definition.definition_hash,
            definition=definition.text,
        )
        summary = fill(writer)
        try:
            sink.commit()
        except PutOutcomeUnknownError as error:
            # Nothing lists the file yet, so it does not matter whether it exists.
            raise storage_error(error, "write", f"{storage.location}/{name}") from error
    known = [times for times in ranges if times != (NO_TIME_MIN, NO_TIME_MAX)]
    return BloomReference(
        definition.definition_hash,
        name,
        *summary,
        min((low for low, _ in known), default=NO_TIME_MIN),
        max((high for _, high in known), default=NO_TIME_MAX),
    )
