"""Find the rows of a scan with a limit: the earliest, so that they do not depend on the layout.

Segments are visited by their earliest time. As soon as enough rows are known, only rows earlier
than the latest of them matter: later segments are not opened, later pages not decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.tree import Column
from projseg.algebra.planning.source_plan import SourcePlan
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.evaluation.rows import RowIds, RowRange, Rows
from projseg.kernels.rows.sorting import distinct
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan
from projseg.reader.sources.open_sources import open_source, rows_to_read
from projseg.reader.sources.segment_source import SegmentSource, row_numbers
from projseg.reader.sources.selection import select_rows, times_by_id
from projseg.reader.threads import Workers
from projseg.segment_format.layout.format_limits import PAGE_ROWS_MAX
from projseg.segment_format.layout.logical_types import MICROS_A_DAY
from projseg.segment_format.vectors.vectors import Ids, Numbers, Vector
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.storage.locate_storage import Storage

# Rows examined in one step; each step narrows which others may be among the earliest.
_STEP_ROWS: Final = 2 * PAGE_ROWS_MAX


class _Part(msgspec.Struct, frozen=True):
    """Rows of one source that are examined in one step."""

    number: int
    entry: SegmentEntry
    plan: SourcePlan
    row_range: RowRange

    @property
    def earliest_us(self) -> int:
        """No row of the segment is earlier."""
        return MIN_MICROS if self.entry.min_time_us is None else self.entry.min_time_us

    @property
    def time_column(self) -> str:
        """The source's column of time."""
        time = self.plan.keys[-1]
        assert isinstance(time, Column), "a scan with a limit reads the time last"
        return time.name


class _Places(msgspec.Struct, frozen=True):
    """Places of rows: their times, sources and row ids.

    Parameters
    ----------
    times : int64[n]
        Microseconds.
    numbers : uint32[n]
        Of the source.
    row_ids : uint32[n]
        Within it.
    base_rows : integer[n]
        Which base rows of the segment they are.
    """

    times: NDArray[np.int64]
    numbers: NDArray[np.uint32]
    row_ids: NDArray[np.uint32]
    base_rows: NDArray[np.int64] | NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.times)

    def taken(self, chosen: slice | NDArray[Any]) -> _Places:
        return _Places(
            self.times[chosen],
            self.numbers[chosen],
            self.row_ids[chosen],
            self.base_rows[chosen],
        )

    def earliest(self, count: int) -> _Places:
        """Return the first `count` places by time, source and base row."""
        places = self
        if 0 < count < len(self):
            latest = np.partition(self.times, count - 1)[count - 1]
            places = self.taken(self.times <= latest)
        order = np.lexsort((places.base_rows, places.numbers, places.times))
        return places.taken(order[:count])


def _joined(parts: Sequence[_Places]) -> _Places:
    return _Places(
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.row_ids for part in parts]),
        np.concatenate([part.base_rows for part in parts]),
    )


_NO_ROWS: Final = np.empty(0, np.uint32)
_NOWHERE: Final = _Places(np.empty(0, np.int64), _NO_ROWS, _NO_ROWS, _NO_ROWS)


class EarliestRows:
    """The first `limit` matching rows by time; of one time in the order of segments and rows.

    Parameters
    ----------
    storage : Storage
        The table.
    plan : QueryPlan
        Of a row scan with a limit, of a table with a time column.
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
        assert plan.query.time_column is not None
        self._storage, self._plan, self._thread_count = storage, plan, thread_count
        self._limit = plan.query.limit
        self._sources = [(s.entry, source) for s in segments for source in s.choice.plans]
        self._found = _NOWHERE
        self._pending: list[_Places] = []
        self._latest_us: int | None = None

    def batches(self, batch_rows: int) -> Iterator[list[tuple[Rows, SourcePlan, NDArray[np.intp]]]]:
        """Yield batches of the rows in order: rows of each source, and where in the batch each is.

        Parameters
        ----------
        batch_rows : int
            Rows of a batch at most.
        """
        self._find()
        for start in range(0, len(self._found), batch_rows):
            places = self._found.taken(slice(start, start + batch_rows))
            parts = []
            for number in distinct(places.numbers):
                positions = np.flatnonzero(places.numbers == number)
                positions = positions[np.argsort(places.row_ids[positions])]
                row_ids = RowIds(places.row_ids[positions])
                entry, plan = self._sources[number]
                parts.append((Rows(self._open(entry, plan), row_ids), plan, positions))
            yield parts

    def _find(self) -> None:
        if self._limit == 0:
            return
        parts = sorted(self._parts(), key=attrgetter("earliest_us"))
        workers = Workers(self._thread_count)
        found = workers.map_ahead(self._look, parts, ahead=self._thread_count - 1)
        for places in found:
            self._pending.append(places)
            wanted = self._limit if self._latest_us is None else 2 * self._limit
            if sum(map(len, self._pending), len(self._found)) >= wanted:
                self._keep_earliest()
        self._keep_earliest()

    def _parts(self) -> Iterator[_Part]:
        for number, (entry, plan) in enumerate(self._sources):
            rows = rows_to_read(entry, plan)
            for start in range(rows.start, rows.end, _STEP_ROWS):
                end = min(start + _STEP_ROWS, rows.end)
                yield _Part(number, entry, plan, RowRange(start, end))

    def _look(self, part: _Part) -> _Places:
        """Return the matching rows that may be among the earliest."""
        interval, latest = part.plan.interval, self._latest_us
        if latest is not None:
            if part.earliest_us > latest:
                return _NOWHERE
            until = Interval(MIN_MICROS, min(latest + 1, MAX_MICROS))
            interval = until if interval is None else interval.intersect(until)
            if interval is None:
                return _NOWHERE
        rows = select_rows(
            self._open(part.entry, part.plan),
            part.row_range,
            condition=part.plan.filter,
            interval=interval,
            time_column=part.time_column,
        ).compact()
        return _places(part, rows) if len(rows) else _NOWHERE

    def _keep_earliest(self) -> None:
        """Keep the earliest of the rows known so far, in order."""
        self._found = _joined([self._found, *self._pending]).earliest(self._limit)
        self._pending = []
        if len(self._found) == self._limit:
            self._latest_us = int(self._found.times[-1])

    def _open(self, entry: SegmentEntry, plan: SourcePlan) -> SegmentSource:
        return open_source(self._storage, entry, plan, self._plan.schema)


def _places(part: _Part, rows: Rows) -> _Places:
    selection = rows.selection
    if isinstance(selection, RowRange):
        row_ids = np.arange(selection.start, selection.end, dtype=np.uint32)
    else:
        row_ids = selection.ids
    return _Places(
        times_of(rows.vector(part.time_column)),
        np.full(len(rows), part.number, np.uint32),
        row_ids,
        row_numbers(rows) if part.plan.needs_row_numbers else row_ids,
    )


def times_of(vector: Vector) -> NDArray[np.int64]:
    """Return the instants of a time column, int64[n] in microseconds."""
    if isinstance(vector, Ids):
        times: NDArray[np.int64] = times_by_id(vector.dictionary)[vector.ids]
        return times
    assert isinstance(vector, Numbers)
    micros = vector.wide()
    return micros * MICROS_A_DAY if pa.types.is_date32(vector.type) else micros
