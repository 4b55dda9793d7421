"""Fold segments into a part, merge parts, and write their files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.aggregation.fold import stored_partial
from projseg.aggregation.partial import Partial, in_key_order, key_arrow, merge_partials
from projseg.algebra.aggregates.state_columns import stored_column
from projseg.algebra.expressions.joined_values import path_of, reads_tables
from projseg.algebra.planning.planner import Planner
from projseg.algebra.planning.source_plan import MergeStates
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.query.bound_query import QuerySpec
from projseg.errors import LimitExceededError
from projseg.evaluation.rows import MemorySource, all_rows
from projseg.reader.open_sources import open_segment
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan
from projseg.reader.plan.version_facts import VersionFacts
from projseg.reader.plan_figures import planned_reads
from projseg.reader.segment_source import SegmentSource
from projseg.segment_format.arrow_arrays import filled_values
from projseg.segment_format.format_limits import SEGMENT_ROWS_MAX
from projseg.segment_format.vectors import Numbers
from projseg.table_layer.metadata.segment_entry import (
    Bound,
    ColumnZone,
    SegmentEntry,
    StoredProjection,
)
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import TableSchema, stored_schema
from projseg.table_layer.storage.paths import VIEWS, segment_name
from projseg.table_layer.storage.storage_contract import ViewsFolder
from projseg.views.view_commits import StoreWrite
from projseg.views.view_dimensions import paths_of, state_of
from projseg.views.view_records import GROUPS, PartCover, PathState, ViewPart, digest_of
from projseg.views.written_rows import WrittenRows, folded_groups, held_groups, hold_groups
from projseg.writer.column_vectors import with_values_in_use
from projseg.writer.segment_contents import (
    BuiltProjection,
    NotBuilt,
    SegmentContents,
    projection_of,
)
from projseg.writer.segment_writer import new_segment, stored_projections

PART_GROUPS_MAX: Final = 8_000_000
"""Groups of one part: beyond them its rows are folded into several."""


class NewPart(msgspec.Struct, frozen=True):
    """Groups that a part is to store, of segments that were folded and of parts that were merged.

    Without groups, they are those of the only part in `merged`.
    """

    entries: tuple[SegmentEntry, ...]
    merged: tuple[ViewPart, ...]
    groups: Partial | None
    is_in_order: bool = False

    @property
    def group_count(self) -> int:
        """How many groups it has."""
        return self.merged[0].group_count if self.groups is None else self.groups.group_count

    @property
    def row_count(self) -> int:
        """Rows of all files that it stands for."""
        rows = sum(entry.row_count for entry in self.entries)
        return rows + sum(part.segment.row_count for part in self.merged)


class Folder:
    """Makes the parts of one view from the segments of one version of its table.

    The spec is over stored names, with its dimensions at one version each; `written` has rows of
    the segments that may be in memory. `rows_read` counts rows of segments and groups of parts that
    were folded into the groups of `query`.
    """

    def __init__(
        self, snapshot: Snapshot, spec: ProjectionSpec, written: WrittenRows | None = None
    ) -> None:
        self.snapshot = snapshot
        self._written = written
        self.spec = spec
        self._paths = paths_of(spec)
        self.schema = stored_schema(snapshot.properties)
        self._facts = VersionFacts(snapshot, as_stored=True)
        query = QuerySpec(
            keys=spec.grouping,
            aggregates=spec.aggregators,
            filter=spec.filter,
            time_column=spec.time_column,
        )
        self.query = query
        self._planner = Planner(query)
        self.rows_read = 0

    def plan(self, entries: Sequence[SegmentEntry]) -> QueryPlan:
        """Return how segments are folded, each from its cheapest source, as for any query."""
        planned = (SegmentPlan(e, self._planner.choose(self._facts.of(e))) for e in entries)
        to_read = tuple(one for one in planned if not one.choice.is_empty)
        return QueryPlan(self.query, self.schema, to_read)

    def fold(self, entries: Sequence[SegmentEntry]) -> Iterator[NewPart]:
        """Yield pieces that stand for segments, several where one would be too large."""
        rows = sum(entry.row_count for entry in entries)
        try:
            if rows > SEGMENT_ROWS_MAX and len(entries) > 1:
                raise _too_many(rows)
            plan = self.plan(entries)
            groups = folded_groups(self.snapshot.storage, plan, self._written)
            if groups.group_count > PART_GROUPS_MAX and len(entries) > 1:
                raise _too_many(groups.group_count)
        except LimitExceededError:
            if len(entries) == 1:
                raise
            half = len(entries) // 2
            yield from self.fold(entries[:half])
            yield from self.fold(entries[half:])
            return
        self.rows_read += sum(read.row_count for read in planned_reads(plan))
        yield NewPart(tuple(entries), (), groups)

    def merged(self, pieces: Sequence[NewPart]) -> NewPart:
        """Return one piece with the groups of several."""
        partials = [self.groups_of(piece) for piece in pieces]
        return NewPart(
            tuple(entry for piece in pieces for entry in piece.entries),
            tuple(part for piece in pieces for part in piece.merged),
            merge_partials(partials, self.query.primitives, in_order=True),
            len(partials) > 1,
        )

    def groups_of(self, piece: NewPart) -> Partial:
        """Return the groups of a piece; those of a part are read."""
        if piece.groups is not None:
            return piece.groups
        (part,) = piece.merged
        self.rows_read += part.group_count
        held = held_groups(ViewsFolder(self.snapshot.storage).location, part, self.schema)
        if held is not None:
            return held
        return stored_groups_of(self.snapshot, self.schema, self.spec, part)

    def write(
        self,
        write: StoreWrite,
        piece: NewPart,
        chunk: int | None,
        names: Sequence[str],
    ) -> ViewPart:
        """Write a piece as a part, durably, and return how it is listed."""
        groups = self.groups_of(piece)
        if not piece.is_in_order:
            groups = in_key_order(groups, self.query.primitives)
        built = projection_of(self.spec, lambda: (groups, _group_count(groups, self.query)))
        if isinstance(built, NotBuilt):
            raise LimitExceededError("PROJSEG_LIMIT_EXCEEDED", built.reason)
        grouping = {name: with_values_in_use(v) for name, v in built.grouping.items()}
        built = BuiltProjection(built.spec, built.row_count, grouping, built.states)
        storage, file = write.store.storage, segment_name(write.write_id, 0, 0, len(write.files))
        write.files.append(file)
        with new_segment(storage, file, pa.schema([])) as encoder:
            contents = SegmentContents(encoder)
            contents.add_base(MemorySource(0, {}), ())
            result = contents.add_projection(built)
            summary = encoder.finish()
        if isinstance(result, NotBuilt):
            raise LimitExceededError("PROJSEG_LIMIT_EXCEEDED", result.reason)
        sources = [*piece.entries, *(part.segment for part in piece.merged)]
        low, high = _times(sources)
        live = sum(entry.live_row_count for entry in piece.entries)
        live += sum(part.cover.live_row_count for part in piece.merged)
        covered_bytes = sum(entry.byte_count for entry in piece.entries)
        covered_bytes += sum(part.cover.byte_count for part in piece.merged)
        part = ViewPart(
            segment=SegmentEntry(
                file=file,
                write_id=write.write_id,
                row_count=piece.row_count,
                byte_count=summary.byte_count,
                footer_checksum=summary.footer_checksum,
                min_time_us=low,
                max_time_us=high,
                columns=_zones(sources),
                projections=stored_projections([result], summary),
            ),
            chunk=chunk,
            cover=write.lists.write_cover(names, live, covered_bytes),
            paths=self.path_states(groups, live),
            embedded=_embedded(piece),
        )
        if part.group_count == groups.group_count:
            hold_groups(storage.location, part, self.schema, groups)
        return part

    def path_states(self, groups: Partial, live_row_count: int) -> tuple[PathState, ...]:
        """Return the content of each path's dimension, with the rows without a partner.

        Where the view's condition reads dimensions, it is not known which rows it left out: any row
        may come to have a partner.
        """
        if not self._paths:
            return ()
        places = {named.expression: place for place, named in enumerate(self.spec.grouping)}
        count = next(n for n, one in enumerate(self.query.primitives) if one.text == "count(*)")
        rows = groups.state_columns(count)["count"]
        assert isinstance(rows, Numbers)
        counts = rows.wide()
        reads = self.spec.filter is not None and reads_tables(self.spec.filter)
        states = []
        for path in self._paths:
            found = filled_values(key_arrow(groups, places[path]), False)
            unmatched = live_row_count if reads else int(counts[~found].sum())
            states.append(state_of(path_of(path).dimension, unmatched))
        return tuple(states)


def standing_for(part: ViewPart, entries: Sequence[SegmentEntry]) -> ViewPart:
    """Return how a part is listed that stands for other segments of the same rows.

    Its cover has no file yet.
    """
    names = sorted(entry.listed_as for entry in entries)
    low, high = _times(entries)
    return replace(
        part,
        segment=replace(
            part.segment,
            row_count=sum(entry.row_count for entry in entries),
            min_time_us=low,
            max_time_us=high,
            columns=_zones(entries),
        ),
        cover=PartCover(
            len(names),
            sum(entry.live_row_count for entry in entries),
            sum(entry.byte_count for entry in entries),
            digest_of(names),
            "",
        ),
        embedded=_embedded(NewPart(tuple(entries), (), None)),
    )


def stored_groups_of(
    snapshot: Snapshot, schema: TableSchema, spec: ProjectionSpec, part: ViewPart
) -> Partial:
    """Return the groups that a part stores."""
    entry = readable(part)
    segment = open_segment(snapshot.storage, entry, schema, spec)
    source = SegmentSource(segment, GROUPS, part.group_count, schema)
    keys = [stored_column(named.expression) for named in spec.grouping]
    feeds = [MergeStates(primitive.text) for primitive in spec.primitives]
    return stored_partial(all_rows(source), keys, spec.primitives, feeds)


def readable(part: ViewPart) -> SegmentEntry:
    """Return a part as readers of the table open it: by its name in the table's folder."""
    return replace(part.segment, file=f"{VIEWS}{part.segment.file}")


