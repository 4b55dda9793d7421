"""What projections would take in a table's segments, measured by building them in some of them.

Whole segments are sampled, and no rows: groups do not grow with rows, and each segment has its
own. Nothing is written.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.projection.spec import ProjectionSpec, from_definition
from projseg.algebra.proofs.segment_facts import SegmentFacts
from projseg.maintenance.uncached_segment import UncachedColumns, build_from_segment
from projseg.reader.plan.version_facts import VersionFacts
from projseg.segment_format.file.encoded_parts import TableSummary
from projseg.segment_format.file.segment_encoder import SegmentEncoder
from projseg.segment_format.footer import BASE_TABLE, FILE_ID_BYTES
from projseg.segment_format.vectors import Vector
from projseg.table_layer.commits.footer_match import open_checked
from projseg.table_layer.foreign.foreign_segment import open_foreign
from projseg.table_layer.metadata.segment_entry import SegmentEntry, StoredProjection
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import ProjectionDeclaration
from projseg.table_layer.metadata.table_schema import in_stored_names, stored_schema
from projseg.writer.segment_contents import BuiltProjection, SegmentContents

SAMPLED_SEGMENTS_MAX: Final = 8
SAMPLED_ROWS_MAX: Final = 20_000_000
_HELD_BYTES_MAX: Final = 512 << 20
_TABLES_MAX: Final = 48  # of one encoder


class MeasuredSize(msgspec.Struct, frozen=True):
    """What a projection takes in one segment: rows, bytes of columns, and seconds to build it."""

    base_rows: int
    row_count: int
    byte_count: int
    column_bytes: dict[str, int]
    seconds: float


class SampledSizes(msgspec.Struct, frozen=True, kw_only=True):
    """What something takes in each segment of a table: measured in some, estimated in others."""

    measured: dict[str, MeasuredSize]

    @property
    def exponent(self) -> float:
        """The power of a segment's rows by which those of it grow, 0 to 1."""
        sizes = sorted((one.base_rows, one.row_count) for one in self.measured.values())
        (low, low_rows), (high, high_rows) = sizes[0], sizes[-1]
        if high < 2 * low or not low_rows or not high_rows:
            return 1.0
        return min(max(math.log(high_rows / low_rows) / math.log(high / low), 0.0), 1.0)

    @property
    def spread(self) -> float:
        """How far a segment's rows are from the estimate, as a share of it, in the mean."""
        errors = [
            abs(self._rows(one.base_rows) / max(one.row_count, 1) - 1)
            for one in self.measured.values()
        ]
        return sum(errors) / len(errors)

    def size_in(self, entry: SegmentEntry) -> MeasuredSize:
        """Return its size in a segment."""
        one = self.measured.get(entry.file)
        if one is not None:
            return one
        rows = round(self._rows(entry.row_count))
        share = rows / max(sum(each.row_count for each in self.measured.values()), 1)
        size = round(share * sum(each.byte_count for each in self.measured.values()))
        columns = {
            name: round(share * sum(each.column_bytes[name] for each in self.measured.values()))
            for name in next(iter(self.measured.values())).column_bytes
        }
        return MeasuredSize(entry.row_count, rows, size, columns, self.seconds(entry.row_count))

    def seconds(self, base_rows: int) -> float:
        """Return the estimated seconds of one processor to build it for `base_rows` rows."""
        rows = sum(one.base_rows for one in self.measured.values())
        return sum(one.seconds for one in self.measured.values()) * base_rows / max(rows, 1)

    def _rows(self, base_rows: int) -> float:
        power = self.exponent
        scales = [
            one.row_count / math.pow(max(one.base_rows, 1), power) for one in self.measured.values()
        ]
        return sum(scales) / len(scales) * math.pow(base_rows, power)


class ProjectionSizes(SampledSizes, frozen=True, kw_only=True):
    """What a projection, over stored names, takes in each segment, or why one would not hold it."""

    declaration: ProjectionDeclaration
    problem: str | None = None

    @property
    def name(self) -> str:
        """Of the projection."""
        return self.declaration.name

    def of(self, entry: SegmentEntry) -> StoredProjection | None:
        """Return how a segment would list the projection; None if it would not hold it."""
        if self.problem is not None or not self.measured:
            return None
        size = self.size_in(entry)
        return StoredProjection(
            self.declaration.name,
            self.declaration.definition_hash,
            min(size.row_count, entry.row_count),
            size.byte_count,
            size.column_bytes,
        )


