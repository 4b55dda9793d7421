"""Views that a table does not have: their parts, and how a question is answered from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from projseg.algebra.planning.planner import Planner
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.maintenance.sampled_segments import ProjectionSizes
from projseg.reader.plan.query_plan import SegmentPlan
from projseg.reader.plan.version_facts import VersionFacts
from projseg.reader.plan.what_if import HypotheticalSnapshot
from projseg.table_layer.metadata.segment_entry import SegmentEntry, StoredProjection
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.definitions.view_checks import default_chunk
from projseg.views.part_files import entry_of_all

_FILE_BYTES: Final = 1_500
"""Of the file of a part, besides its columns."""


class ImaginedView(msgspec.Struct, frozen=True):
    """A view of the groups that a projection has in each segment.

    Its parts, one for each chunk of time, are what it would be made of.
    """

    name: str
    groups: ProjectionSizes
    parts: tuple[SegmentEntry, ...]

    @property
    def row_count(self) -> int:
        """All its groups."""
        return sum(one.row_count for part in self.parts for one in part.projections)

    @property
    def byte_count(self) -> int:
        """Stored bytes of its groups."""
        return sum(one.byte_count for part in self.parts for one in part.projections)


def chunk_of_views(snapshot: Snapshot) -> Granularity:
    """Return the unit of time of a new view's parts."""
    return Granularity.parse(default_chunk(snapshot))


def imagined_view(
    snapshot: Snapshot, name: str, groups: ProjectionSizes, counts: Mapping[int, int]
) -> ImaginedView:
    """Return a view with `counts` groups by the start of their chunk, microseconds UTC."""
    chunk = chunk_of_views(snapshot)
    by_chunk: dict[int, list[SegmentEntry]] = {}
    for entry in snapshot.segments:
        low = entry.min_time_us
        start = 0 if chunk.is_all or low is None else int(chunk.floor(np.array([low]))[0])
        by_chunk.setdefault(start, []).append(entry)
    mean = sum(counts.values()) // max(len(by_chunk), 1)
    parts = []
    for start, entries in sorted(by_chunk.items()):
        listed = [one for entry in entries if (one := groups.of(entry)) is not None]
        rows = sum(one.row_count for one in listed)
        count = min(counts.get(start, mean), rows)
        share = count / max(rows, 1)
        parts.append(entry_of_all(entries, _scaled(listed, count, share)))
    return ImaginedView(name, groups, tuple(parts))


def _scaled(listed: list[StoredProjection], count: int, share: float) -> StoredProjection:
    columns = {
        name: round(share * sum(one.column_bytes[name] for one in listed))
        for name in listed[0].column_bytes
    }
    size = round(share * sum(one.byte_count for one in listed)) + _FILE_BYTES
    return replace(listed[0], row_count=count, byte_count=size, column_bytes=columns)


def plans_of_parts(
    snapshot: Snapshot, view: ImaginedView, query: QuerySpec
) -> list[SegmentPlan] | None:
    """Return how a query reads the parts of a view; None if it cannot be answered from them."""
    facts = VersionFacts(HypotheticalSnapshot(snapshot, [view.groups]))
    planner = Planner(query)
    found = []
    for part in view.parts:
        choice = planner.choose(replace(facts.of(part), has_base_rows=False))
        if any(plan.is_base for plan in choice.plans):
            return None
        if not choice.is_empty:
            found.append(SegmentPlan(part, choice))
    return found
