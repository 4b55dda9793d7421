"""Find the first rows of a scan in its order, and fetch the other columns of those alone.

Rows are ordered by ORDER BY, then by time, then as they stand. Segments, and steps of their rows,
are visited by the best value that bounds on the first key admit. As soon as enough rows are known,
the last of them is the bound: segments, pages and rows behind it are left out. A thread holds the
keys and the places of at most `limit` rows of its step.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from operator import itemgetter
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.algebra.expressions.functions.text.text_rows import TextsTooLargeError
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.planning.source_plan import SourcePlan
from projseg.algebra.query.composition import substituted
from projseg.algebra.query.result_order import OrderTerm
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.rows import RowIds, RowRange, Rows
from projseg.kernels.rows.sorting import distinct
from projseg.memory.deadline import check_deadline
from projseg.memory.request_pool import side_by_side
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan
from projseg.reader.run.order_ranks import (
    Bound,
    Positions,
    Ranks,
    RanksAt,
    best_of_pages,
    best_of_segment,
    key_ranks,
    sorted_positions,
    term_ranks,
)
from projseg.reader.sources.open_sources import cut, open_source, rows_at_a_time, rows_to_read
from projseg.reader.sources.segment_source import SegmentSource, row_numbers
from projseg.reader.sources.selection import select_rows
from projseg.reader.threads import Workers
from projseg.segment_format.layout.format_limits import PAGE_ROWS_MAX
from projseg.segment_format.vectors.arrow_arrays import primitive_array
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.storage.locate_storage import Storage

# Rows examined in one step; each step narrows which others may be among the first.
_STEP_ROWS: Final = 2 * PAGE_ROWS_MAX
# Segments of an object store that are opened before it is known whether they are needed, at most.
_OPENED_AHEAD: Final = 4
_TIME: Final = "\0"  # of each row, beside the outputs by their names


class _Source(msgspec.Struct, frozen=True):
    """One source of the plan.

    Parameters
    ----------
    number : int
        Its position in the plan.
    entry, plan : SegmentEntry, SourcePlan
        The segment, and how it is read.
    keys : tuple of Expression
        What rows are ordered by, over the source's columns.
    best : tuple or None
        As of `best_of_segment`: no row's first key comes before it.
    """

    number: int
    entry: SegmentEntry
    plan: SourcePlan
    keys: tuple[Expression, ...]
    best: tuple[Any] | None


class _Step(msgspec.Struct, frozen=True):
    """Rows of one source that are examined together; none ranks before `best` in the source."""

    source: _Source
    row_range: RowRange
    best: int | None


class _Places(msgspec.Struct, frozen=True):
    """Places of rows: the values of their keys, sources and row ids.

    Parameters
    ----------
    keys : list of pa.Array[n]
        In the order's terms.
    numbers : uint32[n]
        Of the source.
    row_ids : uint32[n]
        Within it.
    base_rows : integer[n]
        Which base rows of the segment they are.
    """

    keys: list[pa.Array]
    numbers: NDArray[np.uint32]
    row_ids: NDArray[np.uint32]
    base_rows: NDArray[np.int64] | NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.numbers)

    def taken(self, chosen: NDArray[Any]) -> _Places:
        wanted = primitive_array(chosen)
        return _Places(
            [key.take(wanted) for key in self.keys],
            self.numbers[chosen],
            self.row_ids[chosen],
            self.base_rows[chosen],
        )

    def first(self, terms: Sequence[OrderTerm], limit: int) -> _Places:
        """Return the first `limit` places by their keys, source and base row."""

        def ranks_of(
            key: pa.Array, term: OrderTerm, positions: Positions, wanted: int | None
        ) -> Ranks:
            some = key if positions is None else key.take(primitive_array(positions))
            return term_ranks(some, term, wanted)

        def as_ranks(values: NDArray[Any], positions: Positions, _: int | None) -> Ranks:
            return (values if positions is None else values[positions]).astype(np.int64)

        criteria = [partial(ranks_of, *one) for one in zip(self.keys, terms, strict=True)]
        places = [partial(as_ranks, values) for values in (self.numbers, self.base_rows)]
        return self.taken(sorted_positions([*criteria, *places], len(self), limit))


class FirstRows:
    """The first `limit` matching rows in an order; of equal ones in the order of segments and rows.

    Parameters
    ----------
    storage : Storage
        The table.
    plan : QueryPlan
        Of a row scan with a limit.
    segments : sequence of SegmentPlan
        Those to read.
    thread_count : int
        How many threads may look.
    """

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
        self._found: list[_Places] = []
        self._last: tuple[Bound, ...] | None = None

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
                opened = replace(self._open(source), reads_few=True)
                rows = Rows(opened, RowIds(all_row_ids[positions]))
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

    def _find(self) -> _Places | None:
        if self._limit == 0:
            return None
        workers = Workers(self._thread_count)
        pending = 0
        for found in workers.map_ahead(self._look, self._steps(), ahead=self._thread_count - 1):
            self._found += found
            pending += sum(map(len, found))
            if pending >= (self._limit if self._last is None else 2 * self._limit):
                pending = self._keep_first()
        self._keep_first()
        return self._found[0] if self._found else None

    def _keep_first(self) -> int:
        """Keep the first of the rows known so far, in order, and return their number."""
        if not self._found:
            return 0
        columns = zip(*(places.keys for places in self._found), strict=True)
        joined = _Places(
            [pa.concat_arrays(column) for column in columns],
            np.concatenate([places.numbers for places in self._found]),
            np.concatenate([places.row_ids for places in self._found]),
            np.concatenate([places.base_rows for places in self._found]),
        )
        kept = joined.first(self._terms, self._limit)
        self._found = [kept]
        if len(kept) == self._limit:
            ends = (key.slice(len(key) - 1) for key in kept.keys)
            self._last = tuple(map(Bound, self._terms, ends))
        return len(kept)

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
        rows = rows_to_read(source.entry, source.plan)
        opened, key = self._open(source), source.keys[0]
        names = _names_read(source)
        together = min(rows_at_a_time(opened, names) or _STEP_ROWS, _STEP_ROWS)
        ranges = cut(rows, together, opened, names)
        zones = opened.zones(key.name) if isinstance(key, Column) else None
        if zones is None or not isinstance(key, Column):
            yield from (_Step(source, one, None) for one in ranges)
            return
        dictionary = opened.dictionary(key.name)
        bests = best_of_pages(zones, dictionary, self._first)
        starts = zones.row_starts
        steps = []
        for one in ranges:
            first = int(np.searchsorted(starts, one.start, side="right")) - 1
            end = int(np.searchsorted(starts, one.end, side="left"))
            steps.append(_Step(source, one, int(bests[first:end].min())))
        yield from sorted(steps, key=lambda step: (step.best, step.row_range.start))

    def _look(self, step: _Step) -> list[_Places]:
        """Return the matching rows of a step that may be among the first."""
        check_deadline()
        source, last = step.source, self._last
        if last is not None and self._is_behind(source):
            return []
        opened = self._open(source)
        if last is not None and step.best is not None:
            key = source.keys[0]
            assert isinstance(key, Column)
            if step.best > last[0].greatest_rank(opened.dictionary(key.name)):
                return []
        rows = select_rows(
            opened,
            step.row_range,
            condition=source.plan.filter,
            interval=source.plan.interval,
            time_column=source.plan.time_column,
            uses_postings=self._plan.query.context.uses_postings,
        ).compact()
        return list(self._narrowed(rows, source, last))

    def _narrowed(
        self, rows: Rows, source: _Source, last: Sequence[Bound] | None
    ) -> Iterator[_Places]:
        """Yield those of some rows that may be among the first; long texts of few at a time."""
        if len(rows) == 0:
            return
        try:
            some = rows if last is None else self._before(rows, source, last)
            found = _places(self._first_of(some, source), source)
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
        kept = []
        undecided = np.arange(len(rows), dtype=np.uint32)
        for key, bound in zip(source.keys, last, strict=True):
            if len(undecided) == 0:
                break
            some = rows if len(undecided) == len(rows) else rows.subset(undecided)
            is_before, is_equal = bound.compare(evaluate_over(key, some))
            kept.append(undecided[is_before])
            undecided = undecided[is_equal]
        positions = np.concatenate([*kept, undecided])
        return rows if len(positions) == len(rows) else rows.subset(np.sort(positions))

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
        return open_source(self._storage, source.entry, source.plan, self._plan.schema)


def _terms(plan: QueryPlan) -> tuple[OrderTerm, ...]:
    """Return the order of a row scan with a limit: as asked, then by time."""
    query = plan.query
    if query.time_column is None or query.time_type is None:
        return query.order_by
    return (*query.order_by, OrderTerm(Column(query.time_type, _TIME)))


def _names_read(source: _Source) -> set[str]:
    """Return the columns that finding the first rows reads."""
    names = set[str]().union(*(key.columns for key in source.keys))
    if source.plan.filter is not None:
        names |= source.plan.filter.columns
    if source.plan.interval is not None and source.plan.time_column is not None:
        names.add(source.plan.time_column)
    return names


def _places(rows: Rows, source: _Source) -> _Places:
    selection = rows.selection
    if isinstance(selection, RowRange):
        row_ids = np.arange(selection.start, selection.end, dtype=np.uint32)
    else:
        row_ids = selection.ids
    return _Places(
        [evaluate_over(key, rows).to_arrow() for key in source.keys],
        np.full(len(rows), source.number, np.uint32),
        row_ids,
        row_numbers(rows) if source.plan.needs_row_numbers else row_ids,
    )
