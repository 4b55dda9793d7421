"""ISO 8601 periods, such as P1D, PT15M or P1Y2M."""

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


class Period(msgspec.Struct, frozen=True):
    """A length of time on the calendar: months, weeks and exact microseconds.

    Weeks are kept apart because a week starts on Monday, while seven days start on any day.
    """

    months: int
    weeks: int
    micros: int


def parse_period(text: str) -> Period:
    """Return the period that ISO 8601 text such as `PT1H` stands for.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_PERIOD, if the text is not a period or is longer than 10,000 years.
    """
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