def forms_of(entry: SegmentEntry, schema: TableSchema) -> frozenset[str]:
    """Return which stored forms of widened columns a segment has: segments of a part agree."""
    several = (forms for forms in schema.forms.values() if len(forms) > 1)
    return frozenset(f.name for forms in several for f in forms if f.name in entry.columns)


def _group_count(groups: Partial, query: QuerySpec) -> int:
    """Return how many groups to store; the only one without keys may stand for no row."""
    if query.keys or not groups.group_count:
        return groups.group_count
    place = next(n for n, one in enumerate(query.primitives) if one.text == "count(*)")
    counts = groups.state_columns(place)["count"]
    assert isinstance(counts, Numbers)
    return int(counts.wide()[0] > 0)


def _times(entries: Iterable[SegmentEntry]) -> tuple[int | None, int | None]:
    lows = [entry.min_time_us for entry in entries if entry.min_time_us is not None]
    highs = [entry.max_time_us for entry in entries if entry.max_time_us is not None]
    return (min(lows), max(highs)) if lows and highs else (None, None)


def entry_of_all(entries: Sequence[SegmentEntry], projection: StoredProjection) -> SegmentEntry:
    """Return how a part would be listed that stands for segments and has these groups."""
    low, high = _times(entries)
    first = entries[0]
    return SegmentEntry(
        file=f"{VIEWS}{first.file}",
        write_id=first.write_id,
        row_count=sum(entry.live_row_count for entry in entries),
        byte_count=projection.byte_count,
        footer_checksum=0,
        min_time_us=low,
        max_time_us=high,
        columns=_zones(entries),
        projections=(projection,),
    )


