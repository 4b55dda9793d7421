"""The facts about a segment in its manifest, and the constants that follow from them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.joined_values import reads_tables
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal, scalar_literal
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.time.duration import DAY
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import EvaluationError
from projseg.segment_format.arrow_arrays import primitive_array


class ColumnFacts(msgspec.Struct, frozen=True, gc=False):
    """Facts about one column's values in a segment; without `is_known`, other fields say nothing.

    Bounds are of the values that are neither null nor NaN, as in `Literal`, and None if there are
    none or they are unknown; if not exact, all values lie between them.
    """

    minimum: object = None
    maximum: object = None
    null_count: int = 0
    has_nan: bool = False
    is_exact: bool = True
    is_known: bool = True


NOTHING_KNOWN: Final = ColumnFacts(None, None, 1, is_exact=False, is_known=False)
"""Of a column of which it is only known that it is there."""


class ProjectionFacts(msgspec.Struct, frozen=True, gc=False):
    """A projection that a segment holds; the table's current one of that name may differ.

    Bytes exclude shared dictionaries. `column_bytes` has grouping columns by name, states as
    `f"{primitive}.{part}"`; it is empty if only the total is known.
    """

    spec: ProjectionSpec
    row_count: int
    byte_count: int
    column_bytes: Mapping[str, int] = msgspec.field(default_factory=dict)


class SegmentFacts(msgspec.Struct, frozen=True, gc=False):
    """One segment as the planner sees it.

    Columns that it lacks are read as null. Times are the smallest and largest of the data,
    microseconds UTC, both inclusive and exact; None without a time column or without a value in it.
    `not_built` has the reason by a projection's name. Stored states and all other facts still count
    the `deleted_row_count` rows. If it has no base rows, projections answer for all of it or
    nothing does, and their states do not count the deleted rows: so it is with a part of a view.
    """

    name: str
    row_count: int
    columns: Mapping[str, ColumnFacts] = msgspec.field(default_factory=dict)
    column_bytes: Mapping[str, int] = msgspec.field(default_factory=dict)
    time_minimum_us: int | None = None
    time_maximum_us: int | None = None
    projections: tuple[ProjectionFacts, ...] = ()
    not_built: Mapping[str, str] = msgspec.field(default_factory=dict)
    deleted_row_count: int = 0
    has_base_rows: bool = True

    def is_never_null(self, name: str) -> bool:
        """Whether a column is known to have a value in every row."""
        found = self.columns.get(name)
        return found is not None and found.is_known and not found.null_count


# The one value that an expression of a time has in a segment, if it has only one.
#
# Between the starts of the buckets that it reads, an expression of floors of a time does not
# change: it has one value on each piece of time. Its values on the pieces of a long window are
# computed together and kept, since many segments lie in it.

_BUCKETS_A_WINDOW: Final = 64


class TimeReading(msgspec.Struct, frozen=True):
    """How an expression reads its only column: a timestamp, timestamp_ntz or date.

    The floors that are read come the finest first; none if its exact value is read too, which of a
    date is all that counts.
    """

    column: Column
    floors: tuple[Granularity, ...]

    @property
    def is_by_day(self) -> bool:
        """Whether the column is a date."""
        return bool(pa.types.is_date32(self.column.type))


class _Pieces(msgspec.Struct, frozen=True):
    """The values of an expression on pieces of time, by where each piece begins, ascending.

    `codes` has the position of each piece's value among the distinct values.
    """

    begins: list[int]
    codes: list[int]
    values: tuple[Literal, ...]

    def only_value(self, low: int, high: int) -> Literal | None:
        """Return the value on all pieces from that of `low` to that of `high`, if it is one."""
        first, last = bisect_right(self.begins, low) - 1, bisect_right(self.begins, high) - 1
        code = self.codes[first]
        is_one = first == last or all(each == code for each in self.codes[first : last + 1])
        return self.values[code] if is_one else None


@lru_cache(maxsize=4096)
def time_reading(expression: Expression) -> TimeReading | None:
    """Return how an expression reads time; None if it depends on another column, or on several.

    What reads another table is known only to those who may read it.
    """
    if reads_tables(expression):
        return None
    columns = [node for node in expression.walk() if isinstance(node, Column)]
    if len(set(columns)) != 1:
        return None
    (column,) = set(columns)
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date32(column.type)):
        return None
    floors = [
        node.parameters[0]
        for node in expression.walk()
        if isinstance(node, Call) and node.function == "time_floor" and node.children == (column,)
    ]
    found = sorted(
        {floor for floor in floors if isinstance(floor, Granularity)},
        key=lambda floor: floor.longest_micros,
    )
    is_exact = len(floors) < len(columns) or any(floor.is_all for floor in found)
    return TimeReading(column, () if is_exact else tuple(found))


def constant_between(expression: Expression, low: int, high: int) -> Literal | None:
    """Return the one value of an expression of time from `low` to `high`, both inclusive, or None.

    Bounds are days for a date and microseconds for other times; None means that there may be
    several values.
    """
    reading = time_reading(expression)
    if reading is None:
        return None
    unit = DAY if reading.is_by_day else 1
    first, end = MIN_MICROS // unit, MAX_MICROS // unit
    if not first < low <= high < end:
        return None
    bucket = _bucket_length(reading)
    if high - low > 2 * bucket:
        return None
    window = bucket * _BUCKETS_A_WINDOW
    start = low // window * window if bucket else low
    if high >= start + window or not first < start <= end - window:
        start, window = low, high - low + 1
    pieces = _pieces(expression, start, start + window)
    return None if pieces is None else pieces.only_value(low, high)


def _bucket_length(reading: TimeReading) -> int:
    """Return how long the finest pieces are, 0 if every time is one of its own."""
    if reading.is_by_day:
        return 1
    return reading.floors[0].longest_micros if reading.floors else 0


@lru_cache(maxsize=2048)
def _pieces(expression: Expression, low: int, high: int) -> _Pieces | None:
    """Return the values on the pieces of `[low, high)`; None if one has none that can be named."""
    reading = time_reading(expression)
    assert reading is not None
    begins = _begins(reading, low, high)
    times = (
        primitive_array(begins).cast(pa.int32()) if reading.is_by_day else primitive_array(begins)
    )
    try:
        columns = {reading.column.name: times.cast(reading.column.type)}
        found = evaluate(expression, columns, len(begins))
        encoded = found.dictionary_encode(null_encoding="encode")
        values = tuple(map(scalar_literal, encoded.dictionary))
    except EvaluationError:
        return None
    return _Pieces(begins.tolist(), encoded.indices.to_pylist(), values)


def _begins(reading: TimeReading, low: int, high: int) -> NDArray[np.int64]:
    if reading.is_by_day or not reading.floors:
        return np.arange(low, high, dtype=np.int64)
    return np.unique(np.concatenate([floor.pieces(low, high)[0] for floor in reading.floors]))
