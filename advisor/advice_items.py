"""The parts of advice: one thing to do, and one kind of logged queries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class AdviceItem:
    """One thing to do.

    Parameters
    ----------
    kind : str
        What to add: a `projection` of groups, `rows` in another order, an `index` or a `view`; or
        `drop`, or `compact`: merge small segments.
    name : str
        Of what is added or dropped.
    sql : str
        The SELECT of an addition, and of an index what it is over; empty for others.
    statement : str
        What does it in Spark SQL.
    rows, bytes : int
        That it takes, or that the drop gives back; of an index keys; that a compaction merges.
    rows_error : float
        How far `rows` may be off, as a share of it; 0 where it was counted.
    build_seconds : float
        Of one processor, to build it in all segments.
    shapes : tuple of str
        Ids of the shapes that it serves.
    queries : int
        Queries of these shapes in the log.
    milliseconds_before, milliseconds_after : float or None
        Of one of these queries in the mean, now and about with it.
    saved_seconds : float
        That all these queries would have saved.
    replaces : tuple of str
        Projections that nothing needs beside it.
    evidence : dict
        Of a drop: its kind, why, when it answered last, and by which doors the log came. Of an
        index: its kind and column, and how many segments its queries open without it and with it.
        Of a compaction: segments before and after.
    """

    kind: str
    name: str
    sql: str = ""
    statement: str = ""
    rows: int = 0
    bytes: int = 0
    rows_error: float = 0.0
    build_seconds: float = 0.0
    shapes: tuple[str, ...] = ()
    queries: int = 0
    milliseconds_before: float | None = None
    milliseconds_after: float | None = None
    saved_seconds: float = 0.0
    replaces: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name as it is printed; an index has its kind and column there."""
        if self.kind == "index":
            return f"{self.evidence.get('index')} index on {self.evidence.get('column')}"
        return self.name


@dataclass(frozen=True)
class AdvisedShape:
    """Queries that differ in values alone, and how they are answered now and then.

    Parameters
    ----------
    id, query : str
        The shape, and its question as one line.
    count : int
        How often it was asked.
    median_ms : float or None
        As the log has it.
    planned_now, planned_then : float
        Milliseconds by which planning compares sources.
    expected_ms : float
        Milliseconds of one query with all that is advised.
    source_now, source_then : str
        What answers most segments.
    why_not : str
        The code of why nothing was advised for it; empty: something was, or nothing is needed.
    measured_before, measured_after, measured_expected : float or None
        Milliseconds of an answer from some segments without the advice, with it, and as was
        expected of it, if that was measured.
    is_same_answer : bool or None
        Whether these answers are equal, and equal to what the rows alone say.
    """

    id: str
    query: str
    count: int
    median_ms: float | None
    planned_now: float
    planned_then: float
    expected_ms: float
    source_now: str
    source_then: str
    why_not: str = ""
    measured_before: float | None = None
    measured_after: float | None = None
    measured_expected: float | None = None
    is_same_answer: bool | None = None
