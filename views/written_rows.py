"""Rows that this process has just written, and groups of small parts, which a refresh reads next.

Both are functions of immutable files, so what is held is what the file would say.
"""

from __future__ import annotations

from threading import Lock
from typing import Final

import msgspec
from msgspec.structs import replace

from projseg.aggregation.fold import fold
from projseg.aggregation.partial import Partial, merge_partials
from projseg.algebra.planning.source_plan import columns_read
from projseg.algebra.query.bound_query import QuerySpec
from projseg.evaluation.masks import filter_rows
from projseg.evaluation.rows import MemorySource, all_rows, rows_held
from projseg.memory.cache import KEPT
from projseg.memory.deadline import check_deadline
from projseg.memory.memory_pool import array_bytes
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan
from projseg.reader.run_plan import run_partial
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.table_layer.storage.storage_contract import Storage
from projseg.views.view_records import ViewPart

_HELD_BYTES_MAX: Final = 64 << 20
"""Columns of one commit that are held; segments beyond them are read from their files."""
_HELD_GROUPS_MAX: Final = 1 << 14
"""A part of more groups is merged so rarely that it is read again."""


class WrittenRows:
    """The columns of a commit's new segments, from their writing to the refresh that follows."""

    def __init__(self) -> None:
        self._sources: dict[str, MemorySource] = {}
        self._bytes_left = _HELD_BYTES_MAX
        self._lock = Lock()

    def hold(self, entry: SegmentEntry, source: MemorySource) -> None:
        """Hold the rows of a segment that was written, if there is room for them."""
        size = sum(vector.nbytes for vector in source.vectors.values())
        with self._lock:
            if size <= self._bytes_left:
                self._bytes_left -= size
                self._sources[entry.file] = source

    def fold(self, planned: SegmentPlan, query: QuerySpec) -> Partial | None:
        """Return a segment's groups; None if its file is to be read."""
        source, entry = self._sources.get(planned.entry.file), planned.entry
        if source is None or entry.deletion_vector is not None or len(planned.choice.plans) != 1:
            return None
        (plan,) = planned.choice.plans
        if not plan.is_base or plan.interval is not None:
            return None
        if not columns_read(query, plan)[0].issubset(source.vectors):
            return None
        rows = filter_rows(all_rows(source), plan.filter)
        return fold(rows, plan.keys, query.primitives, plan.feeds)


def folded_groups(storage: Storage, plan: QueryPlan, written: WrittenRows | None) -> Partial:
    """Return the groups of a plan's segments; of those whose rows are held no file is read."""
    if written is None:
        return run_partial(storage, plan, plan.segments)
    partials: list[Partial] = []
    to_read: list[SegmentPlan] = []
    with rows_held(plan.query.joins):
        for planned in plan.segments:
            check_deadline()
            groups = written.fold(planned, plan.query)
            if groups is None:
                to_read.append(planned)
            else:
                partials.append(groups)
    if to_read or not partials:
        left = replace(plan, segments=tuple(to_read))
        partials.append(run_partial(storage, left, left.segments))
    return merge_partials(partials, plan.query.primitives)


class _HeldGroups(msgspec.Struct, frozen=True):
    """The groups of a part, and the schema by which they were made."""

    schema: TableSchema
    groups: Partial


def hold_groups(location: str, part: ViewPart, schema: TableSchema, groups: Partial) -> None:
    """Keep the groups of a small part that was written: the next refresh may merge it."""
    if groups.group_count <= _HELD_GROUPS_MAX:
        size = array_bytes((groups.keys, getattr(groups, "states", ())))
        KEPT.put(_key(location, part), _HeldGroups(schema, groups), size)


def held_groups(location: str, part: ViewPart, schema: TableSchema) -> Partial | None:
    """Return the groups of a part that are held; None if they are to be read."""
    held: _HeldGroups | None = KEPT.get(_key(location, part))
    return held.groups if held is not None and held.schema == schema else None


def _key(location: str, part: ViewPart) -> tuple[str, ...]:
    return ("groups of a part", location, part.segment.file)
