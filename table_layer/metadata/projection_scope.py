"""What a projection is to be built for: times, an age, a size, and when.

A scope is stored in the table's properties under keys such as `projection.hourly.retain`, so that
a definition and its hash say only what is stored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from projseg.algebra.time.duration import DAY, HOUR, WEEK, parse_period
from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError

SKIPPED: Final = "skipped: "
"""How the reason begins where a projection is left out on purpose; other reasons are failures."""

KEYS: Final = ("build", "interval", "retain", "maxRowRatio", "maxBytesRatio")
_UNITS: Final = {"hour": HOUR, "day": DAY, "week": WEEK}
_AGE: Final = re.compile(r"([0-9]{1,9}) *(hour|day|week)s?", re.IGNORECASE)


class ProjectionScope(msgspec.Struct, frozen=True):
    """The segments that a projection is built in; by default all, as they are written.

    Parameters
    ----------
    is_deferred : bool
        Whether writes leave it to materialising and compaction.
    interval : Interval or None
        Segments with no row in it go without.
    retain : str or None
        A length of time, `90 days` or `P90D`; segments with older rows only go without.
    max_row_ratio, max_bytes_ratio : float or None
        The most rows, and stored bytes of columns, as a share of the base table's.
    """

    is_deferred: bool = False
    interval: Interval | None = None
    retain: str | None = None
    max_row_ratio: float | None = None
    max_bytes_ratio: float | None = None

    def reason_against(self, first_us: int | None, last_us: int | None, now_us: int) -> str | None:
        """Return why rows from `first_us` to `last_us` go without the projection, or None.

        Parameters
        ----------
        first_us, last_us : int or None
            The segment's smallest and largest time; None if it has none.
        now_us : int
            The clock, microseconds UTC.
        """
        if first_us is None or last_us is None:
            return None
        interval = self.interval
        if interval is not None and not (
            first_us < interval.end_us and last_us >= interval.start_us
        ):
            return f"{SKIPPED}no row lies in the interval {interval}"
        if self.retain is not None and last_us < now_us - _age_us(self.retain):
            return f"{SKIPPED}every row is older than {self.retain}"
        return None

    def row_guard(self, rows: int, base_rows: int) -> str | None:
        """Return why a projection of `rows` groups is too large beside its base rows, or None."""
        return _guard("maxRowRatio", self.max_row_ratio, rows, base_rows, "rows")

    def bytes_guard(self, byte_count: int, base_bytes: int) -> str | None:
        """Return why a projection's columns are too large beside the base table's, or None."""
        return _guard("maxBytesRatio", self.max_bytes_ratio, byte_count, base_bytes, "bytes")

    def is_settled(self, reason: str) -> bool:
        """Whether a recorded reason is that of a guard as it is declared now."""
        guards = (("maxRowRatio", self.max_row_ratio), ("maxBytesRatio", self.max_bytes_ratio))
        return any(
            ratio is not None and reason.startswith(_guard_text(name, ratio))
            for name, ratio in guards
        )

    def to_properties(self, projection: str) -> dict[str, str]:
        """Return the table properties that state this scope of a projection."""
        values = {
            "build": "deferred" if self.is_deferred else None,
            "interval": None if self.interval is None else str(self.interval),
            "retain": self.retain,
            "maxRowRatio": None if self.max_row_ratio is None else repr(self.max_row_ratio),
            "maxBytesRatio": None if self.max_bytes_ratio is None else repr(self.max_bytes_ratio),
        }
        return {_key(projection, key): v for key, v in values.items() if v is not None}


def declare_scope(
    *,
    build: str = "immediate",
    interval: Interval | None = None,
    retain: str | None = None,
    max_row_ratio: float | None = None,
    max_bytes_ratio: float | None = None,
) -> ProjectionScope:
    """Return a checked scope.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_OPTION if a value lies outside its range.
    """
    if build not in ("immediate", "deferred"):
        raise _bad("build", build, "'immediate' or 'deferred'")
    if retain is not None:
        _age_us(retain)
    for name, ratio in (("maxRowRatio", max_row_ratio), ("maxBytesRatio", max_bytes_ratio)):
        is_number = isinstance(ratio, int | float) and not isinstance(ratio, bool)
        if ratio is not None and not (is_number and math.isfinite(ratio) and ratio > 0):
            raise _bad(name, ratio, "a number above 0, such as 0.5")
    return ProjectionScope(build == "deferred", interval, retain, max_row_ratio, max_bytes_ratio)


def scope_of(properties: Mapping[str, str], projection: str) -> ProjectionScope:
    """Return the scope that a table's properties state for a projection.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_OPTION, PROJSEG_BAD_INTERVAL if somebody set a value that is none.
    """
    found = {key: properties.get(_key(projection, key)) for key in KEYS}
    interval = found["interval"]
    return declare_scope(
        build=found["build"] or "immediate",
        interval=None if interval is None else Interval.parse(interval),
        retain=found["retain"],
        max_row_ratio=_ratio("maxRowRatio", found["maxRowRatio"]),
        max_bytes_ratio=_ratio("maxBytesRatio", found["maxBytesRatio"]),
    )


def scope_keys(projection: str) -> tuple[str, ...]:
    """Return the keys of the table properties that state a projection's scope."""
    return tuple(_key(projection, key) for key in KEYS)


def _key(projection: str, key: str) -> str:
    return f"projection.{projection}.{key}"


def _ratio(name: str, text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError as error:
        raise _bad(name, text, "a number above 0, such as 0.5") from error


def _age_us(text: str) -> int:
    text = str(text)
    match = _AGE.fullmatch(text.strip())
    if match is not None:
        return int(match[1]) * _UNITS[match[2].lower()]
    try:
        period = parse_period(text)
    except InvalidInputError:
        period = None
    if period is None or period.months:
        raise _bad("retain", text, "a length such as '90 days', '12 hours' or P90D, not months")
    return period.weeks * WEEK + period.micros


def _guard(name: str, ratio: float | None, size: int, base: int, unit: str) -> str | None:
    if ratio is None or size <= ratio * base:
        return None
    return f"{_guard_text(name, ratio)}{size} of {base} {unit}"


def _guard_text(name: str, ratio: float) -> str:
    return f"{SKIPPED}{name} is {ratio!r} and it would have "


def _bad(option: str, value: object, wanted: str) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_BAD_OPTION", f"{option} {value!r} of a projection is not {wanted}"
    )
