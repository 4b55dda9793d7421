"""For each declared projection: where it is built, where not and why, and how large it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from projseg.segment_format.logical_types import TIMESTAMP
from projseg.table_layer.metadata.commit_info import now_us
from projseg.table_layer.metadata.projection_scope import SKIPPED, ProjectionScope, scope_of
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import ProjectionDeclaration

_Span = tuple[int, int]

_SCHEMA = pa.schema(
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
    return pa.Table.from_pylist([tally.row(snapshot.row_count) for tally in tallies], _SCHEMA)


@dataclass(slots=True)
class _Tally:
    """What is known of one declared projection."""

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
            self.counts["built"] += 1
            self.row_count += stored.row_count
            self.byte_count += stored.byte_count
            self.base_row_count += entry.live_row_count
            return
        recorded = next((why for _, one, why in entry.not_built if one == digest), None)
        reason = recorded or self.scope.reason_against(entry.min_time_us, entry.max_time_us, now)
        if reason is None:
            self.counts["missing"] += 1
        else:
            self.counts["skipped" if reason.startswith(SKIPPED) else "failed"] += 1
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
