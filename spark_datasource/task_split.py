"""Divide what a read has to do among Spark's tasks: small segments together, large ones in parts.

Segments stand in a line, which is cut where a task has enough to do; inside a segment at the first
row of a page. As Spark does with files, the work of a task depends on how many tasks run at once,
within bounds: starting one has its price, and so has a task that others wait for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import msgspec

from projseg.algebra.expressions.canonical import conjuncts
from projseg.algebra.planning.source_cost import selectivity
from projseg.algebra.planning.source_plan import SourcePlan
from projseg.reader.plan.query_plan import SegmentPlan
from projseg.segment_format.format_limits import PAGE_ROWS_MAX
from projseg.table_layer.metadata.segment_entry import SegmentEntry

GROUPS_WORK: Final = 64_000_000
"""What a task that answers with groups should have to do, in nanoseconds of one processor."""

ROWS_WORK_MIN: Final = 80_000_000
ROWS_WORK_MAX: Final = 400_000_000
"""The same of a task that returns rows: starting one takes some ten milliseconds."""

# What Spark takes for a row that a task returns, and for each of its values, measured by a source
# that does nothing: `projseg bench run spark-scans`.
_ROW_WORK: Final = 60
_VALUE_WORK: Final = 35

# The first part of a column costs its dictionary too, and a part much smaller than a batch costs
# more than it spares.
_PART_ROWS_MIN: Final = 4 * PAGE_ROWS_MAX
# A task may have so much more to do than the others if that spares another task.
_SURPLUS: Final = 0.1


class SegmentWork(msgspec.Struct, frozen=True):
    """The estimated nanoseconds of one processor that a segment takes.

    `row_count` is of the base rows that they are spread over, if tasks may share the segment, else
    0.
    """

    nanoseconds: int
    row_count: int = 0

    @property
    def of_a_part(self) -> float:
        """The nanoseconds of the smallest part; of the whole, if there are no parts."""
        return self.nanoseconds * min(_PART_ROWS_MIN / max(self.row_count, 1), 1)

    def after(self, row: int) -> float:
        """Return the nanoseconds of the rows from one on."""
        if row == 0:
            return self.nanoseconds
        return self.nanoseconds * (self.row_count - row) / self.row_count

    def cut(self, start: int, nanoseconds: float) -> int | None:
        """Return where rows from `start` on are cut to take `nanoseconds`.

        None if they are too few.
        """
        if self.row_count - start < 2 * _PART_ROWS_MIN:
            return None
        row = start + nanoseconds / self.nanoseconds * self.row_count
        row = min(max(row, start + _PART_ROWS_MIN), self.row_count - _PART_ROWS_MIN)
        return round(row / PAGE_ROWS_MAX) * PAGE_ROWS_MAX


class Piece(msgspec.Struct, frozen=True):
    """A segment, by its position, and which of its base rows `[start, end)`; None means all."""

    index: int
    rows: tuple[int, int] | None = None


def _work_of_rows(row_count: int, column_count: int) -> int:
    """Return the nanoseconds that Spark takes for `row_count` rows of `column_count` columns."""
    return row_count * (_ROW_WORK + _VALUE_WORK * column_count)


def work_of_entry(entry: SegmentEntry, column_count: int) -> SegmentWork:
    """Return the work of returning a segment's rows, before it is known which and from where."""
    return SegmentWork(_work_of_rows(entry.live_row_count, column_count), entry.row_count)


def work_of_scan(segment: SegmentPlan) -> SegmentWork:
    """Return the work of returning the rows that a plan selects in a segment."""
    nanoseconds = sum(map(_scan_work, segment.choice.plans))
    is_shared = [plan.is_base for plan in segment.choice.plans] == [True]
    return SegmentWork(nanoseconds, segment.entry.row_count if is_shared else 0)


def work_of_groups(segment: SegmentPlan) -> SegmentWork:
    """Return the work of answering for a segment with groups, by one task."""
    return SegmentWork(sum(plan.cost for plan in segment.choice.plans))


def _scan_work(plan: SourcePlan) -> int:
    returned = int(plan.row_count * selectivity(conjuncts(plan.filter)))
    return plan.cost + _work_of_rows(returned, len(plan.keys))


def work_of_a_task(works: Sequence[SegmentWork], parallelism: int | None) -> int:
    """Return the nanoseconds that a task which returns rows should have to do.

    Without `parallelism`, as many tasks run at once as this machine has processors.
    """
    total = sum(work.nanoseconds for work in works)
    at_once = parallelism or os.cpu_count() or 1
    # As many rounds as keep all processors busy to the end.
    rounds = max(-(-total // (at_once * ROWS_WORK_MAX)), 1)
    return max(total // (at_once * rounds), ROWS_WORK_MIN)


def shares_of(works: Sequence[SegmentWork], of_a_task: int) -> list[list[Piece]]:
    """Return the shares of tasks, in order; at least one, so that no rows are an answer."""
    shares: list[list[Piece]] = [[]]
    left: float = of_a_task
    for index, work in enumerate(works):
        start = 0
        while work.after(start) > left + of_a_task * _SURPLUS:
            has_room = not shares[-1] or left >= work.of_a_part
            end = work.cut(start, left) if has_room else None
            if end is not None:
                shares[-1].append(Piece(index, (start, end)))
                start = end
            elif not shares[-1]:
                break
            shares.append([])
            left = of_a_task
        left -= work.after(start)
        shares[-1].append(Piece(index, (start, work.row_count) if start else None))
    return shares
