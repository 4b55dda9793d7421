"""Time zones as tables of offsets, so that whole arrays of instants are converted at once.

Their rules are those of the package `tzdata`, never the system's, so that an answer does not depend
on the machine. Systems build the same database with other data for the years before 1970.

`zoneinfo` converts one datetime at a time and does not list its transitions. They are found once
for each zone: it is asked for the offset of every third day, and a bisection finds each change.
After the year 2100 the rules repeat with the calendar's cycle of 400 years (exactly 20,871 weeks).
"""

from __future__ import annotations

import io
import pkgutil
import re
import zoneinfo
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from projseg.algebra.time.duration import DAY, HOUR, MINUTE, SECOND
from projseg.errors import InvalidInputError

MIN_MICROS: Final = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z, the first timestamp that both Spark and Python can hold."""
MAX_MICROS: Final = 253_402_300_800_000_000
"""10000-01-01T00:00:00Z, one past the last timestamp."""

_FIXED: Final = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?", re.IGNORECASE
)
_UTC_NAMES: Final = frozenset(
    {"utc", "z", "gmt", "ut", "etc/utc", "etc/gmt", "etc/uct", "uct", "zulu", "etc/zulu"}
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_YEAR: Final = 1800
_CYCLE_YEAR: Final = 2100
_STEP: Final = 3 * DAY
"""No zone of the database has changed its offset twice within less than 3.9 days."""
_CYCLE_MICROS: Final = 146_097 * DAY
_REGION: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,2}")
_HASH_DIGITS: Final = 32


class ZoneTable(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The offsets of one zone, int64[k]: local clock minus UTC, microseconds.

    Each holds from its entry of `starts` on, UTC microseconds ascending; the first is the smallest
    int64.
    """

    starts: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @cached_property
    def shown_from(self) -> NDArray[np.int64]:
        """The reading, int64[k], with which each offset begins; the first: the smallest int64."""
        readings = self.starts + self.offsets
        readings[0] = self.starts[0]
        return readings

    @cached_property
    def shown_once_from(self) -> NDArray[np.int64]:
        """The first reading, int64[k], of each offset that was not shown before the change."""
        readings = self.shown_from.copy()
        np.maximum(readings[1:], self.starts[1:] + self.offsets[:-1], out=readings[1:])
        return readings

    @cached_property
    def has_plain_midnights(self) -> bool:
        """Whether no day is skipped, and a skipped midnight is always the first skipped reading.

        Then the instant at which the clock goes on is on the date of the midnight it skipped.
        """
        after, before = self.shown_from[1:], self.starts[1:] + self.offsets[:-1]
        last_midnight = (after - 1) // DAY * DAY
        return not bool(np.any((last_midnight > before) | (after - before >= DAY)))

    @cached_property
    def shows_dates_in_order(self) -> bool:
        """Whether the clock never goes back to an earlier date."""
        after, before = self.shown_from[1:], self.starts[1:] - 1 + self.offsets[:-1]
        return not bool(np.any(after // DAY < before // DAY))

    @cached_property
    def goes_back(self) -> bool:
        """Whether the clock ever shows readings again."""
        return bool(np.any(self.offsets[1:] < self.offsets[:-1]))

    @cached_property
    def goes_ahead(self) -> bool:
        """Whether the clock ever skips readings."""
        return bool(np.any(self.offsets[1:] > self.offsets[:-1]))

    def index_of(self, micros: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position of each instant's offset: int64[n] from int64[n].

        Only the transitions between the first and the last instant, mostly few, are searched.
        """
        if len(micros) == 0:
            return np.zeros(0, dtype=np.int64)
        ends = np.array([micros.min(), micros.max()])
        first, last = (np.searchsorted(self.starts, ends, side="right") - 1).tolist()
        if first == last:
            return np.full(len(micros), first, dtype=np.int64)
        later = np.searchsorted(self.starts[first + 1 : last + 1], micros, side="right")
        return np.asarray(first + later, dtype=np.int64)

    def to_local(self, micros: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the readings of the clock at instants, microseconds since 1970: int64[n]."""
        if len(self.starts) == 1:
            return np.asarray(micros + self.offsets[0], dtype=np.int64)
        return np.asarray(micros + self.offsets[self.index_of(micros)], dtype=np.int64)

    def to_utc(
        self, local: NDArray[np.int64], preferred: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Return the instants at which the local clock shows `local`: int64[n].

        As in Java, of two such instants it is the one with the `preferred` offset, int64[n], else
        the earlier. A reading that the clock skips is moved by as much as the clock.
        """
        if len(self.starts) == 1:
            return np.asarray(local - self.offsets[0], dtype=np.int64)
        index = self.local_index_of(local)
        if preferred is not None:
            later = np.minimum(index + 1, len(self.starts) - 1)
            is_shown = local - self.offsets[later] >= self.starts[later]
            index = np.where(is_shown & (self.offsets[later] == preferred), later, index)
        return np.asarray(local - self.offsets[index], dtype=np.int64)

    def first_shown(self, local: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first instants at which the clock shows `local`: int64[n].

        As for Java's `LocalDate.atStartOfDay`, it is where the clock goes on if it skips a reading.
        """
        index = self.local_index_of(local)
        following = np.append(self.starts[1:], np.iinfo(np.int64).max)
        shown = np.minimum(local - self.offsets[index], following[index])
        return np.asarray(shown, dtype=np.int64)

    def instants_showing(self, reading: int) -> list[int]:
        """Return the instants from which the clock shows `reading` or later, or earlier ones again.

        The first begins readings of `reading` or later, the second ends them, and so on; after the
        last, the clock shows none that is earlier.
        """
        ends = np.append(self.starts[1:], np.iinfo(np.int64).max)
        begins = np.maximum(self.starts, reading - self.offsets)
        edges: list[int] = []
        is_shown = begins < ends
        for begin, end in zip(begins[is_shown].tolist(), ends[is_shown].tolist(), strict=True):
            if edges and edges[-1] == begin:
                edges[-1] = end
            else:
                edges += (begin, end)
        return edges[:-1]

    def local_index_of(self, local: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position of the offset with which `to_utc` converts each reading: int64[n].

        A new offset is used from the later of the clock's two readings at the transition, which is
        after any gap or overlap.
        """
        switched = np.searchsorted(self.shown_once_from[1:], local, side="right")
        return np.asarray(switched, dtype=np.int64)


def zone_name(name: str) -> str:
    """Return projseg's spelling of a time zone's name: `UTC`, `+05:30` or a region's name."""
    text = name.strip()
    if text.casefold() in _UTC_NAMES:
        return "UTC"
    if match := _FIXED.fullmatch(text):
        return _fixed_name(text, match)
    _region(text)
    return text


def is_fixed(name: str) -> bool:
    """Whether a name, in `zone_name`'s spelling, is UTC or an offset, which never change."""
    return name == "UTC" or name[0] in "+-"


@lru_cache(maxsize=256)
def zone_rules(name: str) -> str:
    """Return a hash of a zone's rules, in `zone_name`'s spelling: SPEC.md, time zone rules.

    Zones that never change their offset, and two databases, may have the same.
    """
    table = zone_table(name)
    starts, offsets = (table.starts // SECOND).tolist(), (table.offsets // SECOND).tolist()
    changes = (f" {at} {offset}" for at, offset in zip(starts[1:], offsets[1:], strict=True))
    text = f"{offsets[0]}{''.join(changes)}"
    import hashlib  # loads OpenSSL, which a question without such zones does without

    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


def zone_file(name: str) -> bytes | None:
    """Return the file of a region in the database, None if it has none."""
    return pkgutil.get_data("tzdata", f"zoneinfo/{name}")


def zone_table(name: str, last_micros: int = 0) -> ZoneTable:
    """Return the offsets of a zone, in `zone_name`'s spelling, complete up to `last_micros`."""
    cycle_start = _year_micros(_CYCLE_YEAR)
    return _table(name, last_micros >= cycle_start)


def _fixed_name(text: str, match: re.Match[str]) -> str:
    hours, minutes, seconds = int(match[2]), int(match[3] or 0), int(match[4] or 0)
    if hours > 18 or minutes > 59 or seconds > 59 or (hours == 18 and minutes + seconds > 0):
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_TIME_ZONE", f"time zone '{text}' lies outside -18:00 to +18:00"
        )
    if hours == minutes == seconds == 0:
        return "UTC"
    tail = f":{seconds:02}" if seconds else ""
    return f"{match[1]}{hours:02}:{minutes:02}{tail}"


@lru_cache(maxsize=256)
def _region(name: str) -> zoneinfo.ZoneInfo:
    try:
        content = zone_file(name) if _REGION.fullmatch(name) else None
        if content is not None:
            return zoneinfo.ZoneInfo.from_file(io.BytesIO(content), key=name)
    except (ValueError, OSError):  # a folder, or a file that is no zone's
        pass
    raise InvalidInputError(
        "PROJSEG_UNKNOWN_TIME_ZONE",
        f"time zone '{name}' is not in the package tzdata; write UTC, an offset such as +05:30, or "
        "a region such as America/Los_Angeles",
    )


@lru_cache(maxsize=256)
def _table(name: str, with_cycles: bool) -> ZoneTable:
    first = np.iinfo(np.int64).min
    if name == "UTC":
        return ZoneTable(np.array([first]), np.zeros(1, dtype=np.int64))
    if match := _FIXED.fullmatch(name):
        size = int(match[2]) * HOUR + int(match[3] or 0) * MINUTE + int(match[4] or 0) * SECOND
        offset = size if match[1] == "+" else -size
        return ZoneTable(np.array([first]), np.array([offset]))
    zone = _region(name)
    found = _transitions(zone, _FIRST_YEAR, _CYCLE_YEAR)
    starts = [first, *(at for at, _ in found)]
    offsets = [_offset(zone, _year_micros(_FIRST_YEAR)), *(offset for _, offset in found)]
    if with_cycles:
        cycle = _transitions(zone, _CYCLE_YEAR, _CYCLE_YEAR + 400)
        for shift in range(0, MAX_MICROS - cycle[0][0] if cycle else 0, _CYCLE_MICROS):
            starts += [at + shift for at, _ in cycle]
            offsets += [offset for _, offset in cycle]
    return ZoneTable(np.array(starts, dtype=np.int64), np.array(offsets, dtype=np.int64))


def _transitions(zone: zoneinfo.ZoneInfo, first_year: int, end_year: int) -> list[tuple[int, int]]:
    """Return (instant, offset from then on) of each change from `first_year` to `end_year`."""
    start, end = _year_micros(first_year), _year_micros(end_year)
    found: list[tuple[int, int]] = []
    before = _offset(zone, start)
    for low in range(start, end, _STEP):
        high = min(low + _STEP, end)
        after = _offset(zone, high)
        if after != before:
            found.append((_bisect(zone, low, high, before), after))
            before = after
    return found


def _bisect(zone: zoneinfo.ZoneInfo, low: int, high: int, before: int) -> int:
    while high - low > SECOND:
        middle = low + (high - low) // (2 * SECOND) * SECOND
        if _offset(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high


def _offset(zone: zoneinfo.ZoneInfo, micros: int) -> int:
    offset = datetime.fromtimestamp(micros // SECOND, zone).utcoffset()
    assert offset is not None
    return (offset.days * 86_400 + offset.seconds) * SECOND


def _year_micros(year: int) -> int:
    return (datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