class SampledSegments:
    """A limited number of whole segments of a version, with a limited number of rows together.

    They are spread over time and row counts.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        segments_max: int = SAMPLED_SEGMENTS_MAX,
        rows_max: int = SAMPLED_ROWS_MAX,
    ) -> None:
        self._snapshot = snapshot
        self._schema = stored_schema(snapshot.properties)
        self._columns = in_stored_names(snapshot.properties).schema
        self._facts = VersionFacts(snapshot, as_stored=True)
        known = [entry for entry in snapshot.segments if entry.has_file]
        self.entries = _spread(known, segments_max, rows_max)
        self._opened: dict[str, _OpenSample] = {}

    @property
    def row_count(self) -> int:
        """Base rows of the sampled segments."""
        return sum(entry.row_count for entry in self.entries)

    def sizes(
        self,
        declaration: ProjectionDeclaration,
        entries: Iterable[SegmentEntry] | None = None,
        check: Callable[[], object] = lambda: None,
    ) -> ProjectionSizes:
        """Build a projection, over stored names, in some or all sampled segments, and measure it.

        `check` is called before each segment; its error ends the work.
        """
        spec = from_definition(declaration.definition, self._columns)
        measured: dict[str, MeasuredSize] = {}
        for entry in self.entries if entries is None else entries:
            check()
            sample = self._open(entry)
            found = sample.built(spec, self._facts)
            if isinstance(found, str):
                return ProjectionSizes(measured=measured, declaration=declaration, problem=found)
            measured[entry.file] = found
        return ProjectionSizes(measured=measured, declaration=declaration)

    def column(self, entry: SegmentEntry, name: str) -> Vector:
        """Return a base column of a sampled segment, by its stored name."""
        return self._open(entry).column(name)

    def facts(self, entry: SegmentEntry) -> SegmentFacts:
        """Return the facts about a segment for planning, under stored names."""
        return self._facts.of(entry)

    def _open(self, entry: SegmentEntry) -> _OpenSample:
        found = self._opened.get(entry.file)
        if found is None:
            held = sum(one.held_bytes for one in self._opened.values())
            if held > _HELD_BYTES_MAX:
                self._opened.clear()
            storage = self._snapshot.storage
            segment = open_checked(storage, entry, self._schema)
            is_foreign = entry.foreign is not None
            foreign = open_foreign(storage, entry, self._schema) if is_foreign else None
            base = UncachedColumns(segment, BASE_TABLE, self._schema, foreign)
            found = self._opened[entry.file] = _OpenSample(entry, base)
        return found


class _OpenSample:
    """A sampled segment, whose columns are held, and an encoder that writes to nowhere."""

    def __init__(self, entry: SegmentEntry, base: UncachedColumns) -> None:
        self._entry, self._base = entry, base
        self._table_count = _TABLES_MAX
        self._encoder: SegmentEncoder
        self._contents: SegmentContents

    @property
    def held_bytes(self) -> int:
        return self._base.held_bytes

    def column(self, name: str) -> Vector:
        return self._base.vector(name)

    def built(self, spec: ProjectionSpec, facts: VersionFacts) -> MeasuredSize | str:
        """Return the size of a projection, or why the segment would not hold it."""
        start = time.process_time()
        result = build_from_segment(self._base, spec, facts.of(self._entry))
        if not isinstance(result, BuiltProjection):
            return result.reason
        if self._table_count >= _TABLES_MAX:
            self._renew()
        self._table_count += 1
        name = f"{self._table_count} {spec.name}"[:200]
        renamed = msgspec.structs.replace(spec, name=name)
        added = self._contents.add_projection(
            BuiltProjection(renamed, result.row_count, result.grouping, result.states)
        )
        if not isinstance(added, BuiltProjection):
            return added.reason
        summary: TableSummary = self._encoder.summary(name)
        return MeasuredSize(
            self._entry.row_count,
            result.row_count,
            summary.byte_count,
            {column: size for (_, column), size in summary.column_bytes.items()},
            time.process_time() - start,
        )

    def _renew(self) -> None:
        self._encoder = SegmentEncoder(
            lambda _: None, file_id=bytes(FILE_ID_BYTES), schema=pa.schema([])
        )
        self._encoder.begin_table(BASE_TABLE, 0)
        self._encoder.end_table()
        self._contents, self._table_count = SegmentContents(self._encoder), 0


def _spread(
    entries: Sequence[SegmentEntry], segments_max: int, rows_max: int
) -> tuple[SegmentEntry, ...]:
    """Return some segments, half of them spread over time and half over row counts."""
    by_time = sorted(entries, key=lambda one: (one.min_time_us or 0, one.file))
    by_rows = sorted(entries, key=lambda one: (one.row_count, one.file))
    half = max(segments_max // 2, 1)
    wanted = [*_evenly(by_rows, half), *_evenly(by_time, half), *_evenly(by_time, segments_max)]
    found: dict[str, SegmentEntry] = {}
    row_count = 0
    for entry in wanted:
        is_more = entry.file not in found and len(found) < segments_max
        if is_more and (not found or row_count + entry.row_count <= rows_max):
            found[entry.file] = entry
            row_count += entry.row_count
    return tuple(found.values())


def _evenly(entries: Sequence[SegmentEntry], count: int) -> list[SegmentEntry]:
    if len(entries) <= count:
        return list(entries)
    step = (len(entries) - 1) / max(count - 1, 1)
    return [entries[round(place * step)] for place in range(count)]
