"""The plan for one segment: what to read to answer a query, and the reasons against other sources.

A `SourceChoice` covers the query's part of a segment with plans over disjoint intervals. Each plan
reads one source and feeds the query's primitives, so states merge whatever the sources were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from projseg.algebra.aggregates.primitive import Extreme, Primitive
from projseg.algebra.aggregates.state_columns import state_column_name
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.planning.why_not import Reason
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.time.interval import Interval
from projseg.segment_format.footer import ROW_NUMBER


class AddRows(msgspec.Struct, frozen=True):
    """Fold rows of the source, if the filter is true, as if they were base rows."""

    arguments: tuple[Expression, ...]
    filter: Expression | None = None


class AddWeighted(msgspec.Struct, frozen=True):
    """Fold rows of a projection, each as often as it stands for base rows.

    Arguments and filter are over grouping columns; the stored count whose text is `count_prefix`
    says how often, and rows that count 0 are skipped.
    """

    arguments: tuple[Expression, ...]
    count_prefix: str
    filter: Expression | None = None


class MergeStates(msgspec.Struct, frozen=True):
    """Merge stored states of the columns `f"{prefix}.{part}"`.

    The prefix is the text of the stored primitive, the filter over grouping columns.
    """

    prefix: str
    filter: Expression | None = None


class FoldSeveral(msgspec.Struct, frozen=True):
    """Fold several feeds into the same state: sum(a + b) from sum(a) and sum(b)."""

    feeds: tuple[Feed, ...]


class FoldMultiple(msgspec.Struct, frozen=True):
    """Add a multiple of another sum or count: sum(2 * x) from sum(x), sum(x + 1) from count(x).

    Where the primitive is of no values, nothing is added. The constant is 0 to add a zero, and
    makes unscaled integers of decimals. Factors, exact numbers over grouping columns, multiply the
    state of each row, fed by `MergeStates`; where one is null, nothing is added.
    """

    primitive: Primitive
    feed: Feed
    constant: int
    factors: tuple[Expression, ...] = ()


class AddFunction(msgspec.Struct, frozen=True):
    """Fold a function of a stored extreme: max(to_date(t)) from max(t), or from a KLL sketch of t.

    The stored primitive, whose text is `prefix`, is an extreme, or a sketch that knows its
    extremes. The function is over grouping columns and `STATE`, which is the extreme.
    """

    STATE: ClassVar[str] = "the state"

    primitive: Primitive
    extreme: Extreme
    prefix: str
    argument: Expression
    filter: Expression | None = None


class AddPresence(msgspec.Struct, frozen=True):
    """Fold whether two counts of each stored row differ: any(y IS NULL) from count(*), count(y).

    Counts are by their text, zero without another; a row is true where they differ, or where they
    are equal if `differ` is false.
    """

    prefix: str
    other: str | None
    differ: bool
    filter: Expression | None = None


class Known(msgspec.Struct, frozen=True, gc=False):
    """A whole segment's answer from metadata.

    It is the number of rows for a count, the value (as in `Literal`) for min and max, or None.
    """

    value: object


Feed = (
    AddRows
    | AddWeighted
    | AddFunction
    | AddPresence
    | MergeStates
    | FoldSeveral
    | FoldMultiple
    | Known
)


class Reversal(msgspec.Struct, frozen=True):
    """How deleted rows are subtracted from the states of a projection.

    Counts stand beside the query's primitives, each with a feed. `row_count` is the one that counts
    a group's rows, None without keys; `value_counts` has the one that counts each of the query's
    primitives' values, None for a count.
    """

    primitives: tuple[Primitive, ...]
    feeds: tuple[Feed, ...]
    row_count: int | None
    value_counts: tuple[int | None, ...]


class SubtractedRows(msgspec.Struct, frozen=True):
    """Deleted rows of a segment, whose states are subtracted from those of a projection.

    They are folded as base rows: one feed for each of the reversal's primitives.
    """

    rows: SourcePlan
    reversal: Reversal


class SourcePlan(msgspec.Struct, frozen=True, gc=False):
    """How one source of a segment answers the query, or one interval of it.

    Parameters
    ----------
    source : ProjectionSpec or None
        The projection; None for base rows or metadata.
    keys : tuple of Expression
        The query's keys in order, or what its row scan reads, over the source's columns: base
        columns, or `Column` nodes by a projection's stored names.
    feeds : tuple of Feed
        One for each of the query's primitives, in order.
    filter : Expression or None
        The condition left to check on the source's rows, over the same names.
    interval : Interval or None
        The interval left to check on `time_column`, half-open.
    time_column : str or None
        The source's column that `interval` applies to.
    is_metadata : bool
        Nothing is read: every feed is `Known`.
    row_count : int
        Rows of the source that are expected to be scanned.
    cost : int
        The estimate by which the choice was made, in bytes and byte-equivalents of work.
    present : str or None
        Text of a projection's stored count; rows that count 0 are left out. None means that none
        is.
    subtracted_rows : SubtractedRows or None
        What a projection has to be freed of; None: no row of the segment was deleted, or the source
        is another.
    needs_row_numbers : bool
        Whether the rows of a projection of rows have to be found among the base rows: to leave
        deleted ones out, or to return them in the order of the base rows.
    rows : (int, int) or None
        The base rows `[start, end)` that are read, deleted ones among them, where several tasks
        share a segment; None means all rows of the source.
    """

    source: ProjectionSpec | None
    keys: tuple[Expression, ...]
    feeds: tuple[Feed, ...]
    filter: Expression | None = None
    interval: Interval | None = None
    time_column: str | None = None
    is_metadata: bool = False
    row_count: int = 0
    cost: int = 0
    present: str | None = None
    subtracted_rows: SubtractedRows | None = None
    needs_row_numbers: bool = False
    rows: tuple[int, int] | None = None

    @property
    def is_base(self) -> bool:
        """Whether base rows are read."""
        return self.source is None and not self.is_metadata

    @property
    def selecting_columns(self) -> frozenset[str]:
        """The columns by which rows are selected."""
        names = frozenset[str]() if self.filter is None else self.filter.columns
        if self.interval is None or self.time_column is None:
            return names
        return names | {self.time_column}

    @property
    def source_name(self) -> str | None:
        """The source's name in `explain`: a projection's name or `metadata`; None for base rows."""
        if self.is_metadata:
            return "metadata"
        return None if self.source is None else self.source.name


class SourceChoice(msgspec.Struct, frozen=True, gc=False):
    """The plans for one segment, and the reason against every source not among them.

    Plans are over disjoint intervals, and none if no row of the segment can match. `base_rejected`
    is None if base rows are read or may not be, or nothing is.
    """

    plans: tuple[SourcePlan, ...]
    rejected: Mapping[str, Reason] = msgspec.field(default_factory=dict)
    base_rejected: Reason | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the segment need not be read at all."""
        return not self.plans

    def part(self, start: int, end: int) -> SourceChoice:
        """Return the choice for the base rows [start, end) alone, as one of several parts.

        A source of other rows cannot tell which of its rows those are: it is read for the part that
        begins the segment, and answers for the whole of it.
        """
        parts = (
            replace(plan, rows=(start, end)) if plan.is_base else plan
            for plan in self.plans
            if plan.is_base or start == 0
        )
        return replace(self, plans=tuple(parts))

    @property
    def projection(self) -> ProjectionSpec | None:
        """The projection that serves most, None if none does."""
        used = [plan for plan in self.plans if plan.source is not None]
        return max(used, key=lambda plan: plan.cost).source if used else None


