"""Coverage of indexes and projections: which segments have each, which not and why, and sizes.

Bloom files are opened as they are listed, and speak of many segments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from projseg.errors import CorruptTableError, ProjsegError
from projseg.memory.cache import KEPT
from projseg.segment_format.indexes.bloom_file import BUILT, BloomFile
from projseg.segment_format.indexes.index_kinds import IndexDefinition, false_share
from projseg.segment_format.logical_types import TIMESTAMP
from projseg.table_layer.indexed_columns import indexed_column, wanted_filters
from projseg.table_layer.metadata.change import now_us
from projseg.table_layer.metadata.index_declaration import DeclaredIndex
from projseg.table_layer.metadata.known_properties import SKIPPED, ProjectionScope, scope_of
from projseg.table_layer.metadata.segment_entry import BloomReference, SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import ProjectionDeclaration
from projseg.table_layer.storage.paths import parse_segment_name
from projseg.table_layer.storage.storage_contract import Storage

FAILED: Final = "failed: "
CoverageState: TypeAlias = Literal["built", "missing", "skipped", "failed"]
_SLOT_BYTES: Final = 400
INDEX_SCHEMA: Final = pa.schema(
    [
        ("name", pa.string()),
        ("kind", pa.string()),
        ("column", pa.string()),
        ("fpp", pa.float64()),
        ("postings", pa.bool_()),
        ("build", pa.string()),
        ("segments", pa.int64()),
        ("covered", pa.int64()),
        ("skipped", pa.int64()),
        ("failed", pa.int64()),
        ("keys", pa.int64()),
        ("bloom_bytes", pa.int64()),
        ("postings_bytes", pa.int64()),
        ("files", pa.int64()),
        ("status", pa.string()),
    ]
)

_Span = tuple[int, int]

PROJECTION_SCHEMA: Final = pa.schema(
    [
        ("projection", pa.string()),
        ("definition_hash", pa.string()),
        ("build", pa.string()),
        ("built", pa.int64()),
        ("missing", pa.int64()),
        ("skipped", pa.int64()),
        ("failed", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("base_rows", pa.int64()),
        ("base_share", pa.float64()),
        ("coverage", pa.list_(pa.struct([("start", TIMESTAMP), ("end", TIMESTAMP)]))),
        ("reasons", pa.list_(pa.string())),
    ]
)


@dataclass(slots=True)
class IndexCoverage:
    """What the listed files of one definition say about a version's segments, by segment file.

    `postings` has the bytes of a segment's postings, or why it has none; `problems` has the files
    that could not be read, and why.
    """

    statuses: dict[str, str] = field(default_factory=dict)
    postings: dict[str, int | str] = field(default_factory=dict)
    keys: int = 0
    byte_count: int = 0
    file_count: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)

    @property
    def covered(self) -> set[str]:
        """The segments with a filter."""
        return {file for file, status in self.statuses.items() if status == BUILT}

    def count(self, start: str) -> int:
        """Return how many segments have a status that begins so, and no filter."""
        return sum(status.startswith(start) for status in self.statuses.values())


def coverage(
    snapshot: Snapshot, definition: IndexDefinition, without: frozenset[str] = frozenset()
) -> IndexCoverage:
    """Return the coverage by the listed Bloom files of a definition, but for those in `without`."""
    manifests = map(snapshot.load, snapshot.file.manifests)
    listed = {file for manifest in manifests for file in manifest.segment_files()}
    found, digest = IndexCoverage(), definition.definition_hash
    for reference in snapshot.bloom_files:
        if reference.definition_hash != digest or reference.name in without:
            continue
        found.file_count += 1
        found.byte_count += reference.byte_count
        try:
            segments = open_bloom(snapshot.storage, reference).footer.segments
        except (ProjsegError, OSError) as error:
            found.problems.append((reference.name, str(error)))
            continue
        for one in segments:
            if one.file in listed and found.statuses.get(one.file) != BUILT:
                found.statuses[one.file] = one.status
                found.keys += one.key_count
            if one.file in listed and one.postings is not None:
                found.postings[one.file] = one.postings
    return found


def postings_lacking(
    snapshot: Snapshot, digests: Collection[str], entries: Iterable[SegmentEntry], now_us: int
) -> list[SegmentEntry]:
    """Return the segments that may lack postings which they should have.

    Retentions are counted from `now_us`.
    """
    wanted = [one for one in wanted_filters(snapshot.properties) if one.digest in digests]
    known = [(one, coverage(snapshot, one.definition).postings) for one in wanted]
    return [
        entry
        for entry in entries
        if any(
            str(postings.get(entry.file, FAILED)).startswith(FAILED)
            and one.reason_against(entry.min_time_us, entry.max_time_us, now_us) is None
            for one, postings in known
        )
    ]


def indexes(snapshot: Snapshot) -> pa.Table:
    """Return one row for each column of each index; see `Table.indexes`."""
    rows = [row for index in snapshot.properties.declared_indexes for row in _rows(snapshot, index)]
    return pa.Table.from_pylist(rows, INDEX_SCHEMA)


def _rows(snapshot: Snapshot, index: DeclaredIndex) -> Iterator[dict[str, Any]]:
    segment_count = len(snapshot.segments)
    for definition in index.columns:
        column = indexed_column(definition, snapshot.properties)
        known = coverage(snapshot, definition)
        covered = len(known.covered)
        is_served = column is not None and column.is_served
        whole = "ENABLED" if covered == segment_count else "PARTIAL"
        stated = index.properties.get("fpp")
        yield {
            "name": index.name,
            "kind": index.kind,
            "column": definition.column if column is None else column.name,
            "fpp": float(stated) if stated else float(f"{false_share(definition.bits):.0e}"),
            "postings": definition.postings,
            "build": index.properties.get("build", "immediate"),
            "segments": segment_count,
            "covered": covered,
            "skipped": known.count(SKIPPED),
            "failed": known.count(FAILED),
            "keys": known.keys,
            "bloom_bytes": known.byte_count,
            "postings_bytes": sum(
                size for size in known.postings.values() if isinstance(size, int)
            ),
            "files": known.file_count,
            "status": whole if is_served else "DISABLED",
        }


def open_bloom(storage: Storage, listed: BloomReference) -> BloomFile:
    """Return a listed Bloom file, its directory read once and cached.

    Raises ProjsegError or OSError if it is missing, damaged or another file; a caller goes on
    without it.
    """
    key = ("bloom file", storage.location, listed.name)
    found: BloomFile = KEPT.get_or_load(
        key,
        lambda: read_bloom(storage, listed),
        lambda file: _SLOT_BYTES * len(file.footer.segments),
    )
    return found


def read_bloom(storage: Storage, listed: BloomReference) -> BloomFile:
    """Return a listed Bloom file, read past the cache. Raises what `open_bloom` raises."""
    path = f"{storage.location}/{listed.name}"
    size = listed.byte_count - listed.footer_offset
    ending, byte_count = storage.read_sized(listed.name, listed.footer_offset, size)
    file = BloomFile.open(ending, byte_count, path)
    footer = file.footer
    stated = (byte_count, file.checksum, len(footer.segments), footer.definition_hash)
    expected = (listed.byte_count, listed.checksum, listed.segment_count, listed.definition_hash)
    strange = [one.file for one in footer.segments if parse_segment_name(one.file) is None]
    if stated != expected or strange:
        raise CorruptTableError(
            "PROJSEG_CORRUPT_TABLE",
            f"{path} is not the Bloom file that the snapshot lists; build the index anew with "
            "materialize_index",
        )
    return file


def projection_stats(snapshot: Snapshot) -> pa.Table:
    """Return one row per declared projection; see `Table.projection_stats`."""
    properties, now = snapshot.properties, now_us()
    tallies = [
        _Tally(declared, scope_of(properties.properties, declared.name))
        for declared in properties.projections
    ]
    for entry in snapshot.segments:
        for tally in tallies:
            tally.add(entry, now)
    return pa.Table.from_pylist(
        [tally.row(snapshot.row_count) for tally in tallies], PROJECTION_SCHEMA
    )


def projection_state(
    entry: SegmentEntry, digest: str, scope: ProjectionScope, now: int
) -> tuple[CoverageState, str | None]:
    """Return the state of a projection in a segment, and the reason if it is not there.

    Retentions are counted from `now`.
    """
    if any(stored.definition_hash == digest for stored in entry.projections):
        return "built", None
    recorded = next((why for _, one, why in entry.not_built if one == digest), None)
    reason = recorded or scope.reason_against(entry.min_time_us, entry.max_time_us, now)
    return state_of_reason(reason), reason


def state_of_reason(reason: str | None) -> CoverageState:
    """Return the state that a reason for not being there means."""
    if reason is None:
        return "missing"
    return "skipped" if reason.startswith(SKIPPED) else "failed"


@dataclass(slots=True)
class _Tally:
    """The counts of one declared projection."""

    declared: ProjectionDeclaration
    scope: ProjectionScope
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    row_count: int = 0
    byte_count: int = 0
    base_row_count: int = 0
    chunks: dict[_Span | None, _Chunk] = field(default_factory=lambda: defaultdict(_Chunk))
    reasons: dict[str, None] = field(default_factory=dict)

    def add(self, entry: SegmentEntry, now: int) -> None:
        """Count a segment."""
        digest = self.declared.definition_hash
        stored = next((p for p in entry.projections if p.definition_hash == digest), None)
        self.chunks[entry.interval].add(entry, is_built=stored is not None)
        if stored is not None:
            self.row_count += stored.row_count
            self.byte_count += stored.byte_count
            self.base_row_count += entry.live_row_count
        state, reason = projection_state(entry, digest, self.scope, now)
        self.counts[state] += 1
        if reason is not None:
            self.reasons[reason] = None

    def row(self, all_rows: int) -> dict[str, Any]:
        """Return the projection's row."""
        covered = (span for chunk in self.chunks.values() if (span := chunk.span()) is not None)
        return {
            "projection": self.declared.name,
            "definition_hash": self.declared.definition_hash,
            "build": "deferred" if self.scope.is_deferred else "immediate",
            **{name: self.counts[name] for name in ("built", "missing", "skipped", "failed")},
            "rows": self.row_count,
            "bytes": self.byte_count,
            "base_rows": self.base_row_count,
            "base_share": self.base_row_count / all_rows if all_rows else 1.0,
            "coverage": [{"start": start, "end": end} for start, end in _joined(covered)],
            "reasons": list(self.reasons),
        }


@dataclass(slots=True)
class _Chunk:
    """The segments of one time chunk."""

    spans: list[_Span] = field(default_factory=list)
    is_whole: bool = True

    def add(self, entry: SegmentEntry, *, is_built: bool) -> None:
        self.is_whole = self.is_whole and is_built
        if entry.interval is not None:
            self.spans.append(entry.interval)
        elif entry.min_time_us is not None and entry.max_time_us is not None:
            self.spans.append((entry.min_time_us, entry.max_time_us + 1))

    def span(self) -> _Span | None:
        """Return the chunk's time if each of its segments holds the projection."""
        if not self.is_whole or not self.spans:
            return None
        return min(start for start, _ in self.spans), max(end for _, end in self.spans)


def _joined(spans: Iterable[_Span]) -> Iterator[_Span]:
    """Yield spans in order, those that meet or overlap as one."""
    last: _Span | None = None
    for start, end in sorted(spans):
        if last is not None and start <= last[1]:
            last = last[0], max(last[1], end)
            continue
        if last is not None:
            yield last
        last = start, end
    if last is not None:
        yield last
