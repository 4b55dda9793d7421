"""Find the first rows of a scan in its order, and fetch the other columns of those alone.

Rows are ordered by ORDER BY, then by time, then as they stand. Segments, and steps of their rows,
are visited by the best values that bounds on the keys admit. As soon as enough rows are known,
the last of them is the bound: segments, pages and rows behind it are left out. So the first step is
small, and alone. Of rows that are stored by the first key, the ends are cut off. A thread holds the
keys and the places of at most `limit` rows of its step.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.algebra.expressions.functions.datum import TextsTooLargeError
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.planning.source_plan import SourcePlan
from projseg.algebra.query.bound_query import OrderTerm
from projseg.algebra.query.declared_columns import substituted
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.rows import RowRange, Rows, selection_of
from projseg.kernels.sorting import distinct
from projseg.memory.deadline import check_deadline
from projseg.memory.forks import side_by_side
from projseg.reader.open_sources import open_source, rows_to_read
from projseg.reader.order_ranks import (
    Bound,
    Positions,
    Ranks,
    RanksAt,
    best_of_segment,
    key_ranks,
    sorted_positions,
    stored_ranks,
)
from projseg.reader.ordered_rows import FoundRows, OrderedRanges
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan
from projseg.reader.segment_source import SegmentSource, row_numbers
from projseg.reader.selection import select_rows
from projseg.reader.threads import Workers
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.storage.storage_contract import Storage

# Segments of an object store that are opened before it is known whether they are needed, at most.
_OPENED_AHEAD: Final = 4
# Of so many rows one that is equal to the bound is one of few, and is looked up alone.
_FEW_TIES: Final = 8
_TIME: Final = "\0"  # of each row, beside the outputs by their names


class _Source(msgspec.Struct, frozen=True):
    """One source of the plan, by its position there, and the keys that order its rows.

    No row's first key comes before `best`, which is as in `best_of_segment`.
    """

    number: int
    entry: SegmentEntry
    plan: SourcePlan
    keys: tuple[Expression, ...]
    best: tuple[Any] | None


class _Step(msgspec.Struct, frozen=True):
    """Rows of one source that are examined together."""

    source: _Source
    row_range: RowRange


class FirstRows:
    """The first `limit` matching rows in an order; equal ones in that of segments and rows."""

    def __init__(
        self,
        storage: Storage,
        plan: QueryPlan,
        segments: Sequence[SegmentPlan],
        thread_count: int,
    ) -> None:
        assert plan.query.limit is not None
        self._storage, self._plan, self._thread_count = storage, plan, thread_count
        self._limit = plan.query.limit
        self._terms = _terms(plan)
        self._first = self._terms[0]
        sources = [(one.entry, source) for one in segments for source in one.choice.plans]
        self._sources = [self._source(n, *source) for n, source in enumerate(sources)]
        self._found: list[FoundRows] = []
        self._pending = 0  # rows among those found that were not compared with the others
        self._last: tuple[Bound, ...] | None = None
        self._passing: dict[int, frozenset[str]] = {}  # by source: columns that are not kept

    def batches(self, batch_rows: int) -> Iterator[list[tuple[Rows, SourcePlan, NDArray[np.intp]]]]:
        """Yield batches in order: rows of each source, and where in the batch each stands."""
        found = self._find()
        for start in range(0, 0 if found is None else len(found), batch_rows):
            assert found is not None
            numbers = found.numbers[start : start + batch_rows]
            all_row_ids = found.row_ids[start : start + batch_rows]
            parts = []
            for number in distinct(numbers):
                positions = np.flatnonzero(numbers == number)
                positions = positions[np.argsort(all_row_ids[positions])]
                source = self._sources[number]
                outputs = source.plan.keys[: len(self._plan.query.columns)]
                opened = replace(self._first_read(source, column_names(outputs)), reads_few=True)
                rows = Rows(opened, selection_of(all_row_ids[positions]))
                parts.append((rows, source.plan, positions))
            yield parts

    def _source(self, number: int, entry: SegmentEntry, plan: SourcePlan) -> _Source:
        names = [*(named.name for named in self._plan.query.columns), _TIME]
        stored = dict(zip(names, plan.keys, strict=False))
        keys = tuple(substituted(term.expression, stored) for term in self._terms)
        base = dict(zip(names, self._plan.query.scanned, strict=False))
        key = substituted(self._first.expression, base)
        best = None
        if isinstance(key, Column):
            zone = self._plan.schema.zone(entry, key.name)
            best = best_of_segment(zone, entry.row_count, self._first)
        return _Source(number, entry, plan, keys, best)

    def _find(self) -> FoundRows | None:
        if self._limit == 0:
            return None
        steps = self._steps()
        for step in islice(steps, 1):
            self._add(self._look(step))
        ahead = self._thread_count - 1
        for found in Workers(self._thread_count).map_ahead(self._look, steps, ahead=ahead):
            self._add(found)
        if self._pending:
            self._keep_first()
        return self._found[0] if self._found else None

    def _add(self, found: Sequence[FoundRows]) -> None:
        """Remember rows; once the rows are many, those that are not among the first are dropped."""
        self._found += found
        self._pending += sum(map(len, found))
        if self._pending >= self._limit:
            self._keep_first()

    def _keep_first(self) -> None:
        """Keep the first of the rows known so far, in order."""
        kept = FoundRows.joined(self._found).first(self._terms, self._limit)
        self._found, self._pending = [kept], 0
        if len(kept) == self._limit:
            ends = (key.slice(len(key) - 1) for key in kept.keys)
            self._last = tuple(map(Bound, self._terms, ends))

    def _steps(self) -> Iterator[_Step]:
        """Yield the steps of the sources whose first keys may be the best, as they are needed."""
        with closing(self._opened_ahead()) as sources:
            for source in sources:
                if not self._is_behind(source):
                    yield from self._steps_of(source)

    def _opened_ahead(self) -> Generator[_Source]:
        """Yield the sources by their best; in an object store the next ones are being opened."""

        def opened(source: _Source) -> _Source:
            self._open(source)  # the segment is kept
            return source

        sources = (source for source in self._by_best() if not self._is_behind(source))
        is_remote = self._storage.is_remote
        yield from side_by_side(opened, sources, _OPENED_AHEAD) if is_remote else sources

    def _by_best(self) -> list[_Source]:
        """Return the sources whose best is not known, then the others by it."""
        known, nulls, unknown = [], [], []
        for source in self._sources:
            if source.best is None:
                unknown.append(source)
            elif source.best[0] is None:
                nulls.append(source)
            else:
                known.append((source.best[0], source))
        known.sort(key=itemgetter(0), reverse=self._first.is_descending)
        values = [source for _, source in known]
        rest = [*nulls, *values] if self._first.nulls_first else [*values, *nulls]
        return [*unknown, *rest]

    def _is_behind(self, source: _Source) -> bool:
        """Whether every row of a source comes after the last of those that are known."""
        last = self._last
        return last is not None and last[0].is_before_best(source.best)

    def _steps_of(self, source: _Source) -> Iterator[_Step]:
        """Yield the steps of a source, those of the best first keys first, up to the bound."""
        rows = rows_to_read(source.entry, source.plan)
        names = column_names(source.keys) | source.plan.selecting_columns
        self._first_read(source, names)
        ranges = self._ranges(source).within(rows, names, self._limit, lambda: self._last)
        yield from (_Step(source, one) for one in ranges)

    def _ranges(self, source: _Source) -> OrderedRanges:
        return OrderedRanges(self._open(source), source.keys, self._terms)

    def _look(self, step: _Step) -> list[FoundRows]:
        """Return the matching rows of a step that may be among the first."""
        check_deadline()
        source, last = step.source, self._last
        opened = self._open(source)
        before = None
        if last is not None and not any(map(opened.is_opaque, column_names(source.keys))):
            # Numbers and ids are compared sooner than most filters are evaluated.
            before, last = partial(self._before, source=source, last=last), None
        rows = select_rows(
            opened,
            step.row_range,
            condition=source.plan.filter,
            interval=source.plan.interval,
            time_column=source.plan.time_column,
            uses_postings=self._plan.query.context.uses_postings,
            narrowed=before,
        ).compact()
        if len(rows) > self._limit and self._ranges(source).is_stored:
            rows = self._end_of(rows, source)
        return list(self._narrowed(rows, source, last))

    def _end_of(self, rows: Rows, source: _Source) -> Rows:
        """Return the first `limit` of rows stored by the first key, and those equal to the last."""
        ranks = stored_ranks(evaluate_over(source.keys[0], rows))
        if ranks is None:
            return rows
        if self._first.is_descending:
            last = ranks[len(ranks) - self._limit]
            return rows.slice(int(np.searchsorted(ranks, last)), len(rows))
        last = ranks[self._limit - 1]
        return rows.slice(0, int(np.searchsorted(ranks, last, side="right")))

    def _narrowed(
        self, rows: Rows, source: _Source, last: Sequence[Bound] | None
    ) -> Iterator[FoundRows]:
        """Yield those of some rows that may be among the first; long texts of few at a time."""
        if len(rows) == 0:
            return
        try:
            some = rows if last is None else self._before(rows, source, last)
            found = FoundRows.of(
                self._first_of(some, source),
                source.keys,
                source.number,
                needs_row_numbers=source.plan.needs_row_numbers,
            )
        except TextsTooLargeError:
            if len(rows) == 1:
                raise
            middle = len(rows) // 2
            yield from self._narrowed(rows.slice(0, middle), source, last)
            yield from self._narrowed(rows.slice(middle, len(rows)), source, last)
        else:
            yield found

    def _before(self, rows: Rows, source: _Source, last: Sequence[Bound]) -> Rows:
        """Return the rows that do not come after the last of those known."""
        mask = np.zeros(len(rows), np.bool_)
        is_tie, ties = None, None  # among rows; where they stand, once they are few
        for key, bound in zip(source.keys, last, strict=True):
            some = rows if ties is None else rows.subset(ties)
            is_before, is_equal = bound.compare(evaluate_over(key, some))
            if ties is None:
                mask |= is_before if is_tie is None else is_before & is_tie
                is_tie = is_equal if is_tie is None else is_equal & is_tie
                if _FEW_TIES * np.count_nonzero(is_tie) < len(rows):
                    ties = np.flatnonzero(is_tie).astype(np.uint32)
            else:
                mask[ties[is_before]] = True
                ties = ties[is_equal]
            if ties is not None and len(ties) == 0:
                return rows.where(mask)
        mask[is_tie if ties is None else ties] = True
        return rows.where(mask)

    def _first_of(self, rows: Rows, source: _Source) -> Rows:
        """Return the first `limit` of some rows of a source, in the order of the source."""
        if len(rows) <= self._limit:
            return rows

        def ranks_at(
            key: Expression, term: OrderTerm, positions: Positions, wanted: int | None
        ) -> Ranks:
            some = rows if positions is None else rows.subset(positions.astype(np.uint32))
            return key_ranks(evaluate_over(key, some), term, wanted)

        def base_rows(positions: Positions, _: int | None) -> Ranks:
            some = rows if positions is None else rows.subset(positions.astype(np.uint32))
            return row_numbers(some)

        criteria: list[RanksAt] = [
            partial(ranks_at, *one) for one in zip(source.keys, self._terms, strict=True)
        ]
        if source.plan.needs_row_numbers:
            criteria.append(base_rows)
        order = sorted_positions(criteria, len(rows), self._limit)
        return rows.subset(np.sort(order).astype(np.uint32))

    def _open(self, source: _Source) -> SegmentSource:
        opened = open_source(self._storage, source.entry, source.plan, self._plan.schema)
        return replace(opened, passing=self._passing.get(source.number, frozenset()))

    def _first_read(self, source: _Source, names: set[str]) -> SegmentSource:
        """Return a source that keeps those columns, and others, that were read before."""
        opened = self._open(source)
        passing = self._passing[source.number] = opened.passing | opened.first_read(names)
        return replace(opened, passing=passing)


def _terms(plan: QueryPlan) -> tuple[OrderTerm, ...]:
    """Return the order of a row scan with a limit: ORDER BY, then time."""
    query = plan.query
    if query.time_column is None or query.time_type is None:
        return query.order_by
    return (*query.order_by, OrderTerm(Column(query.time_type, _TIME)))


def column_names(expressions: Iterable[Expression]) -> set[str]:
    """Return the columns that expressions read."""
    return set[str]().union(*(one.columns for one in expressions))
