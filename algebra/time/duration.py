"""Lengths of time: ISO 8601 periods such as P1D, PT15M or P1Y2M, and Spark's interval constants.

Spark writes `1 hour`, `1 day 2 hours`, `1-2 year to month`.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from projseg.errors import InvalidInputError

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY

_MONTHS_MAX: Final = 120_000
_DAYS_MAX: Final = 3_652_425  # 120,000 months of the Gregorian calendar
_PERIOD: Final = re.compile(
    r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?"
    r"(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6}))?S)?)?",
    re.IGNORECASE,
)

_MICROS: Final = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": SECOND,
    "minute": MINUTE,
    "hour": HOUR,
}
_DAYS: Final = {"day": 1, "week": 7}
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_PART: Final = re.compile(r"([+-]?)\s*(\d+)(?:\.(\d{1,9}))?\s*([a-z]+)", re.IGNORECASE)
_SPAN_MONTHS_MAX: Final = (1 << 31) - 1
_MICROS_MAX: Final = (1 << 63) - 1
_DIGITS_MAX: Final = 19  # of _MICROS_MAX
_SPANS: Final = {
    ("year", "month"): r"(?P<sign>[+-]?)(?P<year>\d+)-(?P<month>\d+)",
    ("day", "hour"): r"(?P<sign>[+-]?)(?P<day>\d+) (?P<hour>\d+)",
    ("day", "minute"): r"(?P<sign>[+-]?)(?P<day>\d+) (?P<hour>\d+):(?P<minute>\d+)",
    ("day", "second"): r"(?P<sign>[+-]?)(?P<day>\d+) (?P<hour>\d+):(?P<minute>\d+):"
    r"(?P<second>\d+)(?:\.(?P<fraction>\d{1,9}))?",
    ("hour", "minute"): r"(?P<sign>[+-]?)(?P<hour>\d+):(?P<minute>\d+)",
    ("hour", "second"): r"(?P<sign>[+-]?)(?P<hour>\d+):(?P<minute>\d+):(?P<second>\d+)"
    r"(?:\.(?P<fraction>\d{1,9}))?",
    ("minute", "second"): r"(?P<sign>[+-]?)(?P<minute>\d+):(?P<second>\d+)"
    r"(?:\.(?P<fraction>\d{1,9}))?",
}


class Period(msgspec.Struct, frozen=True):
    """A length of time on the calendar: months, weeks and exact microseconds.

    Weeks are kept apart because a week starts on Monday, while seven days start on any day.
    """

    months: int
    weeks: int
    micros: int


def parse_period(text: str) -> Period:
    """Return the period that ISO 8601 text such as `PT1H` stands for."""
    match = _PERIOD.fullmatch(text.strip())
    if match is None or not any(match.groups()) or text.strip().upper().endswith("T"):
        raise InvalidInputError(
            "PROJSEG_BAD_PERIOD", f"'{text}' is not an ISO 8601 period such as PT15M, P1D or P1M"
        )
    too_long = InvalidInputError("PROJSEG_BAD_PERIOD", f"'{text}' is longer than 10,000 years")
    try:
        numbers = [int(group or 0) for group in match.groups()[:7]]
    except ValueError as error:  # Python converts no text of thousands of digits
        raise too_long from error
    years, months, weeks, days, hours, minutes, seconds = numbers
    fraction = int((match[8] or "").ljust(6, "0"))
    micros = days * DAY + hours * HOUR + minutes * MINUTE + seconds * SECOND + fraction
    period = Period(years * 12 + months, weeks, micros)
    if period.months > _MONTHS_MAX or period.weeks * WEEK + micros > _DAYS_MAX * DAY:
        raise too_long
    return period


class Span(msgspec.Struct, frozen=True):
    """An interval constant; days are kept apart because not every day has 24 hours.

    Calendar months are up to 2^31 - 1; calendar days and exact microseconds up to 2^63 - 1
    microseconds each and together. Each may be negative.
    """

    months: int = 0
    days: int = 0
    clock_micros: int = 0

    @property
    def micros(self) -> int:
        """Days and the exact part in microseconds, each day taken as 24 hours."""
        return self.days * DAY + self.clock_micros

    def plus(self, other: Span) -> Span:
        """Return the sum of both."""
        return Span(
            self.months + other.months,
            self.days + other.days,
            self.clock_micros + other.clock_micros,
        )

    def negated(self) -> Span:
        """Return the same length backwards."""
        return Span(-self.months, -self.days, -self.clock_micros)

    @property
    def text(self) -> str:
        """The text that `parse_interval` reads as this interval."""
        unit, size = next((u, n) for u, n in reversed(_MICROS.items()) if not self.clock_micros % n)
        clock = self.clock_micros // size
        parts = ((self.months, "month"), (self.days, "day"), (clock, unit))
        return " ".join(f"{n} {name}" for n, name in parts if n) or "0 second"


def parse_interval(text: str) -> Span:
    """Return the interval of texts such as `1 hour` and `interval 2 days 3 minutes`."""
    body = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE).strip()
    total, position = Span(), 0
    while position < len(body):
        match = _PART.match(body, position)
        if match is None:
            raise _bad(text)
        total = total.plus(_unit_span(text, match))
        position = match.end()
        position += len(body[position:]) - len(body[position:].lstrip(" ,"))
    if not body:
        raise _bad(text)
    return _checked(total, text)


def parse_interval_range(text: str, first: str, last: str) -> Span:
    """Return the interval of a text that spans two units, such as `'1 2' DAY TO HOUR`."""
    pattern = _SPANS.get((first.casefold(), last.casefold()))
    match = re.fullmatch(pattern, text.strip()) if pattern else None
    if match is None:
        raise _bad(f"{text} {first} to {last}")
    fields = {
        k: _count(v, text)
        for k, v in match.groupdict().items()
        if k not in ("sign", "fraction") and v
    }
    fraction = int((match.groupdict().get("fraction") or "").ljust(9, "0")) // 1000
    total = Span(clock_micros=fraction)
    for unit, count in fields.items():
        total = total.plus(_span(unit, count))
    return _checked(total.negated() if match["sign"] == "-" else total, text)


def _unit_span(text: str, match: re.Match[str]) -> Span:
    sign, count, fraction, unit = match.groups()
    unit = unit.casefold().removesuffix("s")
    if fraction and unit != "second":
        raise _bad(text)
    span = _span(unit, _count(count, text))
    if fraction:
        span = span.plus(Span(clock_micros=int(fraction.ljust(9, "0")) // 1000))
    return span.negated() if sign == "-" else span


def _span(unit: str, count: int) -> Span:
    if unit in _MICROS:
        return Span(clock_micros=count * _MICROS[unit])
    if unit in _DAYS:
        return Span(days=count * _DAYS[unit])
    if unit in _MONTHS:
        return Span(months=count * _MONTHS[unit])
    raise _bad(f"{count} {unit}")


def _count(digits: str, text: str) -> int:
    if len(digits) > _DIGITS_MAX:
        raise _too_long(text)
    return int(digits)


def _checked(span: Span, text: str) -> Span:
    lengths = (span.days * DAY, span.clock_micros, span.micros)
    if abs(span.months) > _SPAN_MONTHS_MAX or any(abs(length) > _MICROS_MAX for length in lengths):
        raise _too_long(text)
    return span


def _too_long(text: str) -> Exception:
    return InvalidInputError(
        "PROJSEG_BAD_EXPRESSION",
        f"'{text}' is longer than an interval may be: 2^31 - 1 months, 2^63 - 1 microseconds",
    )


def _bad(text: str) -> Exception:
    return InvalidInputError(
        "PROJSEG_BAD_EXPRESSION",
        f"'{text}' is not an interval; write '1 hour' or '2 days', for example",
    )
