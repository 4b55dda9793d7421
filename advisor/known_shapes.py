"""Shapes bound to a table again, with their present cost and the candidates that serve them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from projseg.advisor.candidates import Need, need_of, why_no_need
from projseg.advisor.filled_queries import HiddenValues, hides_literals
from projseg.advisor.shape_costs import Planning, ShapeCost
from projseg.advisor.spent_time import SpentTime
from projseg.advisor.workload import SHAPES_MAX, LoggedWorkload, Shape
from projseg.algebra.query.bound_query import QuerySpec
from projseg.memory.deadline import check_deadline
from projseg.table_layer.metadata.segment_entry import SegmentEntry

_FILLS_MAX: Final = 8  # of a shape
_QUERY_WORK: Final = 110_000
"""Nanoseconds of any query, however little it reads."""
_PART_WORK: Final = 25_000
"""Nanoseconds of a key, a condition or a primitive, over however few rows."""
_RETURNED_WORK: Final = 5.0
"""Nanoseconds of a row that is returned."""
_FIXED_SHARE_MAX: Final = 0.5  # of the milliseconds of a query
_SHAPES_SHARE: Final = 0.4  # of the time that may be taken


class KnownShape(msgspec.Struct):
    """A shape of the log, bound to the table: its query with values, cost, and useful groups.

    `why_not` is the reason code if no groups would serve the shape.
    """

    shape: Shape
    query: QuerySpec
    now: ShapeCost
    need: Need | None
    why_not: str = ""

    @property
    def milliseconds(self) -> float:
        """Of one query."""
        return self.shape.median_ms or self.now.cost / 1e6

    @property
    def total(self) -> float:
        """Milliseconds of all queries."""
        return self.shape.count * self.milliseconds

    def expected(self, then: ShapeCost) -> float:
        """Return the milliseconds of one query that would cost something else."""
        share = then.cost / max(self.now.cost, 1)
        fixed = fixed_milliseconds(self.query, self.shape.returned)
        return expected_milliseconds(self.milliseconds, share, fixed)

    def saved(self, then: ShapeCost) -> float:
        """Return the milliseconds that all queries would save."""
        return self.shape.count * max(self.milliseconds - self.expected(then), 0.0)


def fixed_milliseconds(query: QuerySpec, returned: float) -> float:
    """Return about the milliseconds of a query that no source spares it.

    Planning compares sources, so its cost has neither the work on any query nor on its answer.
    """
    parts = len(query.primitives) + len(query.keys) + len(query.conditions)
    return (_QUERY_WORK + _PART_WORK * parts + _RETURNED_WORK * returned) / 1e6


def expected_milliseconds(milliseconds: float, share: float, fixed: float) -> float:
    """Return the expected milliseconds of a query whose planned cost shrinks to a share."""
    fixed = min(fixed, _FIXED_SHARE_MAX * milliseconds)
    return fixed + (milliseconds - fixed) * share


def known_shapes(
    work: LoggedWorkload, planning: Planning, entry: SegmentEntry, spent: SpentTime
) -> tuple[list[KnownShape], int]:
    """Return the shapes that the table can answer, the most time first, and how many it cannot.

    Values of the segment `entry` stand in the place of hidden ones.
    """
    values = HiddenValues(planning.snapshot, entry)
    found: list[KnownShape] = []
    unbound = 0
    shapes = work.shapes[:SHAPES_MAX]
    if len(work.shapes) > SHAPES_MAX:
        spent.note(f"{len(work.shapes) - SHAPES_MAX:,} rarer shapes")
    for number, shape in enumerate(shapes):
        check_deadline()
        if spent.is_over(_SHAPES_SHARE):
            spent.note(f"{len(shapes) - number:,} of {len(shapes):,} shapes")
            break
        planned = _planned(planning, values.bound(shape))
        if planned is None:
            unbound += 1
        else:
            found.append(_bound_shape(shape, *planned))
    return found, unbound


def _bound_shape(shape: Shape, query: QuerySpec, now: ShapeCost) -> KnownShape:
    need, why = need_of(query), ""
    if query.is_row_scan:
        why = "ROW_SCAN"
    elif hides_literals(shape.query):
        need, why = None, "LITERAL_HIDDEN"
    elif need is None:
        why = why_no_need(query)
    return KnownShape(shape, query, now, need, why)


def _planned(
    planning: Planning, queries: Iterable[QuerySpec]
) -> tuple[QuerySpec, ShapeCost] | None:
    """Return the first query whose values do not exclude all segments, and its cost.

    With others it would look as if it cost nothing. The first, if none does.
    """
    first: tuple[QuerySpec, ShapeCost] | None = None
    for query in islice(queries, _FILLS_MAX):
        now = planning.cost(query)
        if now is not None and now.cost:
            return query, now
        if now is not None and first is None:
            first = query, now
    return first
