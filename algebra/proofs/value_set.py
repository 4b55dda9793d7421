"""Sets of values of one ordered type, with or without null, for zone maps and proofs.

A set is a sorted list of cuts, which are places between values. The values from each cut at an even
position to the next cut are inside, so union, intersection and complement are one sweep over cuts.
Order is Spark's: NaN after all numbers and equal to itself, -0.0 equal to 0.0, strings by code
point.
"""

from __future__ import annotations

import datetime
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa

from projseg.algebra.time.bucket_order import (
    end_of_before,
    first_at_or_after,
    highest_start_to,
    lowest_start_from,
)
from projseg.algebra.time.granularity import Granularity
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_EPOCH_UTC: Final = _EPOCH.replace(tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)

Cut = tuple[Any, ...]
_BOTTOM: Final[Cut] = (0,)
_TOP: Final[Cut] = (2,)


class ValueSet(msgspec.Struct, frozen=True):
    """Values between cuts, and perhaps null.

    Parameters
    ----------
    cuts : tuple of Cut
        Ascending and even in number: values from the first to the second are inside, and so on.
    has_null : bool
        Whether null is a member.
    """

    cuts: tuple[Cut, ...]
    has_null: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it has no member, not even null."""
        return not self.cuts and not self.has_null

    def complement(self) -> ValueSet:
        """Return the set of all values, and null, that are not in this one."""
        cuts = self.cuts
        cuts = cuts[1:] if cuts[:1] == (_BOTTOM,) else (_BOTTOM, *cuts)
        cuts = cuts[:-1] if cuts[-1:] == (_TOP,) else (*cuts, _TOP)
        return ValueSet(cuts, not self.has_null)

    def union(self, other: ValueSet) -> ValueSet:
        """Return the set of members of either."""
        return ValueSet(_sweep(self.cuts, other.cuts, 1), self.has_null or other.has_null)

    def intersection(self, other: ValueSet) -> ValueSet:
        """Return the set of members of both."""
        return ValueSet(_sweep(self.cuts, other.cuts, 2), self.has_null and other.has_null)

    def without_null(self) -> ValueSet:
        """Return the set without null."""
        return ValueSet(self.cuts) if self.has_null else self

    def is_within(self, other: ValueSet) -> bool:
        """Whether every member is a member of `other`."""
        if self.has_null and not other.has_null:
            return False
        if len(self.cuts) == 2:  # one range of a zone map, against perhaps many
            first, last = _span(other.cuts, *self.cuts)
            return first == last and first % 2 == 1
        return _sweep(self.cuts, other.cuts, 2) == self.cuts

    def overlaps(self, other: ValueSet) -> bool:
        """Whether some member is a member of `other`."""
        if self.has_null and other.has_null:
            return True
        if len(self.cuts) == 2:
            first, last = _span(other.cuts, *self.cuts)
            return first != last or first % 2 == 1
        return bool(_sweep(self.cuts, other.cuts, 2))


NOTHING: Final = ValueSet(())
NULL_ONLY: Final = ValueSet((), has_null=True)
ANY_VALUE: Final = ValueSet((_BOTTOM, _TOP))
ANYTHING: Final = ValueSet((_BOTTOM, _TOP), has_null=True)


def _span(cuts: tuple[Cut, ...], start: Cut, end: Cut) -> tuple[int, int]:
    """Return how many cuts lie at or before `start`, and how many before `end`."""
    return bisect_right(cuts, start), bisect_left(cuts, end)


def _sweep(left: tuple[Cut, ...], right: tuple[Cut, ...], depth_wanted: int) -> tuple[Cut, ...]:
    """Merge two cut lists, keeping where at least `depth_wanted` of them are inside."""
    if not left or not right:
        return () if depth_wanted == 2 else left or right
    steps = sorted(
        [(cut, -1 if index % 2 else 1) for index, cut in enumerate(left)]
        + [(cut, -1 if index % 2 else 1) for index, cut in enumerate(right)],
        key=lambda step: step[0],
    )
    kept: list[Cut] = []
    depth = 0
    for index, (cut, change) in enumerate(steps):
        depth += change
        if index + 1 < len(steps) and steps[index + 1][0] == cut:
            continue
        if (depth >= depth_wanted) != bool(len(kept) % 2):
            kept.append(cut)
    return tuple(kept)


def values_between(
    low: object | None,
    high: object | None,
    arrow_type: pa.DataType,
    *,
    with_low: bool = True,
    with_high: bool = True,
) -> ValueSet | None:
    """Return the set of values from `low` to `high`; a bound of None leaves that side open.

    The result is None if a bound is not a value of `arrow_type` in the form that `Literal` uses.
    """
    start: Cut | None = _BOTTOM if low is None else cut_at(low, arrow_type, after=not with_low)
    end: Cut | None = _TOP if high is None else cut_at(high, arrow_type, after=with_high)
    if start is None or end is None:
        return None
    return ValueSet((start, end)) if start < end else NOTHING


def only(value: object, arrow_type: pa.DataType) -> ValueSet | None:
    """Return the set of one value; None if it is not of the type."""
    return values_between(value, value, arrow_type)


def any_of(values: Iterable[object], arrow_type: pa.DataType) -> ValueSet | None:
    """Return the set of some values; None if one is not of the type."""
    pairs = []
    for value in values:
        start, end = (cut_at(value, arrow_type, after=after) for after in (False, True))
        if start is None or end is None:
            return None
        pairs.append((start, end))
    cuts: list[Cut] = []
    for start, end in sorted(set(pairs)):
        if cuts and cuts[-1] == start:
            cuts[-1] = end
        else:
            cuts += (start, end)
    return ValueSet(tuple(cuts))


def cut_at(value: object, arrow_type: pa.DataType, *, after: bool) -> Cut | None:
    """Return the cut just before or just after a value; None if it is not of the type.

    For integers, dates and timestamps the cut after a value is the cut before the next one, so
    that `> 3` and `>= 4` are the same set.
    """
    key = order_key(value, arrow_type)
    if key is None:
        return None
    if isinstance(key, int):
        return (1, key + after, 0)
    return (1, key, int(after))


def floored(values: ValueSet, arrow_type: pa.DataType, granularity: object) -> ValueSet:
    """Return a set that holds the bucket start of every time in a set of timestamps."""
    if not _cuts_time(arrow_type, granularity):
        return ANYTHING
    assert isinstance(granularity, Granularity)
    result = NOTHING
    for start, end in zip(values.cuts[::2], values.cuts[1::2], strict=True):
        low, high = _micros(start), _micros(end)
        first = _BOTTOM if low is None else (1, lowest_start_from(granularity, low), 0)
        last = _TOP if high is None else (1, highest_start_to(granularity, high - 1) + 1, 0)
        result = result.union(ValueSet((first, last)))
    return ValueSet(result.cuts, values.has_null)


def unfloored(values: ValueSet, arrow_type: pa.DataType, granularity: object) -> ValueSet:
    """Return a set that holds every time whose bucket start is in a set of timestamps."""
    if not _cuts_time(arrow_type, granularity):
        return ANYTHING
    assert isinstance(granularity, Granularity)
    result = NOTHING
    for start, end in zip(values.cuts[::2], values.cuts[1::2], strict=True):
        low, high = _micros(start), _micros(end)
        first = _BOTTOM if low is None else (1, first_at_or_after(granularity, low), 0)
        last = _TOP if high is None else (1, end_of_before(granularity, high), 0)
        if first < last:
            result = result.union(ValueSet((first, last)))
    return ValueSet(result.cuts, values.has_null)


def _cuts_time(arrow_type: pa.DataType, granularity: object) -> bool:
    is_timestamp = bool(pa.types.is_timestamp(arrow_type))
    return is_timestamp and isinstance(granularity, Granularity) and not granularity.is_all


def _micros(cut: Cut) -> int | None:
    """Return the instant at which a cut lies; None if it is beyond all timestamps."""
    is_inside = len(cut) > 1 and MIN_MICROS < cut[1] < MAX_MICROS
    return int(cut[1]) if is_inside else None


def order_key(value: object, arrow_type: pa.DataType) -> Any:
    """Return a key that sorts as Spark sorts `value`; None if the value is not of the type.

    It is an int for booleans, integers, dates (days) and timestamps (microseconds), and
    (is NaN, value) for float and double; decimals, strings and binaries are their own keys.
    """
    for is_kind, key_of in _KEYS:
        if is_kind(arrow_type):
            return key_of(value)
    return None


def _boolean_key(value: object) -> Any:
    return int(value) if isinstance(value, bool) else None


def _integer_key(value: object) -> Any:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _decimal_key(value: object) -> Any:
    return Decimal(value) if isinstance(value, int | Decimal) else None


def _text_key(value: object) -> Any:
    return value if isinstance(value, str) else None


def _binary_key(value: object) -> Any:
    return value if isinstance(value, bytes) else None


def _float_key(value: object) -> Any:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return (True, 0.0) if math.isnan(value) else (False, value)


def _timestamp_key(value: object) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, datetime.datetime):
        return None
    return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND


def _date_key(value: object) -> Any:
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        return None
    return (value - _EPOCH.date()).days


_KEYS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[object], Any]], ...]] = (
    (pa.types.is_boolean, _boolean_key),
    (pa.types.is_integer, _integer_key),
    (pa.types.is_floating, _float_key),
    (pa.types.is_decimal, _decimal_key),
    (pa.types.is_timestamp, _timestamp_key),
    (pa.types.is_date32, _date_key),
    (pa.types.is_string, _text_key),
    (pa.types.is_binary, _binary_key),
)