def columns_read(
    query: QuerySpec, source: SourcePlan, primitives: Sequence[Primitive] | None = None
) -> tuple[set[str], set[str]]:
    """Return the names of the columns and of the state columns that are read from a source.

    It is not metadata; its feeds feed `primitives`, or the query's.
    """
    expressions = [*source.keys, *([] if source.filter is None else [source.filter])]
    states: set[str] = set()
    if source.present is not None:
        states.add(state_column_name(source.present, "count"))
    fed = query.primitives if primitives is None else primitives
    for primitive, feed in zip(fed, source.feeds, strict=True):
        _collect(feed, primitive, expressions, states)
    names = {name for expression in expressions for name in expression.columns}
    if source.needs_row_numbers:
        states.add(ROW_NUMBER)
    if source.interval is not None and source.time_column is not None:
        names.add(source.time_column)
    return names, states


def _collect(
    feed: Feed, primitive: Primitive, expressions: list[Expression], states: set[str]
) -> None:
    """Add the expressions over columns, and the names of state columns, that a feed reads."""
    match feed:
        case FoldSeveral():
            for part in feed.feeds:
                _collect(part, primitive, expressions, states)
        case FoldMultiple():
            expressions += feed.factors
            _collect(feed.feed, feed.primitive, expressions, states)
        case AddFunction():
            columns = feed.argument.walk()
            expressions += [c for c in columns if isinstance(c, Column) and c.name != feed.STATE]
            states |= {state_column_name(feed.prefix, p) for p, _ in feed.primitive.fields}
        case AddPresence():
            counts = [one for one in (feed.prefix, feed.other) if one is not None]
            states |= {state_column_name(one, "count") for one in counts}
        case AddRows() | AddWeighted():
            expressions += feed.arguments
            if isinstance(feed, AddWeighted):
                states.add(state_column_name(feed.count_prefix, "count"))
        case MergeStates():
            states |= {state_column_name(feed.prefix, p) for p, _ in primitive.fields}
    condition = getattr(feed, "filter", None)
    if condition is not None:
        expressions.append(condition)
