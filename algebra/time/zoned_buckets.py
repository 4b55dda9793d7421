"""Granularities: the truncations of time, in any zone.

A granularity cuts the local clock of its zone into buckets; `floor` maps an instant to the start
of its bucket. Where the clock is changed, it does what Spark does:

- `date_trunc` to a day or less keeps the instant's offset from UTC. Where the clock is set back,
  the repeated hour is an hour of its own, and so is a day that begins in it. If the clock shows a
  start only before the change, the bucket starts there, and its instants may lie on both sides of
  those of another bucket. A start that the clock skips is moved by as much as the clock, even past
  the instant, in Spark's own units (minute, hour, day); in other units it is where the clock goes
  on.
- Longer buckets, dates and fields of the clock depend on the reading and not on the offset: each
  reading belongs to one bucket, also if the clock shows it twice. Such a bucket starts when the
  clock first shows its start, or where it goes on after skipping it. (Only Spark 4.3.0 differs, by
  a regression: see docs/spark.md.)

So floors may fall at changes of the clock; `bucket_order` finds where.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from projseg.algebra.time.duration import DAY, HOUR, MINUTE, SECOND, WEEK, parse_period
from projseg.algebra.time.time_zones import (
    MAX_MICROS,
    MIN_MICROS,
    is_fixed,
    zone_name,
    zone_table,
)
from projseg.errors import InvalidInputError, did_you_mean

_MONDAY: Final = 4 * DAY  # 1970-01-05, the first Monday of the epoch
# Spark's `date_trunc` depends on the offset in these units; seconds do not depend on zones.
_SPARK_UNITS: Final = (MINUTE, HOUR, DAY)
# Up to so many readings, months are computed for each; beyond, looked up among their starts.
_FEW: Final = 256
_DRUID_PERIODS: Final[dict[str, str]] = {
    "second": "PT1S",
    "minute": "PT1M",
    "five_minute": "PT5M",
    "ten_minute": "PT10M",
    "fifteen_minute": "PT15M",
    "thirty_minute": "PT30M",
    "hour": "PT1H",
    "six_hour": "PT6H",
    "eight_hour": "PT8H",
    "day": "P1D",
    "week": "P1W",
    "month": "P1M",
    "quarter": "P3M",
    "year": "P1Y",
}


@dataclass(frozen=True)
class Granularity:
    """A truncation of time; `Granularity.ALL` and `.NONE` are the coarsest and the finest.

    The length is in calendar months or in microseconds of the local clock; both 0 mean one bucket
    for all time. At the reading `origin` (microseconds since 1970-01-01T00:00) of the local clock
    some bucket starts; it is kept modulo the length, so that equal truncations are equal values.
    With `by_clock`, a bucket depends on the clock's reading only, not on the offset: so it is for
    buckets longer than a day, and not for zones whose offset never changes.
    """

    months: int = 0
    micros: int = 0
    origin: int = 0
    timezone: str = "UTC"
    by_clock: bool = False

    ALL: ClassVar[Granularity]
    NONE: ClassVar[Granularity]

    def __post_init__(self) -> None:
        if self.months < 0 or self.micros < 0 or (self.months and self.micros):
            raise InvalidInputError(
                "PROJSEG_BAD_GRANULARITY",
                f"a granularity has months or microseconds, not {self.months} and {self.micros}",
            )
        local = self.months or self.micros
        zone = zone_name(self.timezone) if local and SECOND % (self.micros or DAY) else "UTC"
        by_clock = not is_fixed(zone) and (self.by_clock or not 0 < self.micros <= DAY)
        object.__setattr__(self, "timezone", zone)
        object.__setattr__(self, "by_clock", by_clock)
        object.__setattr__(self, "origin", self._normal_origin() if local else 0)

    def _normal_origin(self) -> int:
        if self.micros:
            return self.origin % self.micros
        month = int(months_of(np.array([self.origin]))[0])
        within = self.origin - int(_months_to_micros(np.array([month]))[0])
        if within >= 28 * DAY:
            raise InvalidInputError(
                "PROJSEG_BAD_GRANULARITY",
                "the origin of a period of months lies after the 28th, which not every month has",
            )
        return int(_months_to_micros(np.array([month % self.months]))[0]) + within

    @staticmethod
    def parse(text: str, timezone: str = "UTC", origin: int | None = None) -> Granularity:
        """Return the granularity of a Druid name (`hour`, `six_hour`) or ISO period (`PT15M`).

        Texts are in any case; a bucket starts at the instant `origin`, UTC microseconds.
        """
        name = str(text).strip().casefold()
        if name == "all":
            return Granularity.ALL
        if name == "none":
            return Granularity.NONE
        if name not in _DRUID_PERIODS and not name.startswith("p"):
            raise InvalidInputError(
                "PROJSEG_BAD_GRANULARITY",
                f"'{text}' is not a granularity; use all, none, {', '.join(_DRUID_PERIODS)} or an "
                f"ISO period such as PT15M{did_you_mean(name, ['all', 'none', *_DRUID_PERIODS])}",
            )
        period = parse_period(_DRUID_PERIODS.get(name, name))
        micros = period.micros + period.weeks * WEEK
        if bool(period.months) == bool(micros):
            raise InvalidInputError(
                "PROJSEG_BAD_GRANULARITY",
                f"'{text}' is not a granularity: give it either months and years or exact units",
            )
        is_week = period.weeks == 1 and period.micros == 0
        granularity = Granularity(period.months, micros, _MONDAY if is_week else 0, timezone)
        return granularity if origin is None else granularity.with_origin(origin)

    def with_origin(self, micros: int) -> Granularity:
        """Return this granularity with a bucket that starts at the instant `micros`."""
        zone = zone_table(self.timezone, micros)
        return replace(self, origin=int(zone.to_local(np.array([micros]))[0]))

    @cached_property
    def cut(self) -> ClockCut:
        """The buckets of the clock's readings; ALL has none."""
        return ClockCut(self.months, self.micros, self.origin)

    @property
    def is_all(self) -> bool:
        """Whether there is one bucket for all time."""
        return not self.months and not self.micros

    @property
    def is_none(self) -> bool:
        """Whether every instant is a bucket, so that `floor` changes nothing."""
        return self.micros == 1

    @property
    def length_micros(self) -> int:
        """The usual length of a bucket; of months it is the shortest, of ALL it is all time."""
        if self.is_all:
            return MAX_MICROS - MIN_MICROS
        return self.micros or self.months // 12 * 365 * DAY + self.months % 12 * 28 * DAY

    @property
    def longest_micros(self) -> int:
        """An upper bound on the length of a bucket in a time without changes of the clock."""
        return self.micros or self.months * 31 * DAY

    @property
    def period_text(self) -> str:
        """The ISO period, `all` or `none`, without origin and zone."""
        if self.is_all or self.is_none:
            return "all" if self.is_all else "none"
        if self.months:
            return f"P{self.months // 12}Y" if self.months % 12 == 0 else f"P{self.months}M"
        if self.micros == WEEK and self.origin == _MONDAY:
            return "P1W"
        if self.micros % DAY == 0:
            return f"P{self.micros // DAY}D"
        for unit, letter in ((HOUR, "H"), (MINUTE, "M"), (SECOND, "S")):
            if self.micros % unit == 0:
                return f"PT{self.micros // unit}{letter}"
        return f"PT{self.micros // SECOND}.{self.micros % SECOND:06}S"

    @property
    def has_default_origin(self) -> bool:
        """Whether `parse(period_text, timezone)` gives this granularity back."""
        return self.origin == 0 or self.period_text == "P1W"

    def __str__(self) -> str:
        origin = "" if self.has_default_origin else f" from {np.datetime64(self.origin, 'us')}"
        return self.period_text + origin + ("" if self.timezone == "UTC" else f" {self.timezone}")

    def floor(self, micros: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the start of each instant's bucket; both are int64[n] in UTC microseconds.

        All starts of ALL are `MIN_MICROS`; the result may be `micros` itself.
        """
        if self.is_none:
            return micros
        if self.is_all:
            return np.full(len(micros), MIN_MICROS, dtype=np.int64)
        if len(micros) == 0:
            return np.zeros(0, dtype=np.int64)
        zone = zone_table(self.timezone, int(micros.max()))
        if len(zone.starts) == 1:
            offset = int(zone.offsets[0])
            return self.cut.floor(micros + offset) - offset if offset else self.cut.floor(micros)
        index = zone.index_of(micros)
        offsets = zone.offsets[index]
        local = self.cut.floor(micros + offsets)
        starts = local - offsets
        settled = zone.shown_once_from if self.by_clock else zone.shown_from
        astray = np.flatnonzero(local < settled[index])
        moves_on = not self.by_clock and self.origin == 0 and self.micros in _SPARK_UNITS
        resolve = zone.to_utc if moves_on else zone.first_shown
        starts[astray] = resolve(local[astray])
        return starts

    def floor_one(self, micros: int) -> int:
        """Return the start of one instant's bucket."""
        return int(self.floor(np.array([micros], dtype=np.int64))[0])

    def is_boundary(self, micros: int) -> bool:
        """Whether a bucket starts at the instant."""
        return not self.is_all and self.floor_one(micros) == micros

    def next_boundary(self, micros: int) -> int:
        """Return the first instant after `micros` that lies in another bucket.

        Of ALL, and past the last timestamp, it is `MAX_MICROS`.
        """
        if self.is_all:
            return MAX_MICROS
        here, low = self.floor_one(micros), micros
        while low < MAX_MICROS:
            high = min(low + 2 * self.longest_micros, MAX_MICROS)
            begins, starts = self.pieces(low, high)
            others = begins[starts != here]
            if len(others):
                return int(others[0])
            low = high
        return MAX_MICROS

    def pieces(self, low: int, high: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cut `[low, high)`, UTC microseconds, where the floor changes, and where the clock does.

        Return where each piece begins, ascending from `low`, and the floor of every instant in it;
        floors may repeat and need not ascend.
        """
        if self.is_all:
            return np.array([low]), np.array([MIN_MICROS])
        zone = zone_table(self.timezone, high)
        first, last = zone.index_of(np.array([low, high - 1])).tolist()
        edges = [low, *zone.starts[first + 1 : last + 1].tolist(), high]
        begins = []
        offsets = zone.offsets[first : last + 1].tolist()
        for begin, end, offset in zip(edges[:-1], edges[1:], offsets, strict=True):
            begins.append(np.array([begin]))
            begins.append(self.cut.starts(begin + 1 + offset, end + offset) - offset)
        joint = np.concatenate(begins)
        return joint, self.floor(joint)


Granularity.ALL = Granularity()
Granularity.NONE = Granularity(micros=1)


class ClockCut(msgspec.Struct, frozen=True):
    """Buckets of equal length in calendar months or microseconds, on a clock that never changes.

    At the reading `origin`, microseconds since 1970-01-01T00:00, some bucket starts.
    """

    months: int
    micros: int
    origin: int

    def floor(self, local: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the start of the bucket of each reading: int64[n] from int64[n]."""
        if self.micros:
            # NumPy divides by a constant much faster than it takes remainders.
            return (local - self.origin) // self.micros * self.micros + self.origin
        if len(local) > _FEW:
            low = int(self.floor(local.min(keepdims=True))[0])
            starts = np.append(low, self.starts(low + 1, int(local.max()) + 1))
            found: NDArray[np.int64] = starts[np.searchsorted(starts, local, side="right") - 1]
            return found
        first, within = self._month_origin()
        months = months_of(local - within)
        return _months_to_micros(months - np.mod(months - first, self.months)) + within

    def next_start(self, local: int) -> int:
        """Return the first start of a bucket after a reading."""
        floor = int(self.floor(np.array([local]))[0])
        if self.micros:
            return floor + self.micros
        _, within = self._month_origin()
        month = months_of(np.array([floor - within])) + self.months
        return int(_months_to_micros(month)[0]) + within

    def starts(self, start: int, end: int) -> NDArray[np.int64]:
        """Return the readings in `[start, end)` at which buckets start, ascending."""
        first = self.next_start(start - 1)
        if self.micros:
            return np.arange(first, end, self.micros, dtype=np.int64)
        if first >= end:
            return np.zeros(0, dtype=np.int64)
        _, within = self._month_origin()
        edges = months_of(np.array([first - within, end - within]))
        starts = _months_to_micros(np.arange(edges[0], edges[1] + 1, self.months)) + within
        return starts[starts < end]

    def _month_origin(self) -> tuple[int, int]:
        month = months_of(np.array([self.origin]))
        return int(month[0]), self.origin - int(_months_to_micros(month)[0])


def months_of(local: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of months from 1970-01 to each reading: int64[n] from int64[n]."""
    days = np.floor_divide(local, DAY).astype("datetime64[D]")
    return days.astype("datetime64[M]").astype(np.int64)


def _months_to_micros(months: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the reading at the start of each month since 1970-01: int64[n] from int64[n]."""
    days = months.astype("datetime64[M]").astype("datetime64[D]")
    return np.asarray(days.astype(np.int64) * DAY, dtype=np.int64)