def _zones(entries: Sequence[SegmentEntry]) -> dict[str, ColumnZone]:
    """Return the zones of columns over all files; one that a file lacks is null in its rows."""
    names = dict.fromkeys(name for entry in entries for name in entry.columns)
    return {name: _zone([(e.columns.get(name), e.row_count) for e in entries]) for name in names}


def _zone(zones: Sequence[tuple[ColumnZone | None, int]]) -> ColumnZone:
    known = [zone for zone, _ in zones if zone is not None]
    absent = sum(rows for zone, rows in zones if zone is None)
    # No bound means no value, or none that is known: then it is not exact.
    bounded = [zone for zone in known if zone.min is not None or zone.max is not None]
    is_open = any(not z.exact and (z.min is None or z.max is None) for z in known)
    lows = [zone.min for zone in bounded if zone.min is not None]
    highs = [zone.max for zone in bounded if zone.max is not None]
    is_known = bool(lows) and bool(highs) and not is_open
    return ColumnZone(
        min(lows, key=_order) if is_known else None,
        max(highs, key=_order) if is_known else None,
        sum(zone.null_count for zone in known) + absent,
        any(zone.has_nan for zone in known),
        all(zone.exact for zone in known),
        sum(zone.bytes for zone in known),
    )


def _order(bound: Bound) -> Any:
    return {"Infinity": math.inf, "-Infinity": -math.inf}.get(str(bound), bound)


def _embedded(piece: NewPart) -> tuple[StoredProjection, ...]:
    """Return sums over the projections that every covered segment embeds."""
    several = [entry.projections for entry in piece.entries]
    several += [part.embedded for part in piece.merged]
    by_hash = [{one.definition_hash: one for one in listed} for listed in several]
    common = set(by_hash[0]).intersection(*by_hash[1:])
    return tuple(
        StoredProjection(
            one.name,
            one.definition_hash,
            sum(listed[one.definition_hash].row_count for listed in by_hash),
            sum(listed[one.definition_hash].byte_count for listed in by_hash),
            _summed([listed[one.definition_hash].column_bytes for listed in by_hash]),
        )
        for one in several[0]
        if one.definition_hash in common
    )


def _summed(sizes: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(size.get(name, 0) for size in sizes) for name in sizes[0]}


def _too_many(count: int) -> LimitExceededError:
    return LimitExceededError("PROJSEG_LIMIT_EXCEEDED", f"{count} rows or groups of one part")
