"""Whether small segments are worth merging: where queries spend their time on opening them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from projseg.advisor.advice_items import AdviceItem
from projseg.advisor.known_shapes import KnownShape
from projseg.advisor.shape_costs import OPENING, ShapeCost
from projseg.advisor.statements import statement_of
from projseg.maintenance.compact import Compaction
from projseg.table import Table

_SHARE_MIN: Final = 0.5  # of the time of a shape's queries, and of the segments that would go


def compaction_of(
    table: Table, shapes: Sequence[KnownShape], then: Mapping[str, ShapeCost]
) -> AdviceItem | None:
    """Return the advice to merge small segments; None if no queries spend their time on them.

    `then` has the cost of each shape with all else that is advised, by its id.
    """
    slow = [
        known
        for known in shapes
        if _opening(then[known.shape.id]) > _SHARE_MIN * then[known.shape.id].cost
    ]
    count = len(table.snapshot.segments)
    if not slow or count < 2:
        return None
    groups = Compaction().groups(table.snapshot)
    merged = sum(len(group.inputs) for group in groups)
    left = (count - merged + len(groups)) / count
    if left > 1 - _SHARE_MIN:
        return None
    queries = sum(known.shape.count for known in slow)
    before = sum(known.total for known in slow)
    merged_costs = {
        known.shape.id: replace(one, cost=one.cost - round((1 - left) * _opening(one)))
        for known in slow
        for one in [then[known.shape.id]]
    }
    saved = sum(
        known.saved(merged_costs[known.shape.id]) - known.saved(then[known.shape.id])
        for known in slow
    )
    return AdviceItem(
        kind="compact",
        name="segments",
        statement=statement_of("compact", table.location, ""),
        rows=sum(entry.row_count for group in groups for entry in group.inputs),
        shapes=tuple(known.shape.id for known in slow),
        queries=queries,
        milliseconds_before=before / queries,
        milliseconds_after=(before - saved) / queries,
        saved_seconds=saved / 1000,
        evidence={"segments": count, "segments_left": count - merged + len(groups)},
    )


def _opening(cost: ShapeCost) -> float:
    return cost.opened * OPENING
