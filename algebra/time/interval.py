"""Half-open intervals of time, and their ISO 8601 text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import ClassVar

import numpy as np

from projseg.algebra.time.duration import WEEK, Period, parse_period
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS, zone_name, zone_table
from projseg.errors import InvalidInputError

_EPOCH = datetime(1970, 1, 1)
_FORMS = "write START/END, START/PERIOD or PERIOD/END, such as 2015-09-12/P1D"


@dataclass(frozen=True, order=True)
class Interval:
    """The instants from `start_us`, included, to `end_us`, excluded, within years 1 to 9999.

    They are UTC microseconds; if they are equal, the interval is empty.
    """

    start_us: int
    end_us: int

    ETERNITY: ClassVar[Interval]

    def __post_init__(self) -> None:
        if not MIN_MICROS <= self.start_us <= MAX_MICROS or not self.end_us <= MAX_MICROS:
            raise InvalidInputError(
                "PROJSEG_BAD_INTERVAL",
                f"interval of {self.start_us} to {self.end_us} microseconds is not within years 1 "
                "to 9999",
            )
        if self.end_us < self.start_us:
            raise InvalidInputError(
                "PROJSEG_BAD_INTERVAL", f"interval {self} ends before it starts"
            )

    @staticmethod
    def parse(value: str | Sequence[datetime | date | str], timezone: str = "UTC") -> Interval:
        """Return the interval of a text, `2015-09-12/2015-09-13` or `2015-09-12/P1D`, or of a pair.

        A text may also begin with a length, `P1D/2015-09-13`; a pair is of datetimes, dates or ISO
        texts; `timezone` is for times that are given without one.
        """
        is_pair = isinstance(value, Sequence) and not isinstance(value, str)
        parts = list(value) if is_pair else str(value).split("/")
        if len(parts) != 2:
            raise InvalidInputError(
                "PROJSEG_BAD_INTERVAL", f"'{value}' is not an interval; {_FORMS}"
            )
        zone = zone_name(timezone)
        sides = [_parse_side(part, value) for part in parts]
        first, second = sides
        if isinstance(first, Period) and isinstance(second, datetime):
            return Interval(_micros(_moved(second, first, -1), zone), _micros(second, zone))
        if isinstance(first, datetime) and isinstance(second, Period):
            return Interval(_micros(first, zone), _micros(_moved(first, second, 1), zone))
        if isinstance(first, datetime) and isinstance(second, datetime):
            return Interval(_micros(first, zone), _micros(second, zone))
        raise InvalidInputError("PROJSEG_BAD_INTERVAL", f"'{value}' has no start; {_FORMS}")

    @property
    def is_empty(self) -> bool:
        """Whether it holds no instant."""
        return self.start_us == self.end_us

    def contains(self, other: Interval) -> bool:
        """Whether every instant of `other` lies in this interval."""
        inside = self.start_us <= other.start_us and other.end_us <= self.end_us
        return inside or other.is_empty

    def overlaps(self, other: Interval) -> bool:
        """Whether some instant lies in both."""
        return max(self.start_us, other.start_us) < min(self.end_us, other.end_us)

    def intersect(self, other: Interval) -> Interval | None:
        """Return the interval of the instants in both, or None if there are none."""
        if not self.overlaps(other):
            return None
        return Interval(max(self.start_us, other.start_us), min(self.end_us, other.end_us))

    def __str__(self) -> str:
        return f"{micros_to_iso(self.start_us)}/{micros_to_iso(self.end_us)}"


Interval.ETERNITY = Interval(MIN_MICROS, MAX_MICROS)


def micros_to_iso(micros: int) -> str:
    """Return ISO 8601 text in UTC, with a fraction only if it is not zero."""
    if not MIN_MICROS <= micros < MAX_MICROS:
        return "10000-01-01T00:00:00Z" if micros == MAX_MICROS else f"{micros}us"
    moment = _EPOCH + timedelta(microseconds=micros)
    return moment.isoformat(timespec="microseconds" if moment.microsecond else "seconds") + "Z"


def _parse_side(part: datetime | date | str, whole: object) -> datetime | Period:
    if isinstance(part, datetime):
        return part
    if isinstance(part, date):
        return datetime(part.year, part.month, part.day)
    if not isinstance(part, str):
        raise InvalidInputError("PROJSEG_BAD_INTERVAL", f"'{whole}' is not an interval; {_FORMS}")
    text = part.strip()
    if text.upper().startswith("P"):
        return parse_period(text)
    if text.startswith("10000-01-01"):
        return datetime.max
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(
            "PROJSEG_BAD_INTERVAL",
            f"'{text}' in interval '{whole}' is not an ISO 8601 time of years 1 to 9999; {_FORMS}",
        ) from error


def _moved(moment: datetime, period: Period, direction: int) -> datetime:
    months = moment.year * 12 + moment.month - 1 + direction * period.months
    try:
        year, month = divmod(months, 12)
        first = moment.replace(year=year, month=month + 1, day=1)
        following = np.datetime64(f"{year:04}-{month + 1:02}") + 1
        last = int((following.astype("M8[D]") - 1).astype(object).day)
        start = first.replace(day=min(moment.day, last))
        return start + timedelta(microseconds=direction * (period.micros + period.weeks * WEEK))
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            "PROJSEG_BAD_INTERVAL", f"an interval's period from {moment} leaves the years 1 to 9999"
        ) from error


def _micros(moment: datetime, zone: str) -> int:
    if moment == datetime.max:
        return MAX_MICROS
    if moment.tzinfo is not None:
        return (moment - _EPOCH.replace(tzinfo=UTC)) // timedelta(microseconds=1)
    local = (moment - _EPOCH) // timedelta(microseconds=1)
    return int(zone_table(zone, local).to_utc(np.array([local], dtype=np.int64))[0])
