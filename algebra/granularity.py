"""Granularities: the truncations of time, in any zone, and which of them refine which.

A granularity cuts the local clock of its zone into buckets; `floor` maps an instant to the start
of its bucket. As in Spark's `date_trunc`, where the clock is set back the repeated hour is an hour
of its own, and a bucket's start that comes twice is the one nearest before the instant. A bucket
whose start the clock skips starts where the clock resumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from projseg.algebra.period import DAY, HOUR, MINUTE, SECOND, WEEK, parse_period
from projseg.algebra.time_zones import MAX_MICROS, MIN_MICROS, ZoneTable, zone_name, zone_table
from projseg.errors import InvalidInputError, did_you_mean

_FEW: Final = 256
"""Instants up to which months are counted one by one, not looked up among all months' starts."""
_MONDAY: Final = 4 * DAY
"""1970-01-05, the first Monday of the epoch."""


@dataclass(frozen=True)
class Granularity:
    """A truncation of time; `Granularity.ALL` and `.NONE` are the coarsest and the finest.

    Parameters
    ----------
    months : int
        Length in calendar months, or 0.
    micros : int
        Length in microseconds of the local clock, or 0; both 0 mean one bucket for all time.
    origin : int
        Local clock reading (microseconds since 1970-01-01T00:00) at which some bucket starts;
        kept modulo the length, so that equal truncations are equal values.
    timezone : str
        Name of the zone whose clock is cut.
    """

    months: int = 0
    micros: int = 0
    origin: int = 0
    timezone: str = "UTC"

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
        object.__setattr__(self, "timezone", zone)
        object.__setattr__(self, "origin", self._normal_origin() if local else 0)

    def _normal_origin(self) -> int:
        if self.micros:
            return self.origin % self.micros
        month = int(_months_of(np.array([self.origin]))[0])
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

        Parameters
        ----------
        text : str
            The name or period, in any case.
        timezone : str
            The zone whose clock is cut.
        origin : int or None
            An instant, UTC microseconds, at which a bucket starts.

        Raises
        ------
        InvalidInputError
            If the text is neither, mixes months with days, or is empty time.
        """
        name = text.strip().casefold()
        if name == "all":
            return Granularity.ALL
        if name == "none":
            return Granularity.NONE
        if name not in _DRUID_PERIODS and not name.startswith("p"):
            raise InvalidInputError(
                "PROJSEG_BAD_GRANULARITY",
                f"'{text}' is no granularity; use all, none, {', '.join(_DRUID_PERIODS)} or an "
                f"ISO period such as PT15M{did_you_mean(name, ['all', 'none', *_DRUID_PERIODS])}",
            )
        period = parse_period(_DRUID_PERIODS.get(name, name))
        micros = period.micros + period.weeks * WEEK
        if bool(period.months) == bool(micros):
            raise InvalidInputError(
                "PROJSEG_BAD_GRANULARITY",
                f"'{text}' is no granularity: a period has either months and years or exact units",
            )
        is_week = period.weeks == 1 and period.micros == 0
        granularity = Granularity(period.months, micros, _MONDAY if is_week else 0, timezone)
        return granularity if origin is None else granularity.with_origin(origin)

    def with_origin(self, micros: int) -> Granularity:
        """Return this granularity with a bucket that starts at the instant `micros`."""
        zone = zone_table(self.timezone, micros)
        return replace(self, origin=int(zone.to_local(np.array([micros]))[0]))

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
        """The usual length of a bucket; for months, of the shortest one; for ALL, all time."""
        if self.is_all:
            return MAX_MICROS - MIN_MICROS
        return self.micros or self.months // 12 * 365 * DAY + self.months % 12 * 28 * DAY

    @property
    def period_text(self) -> str:
        """ISO period, `all` or `none`; the origin and the zone are not in it."""
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
        """Return the start of each instant's bucket.

        Parameters
        ----------
        micros : int64[n]
            Instants, UTC microseconds.

        Returns
        -------
        int64[n]
            Starts, UTC microseconds; of ALL, `MIN_MICROS`. May be `micros` itself.
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
            return (
                self._floor_local(micros + offset) - offset if offset else self._floor_local(micros)
            )
        index = zone.index_of(micros)
        local = self._floor_local(micros + zone.offsets[index])
        return _resolve_backward(zone, local, index)

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
        here = self.floor_one(micros)
        if self.is_all:
            return MAX_MICROS
        zone = zone_table(self.timezone, micros + self.length_micros)
        index = int(zone.index_of(np.array([micros]))[0])
        while True:
            offset = int(zone.offsets[index])
            clock = max(micros, int(zone.starts[index])) + offset
            aligned = self._next_local(clock) - offset
            if index + 1 == len(zone.starts) or aligned < zone.starts[index + 1]:
                return min(aligned, MAX_MICROS)
            index += 1
            transition = int(zone.starts[index])
            if self.floor_one(transition) != here:
                return transition

    def buckets(self, start_us: int, end_us: int) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of every bucket that intersects `[start_us, end_us)`."""
        at = start_us
        while at < end_us:
            following = self.next_boundary(at)
            yield self.floor_one(at), following
            at = following

    def _floor_local(self, local: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.micros:
            # NumPy divides by a constant much faster than it takes remainders.
            return (local - self.origin) // self.micros * self.micros + self.origin
        if len(local) > _FEW:
            low = int(self._floor_local(local.min(keepdims=True))[0])
            starts = np.append(low, self._local_starts(low + 1, int(local.max()) + 1))
            found: NDArray[np.int64] = starts[np.searchsorted(starts, local, side="right") - 1]
            return found
        first, within = self._month_origin()
        months = _months_of(local - within)
        return _months_to_micros(months - np.mod(months - first, self.months)) + within

    def _next_local(self, local: int) -> int:
        floor = int(self._floor_local(np.array([local]))[0])
        if self.micros:
            return floor + self.micros
        _, within = self._month_origin()
        month = _months_of(np.array([floor - within])) + self.months
        return int(_months_to_micros(month)[0]) + within

    def _month_origin(self) -> tuple[int, int]:
        month = _months_of(np.array([self.origin]))
        return int(month[0]), self.origin - int(_months_to_micros(month)[0])

    def _local_starts(self, start: int, end: int) -> NDArray[np.int64]:
        """Return the local clock readings in `[start, end)` at which buckets start, ascending."""
        first = self._next_local(start - 1)
        if self.micros:
            return np.arange(first, end, self.micros, dtype=np.int64)
        if first >= end:
            return np.zeros(0, dtype=np.int64)
        _, within = self._month_origin()
        edges = _months_of(np.array([first - within, end - within]))
        starts = _months_to_micros(np.arange(edges[0], edges[1] + 1, self.months)) + within
        return starts[starts < end]


Granularity.ALL = Granularity()
Granularity.NONE = Granularity(micros=1)

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


def refines(finer: Granularity, coarser: Granularity, start_us: int, end_us: int) -> bool:
    """Whether each bucket of `finer` that meets `[start_us, end_us)` lies in one of `coarser`.

    Then rows grouped by `finer` can be grouped again by `coarser`, from the buckets' starts alone.
    Both cut a clock whose offset is constant between two transitions; there the bucket starts are
    checked by arithmetic, and at the transitions themselves by asking both.

    Parameters
    ----------
    finer, coarser : Granularity
        What the rows are grouped by, and what is asked for.
    start_us, end_us : int
        Where the rows' times lie, UTC microseconds; the answer may differ from year to year.
    """
    if end_us <= start_us or finer == coarser or coarser.is_all or finer.is_none:
        return True
    if finer.is_all or coarser.is_none or _is_surely_longer(finer, coarser):
        return False
    low, high = min(start_us, finer.floor_one(start_us)), finer.next_boundary(end_us - 1)
    zones = zone_table(finer.timezone, high), zone_table(coarser.timezone, high)
    changes = np.unique(np.concatenate([zone.starts for zone in zones]))
    cuts = np.concatenate([[low], changes[(changes > low) & (changes < high)], [high]])
    probes = np.unique(np.clip(np.concatenate([cuts, cuts - 1]), low, high - 1))
    if not np.array_equal(coarser.floor(finer.floor(probes)), coarser.floor(probes)):
        return False
    shifts = [zone.offsets[zone.index_of(cuts[:-1])].tolist() for zone in zones]
    pieces = zip(cuts[:-1].tolist(), cuts[1:].tolist(), zip(*shifts, strict=True), strict=True)
    return all(_refines_between(finer, coarser, piece, between) for *piece, between in pieces)


def _is_surely_longer(finer: Granularity, coarser: Granularity) -> bool:
    """Whether some start of `coarser` must fall inside a month of `finer`, wherever it lies."""
    return bool(finer.months) and 0 < coarser.micros < 27 * DAY


def _refines_between(
    finer: Granularity, coarser: Granularity, piece: Sequence[int], shifts: tuple[int, int]
) -> bool:
    """Whether starts of `coarser` inside the open piece are starts of `finer`; offsets constant."""
    (start, end), (shift, coarser_shift) = piece, shifts
    if coarser.months or finer.months:
        local = coarser._local_starts(start + 1 + coarser_shift, end + coarser_shift)
        clock = local - coarser_shift + shift
        return bool(np.array_equal(finer._floor_local(clock), clock))
    first = coarser._next_local(start + coarser_shift) - coarser_shift
    if first >= end:
        return True
    if (first + shift - finer.origin) % finer.micros:
        return False
    return coarser.micros % finer.micros == 0 or first + coarser.micros >= end


def _resolve_backward(
    zone: ZoneTable, local: NDArray[np.int64], index: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the latest instants, under offset `index` or earlier ones, that the clock shows.

    Parameters
    ----------
    local : int64[n]
        Clock readings that are not later than those of the instants they come from.
    index : int64[n]
        Position of the offset in force at those instants.
    """
    index = index.copy()
    starts = local - zone.offsets[index]
    early = np.flatnonzero(starts < zone.starts[index])
    while len(early):
        transition = zone.starts[index[early]]
        index[early] -= 1
        before = local[early] - zone.offsets[index[early]]
        starts[early] = np.minimum(before, transition)
        early = early[(before < transition) & (before < zone.starts[index[early]])]
    return starts


def _months_of(local: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of months from 1970-01 to each local clock reading."""
    days = np.floor_divide(local, DAY).astype("datetime64[D]")
    return days.astype("datetime64[M]").astype(np.int64)


def _months_to_micros(months: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the local clock reading at the start of each month since 1970-01."""
    days = months.astype("datetime64[M]").astype("datetime64[D]")
    return np.asarray(days.astype(np.int64) * DAY, dtype=np.int64)
