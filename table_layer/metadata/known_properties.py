"""The properties of a table that projseg reads itself: scopes of projections, and compaction.

All others are the user's own. A text is checked where it is set, and again where it is read: an
earlier release may have stored it.

A scope is what a projection is to be built for: times, an age, a size, and when. It is stored under
keys such as `projection.hourly.retain`, so that a definition and its hash say only what is stored.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from projseg.algebra.time.duration import DAY, HOUR, WEEK, parse_period
from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError
from projseg.table_layer.metadata.text_bounds import check_property_sizes

SKIPPED: Final = "skipped: "
"""How the reason begins where a projection is left out on purpose; other reasons are failures."""

KEYS: Final = ("build", "interval", "retain", "maxRowRatio", "maxBytesRatio")
_UNITS: Final = {"hour": HOUR, "day": DAY, "week": WEEK}
_AGE_CHARACTERS_MAX: Final = 100
_AGE: Final = re.compile(r"([0-9]{1,9}) *(hour|day|week)s?", re.IGNORECASE)

AUTO_COMPACT: Final = "autoCompact"
"""Whether each commit compacts the time chunks that it wrote to."""
COMPACT_MIN_SEGMENTS: Final = "compactMinSegments"
"""How many segments of a time chunk are worth merging."""
MAX_DELETED_RATIO: Final = "maxDeletedRatio"
"""Which share of a segment's rows a deletion vector may name."""

_MAX_DELETED_RATIO: Final = 0.2
_SCOPE: Final = re.compile(rf"projection\.(.+)\.({'|'.join(KEYS)})", re.DOTALL)


class ProjectionScope(msgspec.Struct, frozen=True):
    """The segments that a projection is built in; by default all, as they are written.

    If it is deferred, materialising and compaction build it. Segments with no row in `interval`, or
    with older rows only than the length of time `retain` (`90 days` or `P90D`), go without; the
    ratios are the most rows, and stored bytes of columns, as a share of the base table's.
    """

    is_deferred: bool = False
    interval: Interval | None = None
    retain: str | None = None
    max_row_ratio: float | None = None
    max_bytes_ratio: float | None = None

    def reason_against(self, first_us: int | None, last_us: int | None, now_us: int) -> str | None:
        """Return why a segment with times from `first_us` to `last_us` goes without it, or None.

        Times are None if the segment has none; the clock is in microseconds UTC.
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
    """Return a checked scope."""
    if build not in ("immediate", "deferred"):
        raise _bad_scope("build", build, "'immediate' or 'deferred'")
    if retain is not None:
        _age_us(retain)
    for name, ratio in (("maxRowRatio", max_row_ratio), ("maxBytesRatio", max_bytes_ratio)):
        is_number = isinstance(ratio, int | float) and not isinstance(ratio, bool)
        if ratio is not None and not (is_number and math.isfinite(ratio) and ratio > 0):
            raise _bad_scope(name, ratio, "a number above 0, such as 0.5")
    return ProjectionScope(build == "deferred", interval, retain, max_row_ratio, max_bytes_ratio)


def scope_of(properties: Mapping[str, str], projection: str) -> ProjectionScope:
    """Return the scope that a table's properties state for a projection."""
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
        raise _bad_scope(name, text, "a number above 0, such as 0.5") from error


def _age_us(text: str) -> int:
    text = str(text)
    if len(text) > _AGE_CHARACTERS_MAX:
        raise _bad_scope("retain", f"{text[:80]}...", f"{_AGE_CHARACTERS_MAX} characters or fewer")
    match = _AGE.fullmatch(text.strip())
    if match is not None:
        return int(match[1]) * _UNITS[match[2].lower()]
    try:
        period = parse_period(text)
    except InvalidInputError:
        period = None
    if period is None or period.months:
        raise _bad_scope(
            "retain", text, "a length such as '90 days', '12 hours' or P90D, not months"
        )
    return period.weeks * WEEK + period.micros


def _guard(name: str, ratio: float | None, size: int, base: int, unit: str) -> str | None:
    if ratio is None or size <= ratio * base:
        return None
    return f"{_guard_text(name, ratio)}{size} of {base} {unit}"


def _guard_text(name: str, ratio: float) -> str:
    return f"{SKIPPED}{name} is {ratio!r} and it would have "


def _bad_scope(option: str, value: object, wanted: str) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_BAD_OPTION", f"{option} {value!r} of a projection is not {wanted}"
    )


def is_auto_compacted(properties: Mapping[str, str]) -> bool:
    """Whether commits to a table are followed by a compaction."""
    text = properties.get(AUTO_COMPACT, "false").lower()
    if text not in ("true", "false"):
        raise _bad(AUTO_COMPACT, properties, "'true' or 'false'")
    return text == "true"


def compact_min_segments(properties: Mapping[str, str]) -> int | None:
    """Return how few segments are left as they are; None if a table does not say."""
    text = properties.get(COMPACT_MIN_SEGMENTS)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or int(text[:9]) < 2:
        raise _bad(COMPACT_MIN_SEGMENTS, properties, "a whole number from 2 on")
    return int(text)


def max_deleted_ratio(properties: Mapping[str, str]) -> float:
    """Return the share of a segment's rows that a deletion vector may name."""
    try:
        share = float(properties.get(MAX_DELETED_RATIO, _MAX_DELETED_RATIO))
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise _bad(MAX_DELETED_RATIO, properties, "a number from 0 to 1")
    return share


_READERS: Final = {
    AUTO_COMPACT: is_auto_compacted,
    COMPACT_MIN_SEGMENTS: compact_min_segments,
    MAX_DELETED_RATIO: max_deleted_ratio,
}
_NEARLY: Final = 0.85
_NEARLY_SCOPE: Final = re.compile(r"projection\.(.+)\.([^.]+)", re.DOTALL)
_BY_FOLDED: Final = {name.casefold(): name for name in _READERS}


def check_set(properties: Mapping[str, str]) -> None:
    """Refuse properties that a table is to have, unless each is a short text and means something.

    Raises PROJSEG_METADATA_TOO_LARGE of one that is too long.
    """
    for name, text in properties.items():
        for what, given in (("name", name), ("value", text)):
            if not isinstance(given, str):
                raise InvalidInputError(
                    "PROJSEG_BAD_OPTION",
                    f"property {name!r} has the {what} {given!r}, which is of type "
                    f"{type(given).__name__}; names and values of properties are texts",
                )
        check_property_sizes("property", {name: text})
        known = _BY_FOLDED.get(name.casefold())
        if known is not None and known != name:
            raise InvalidInputError(
                "PROJSEG_BAD_OPTION", f"property '{name}' has no effect; write it '{known}'"
            )
        if known is not None:
            _READERS[known](properties)
        scope = _SCOPE.fullmatch(name)
        if scope is not None:
            scope_of(properties, scope[1])


def known_ones(properties: Mapping[str, str]) -> dict[str, str]:
    """Return those properties that projseg reads itself."""
    return {
        name: text
        for name, text in properties.items()
        if name in _READERS or _SCOPE.fullmatch(name) is not None
    }


def check_spelling(names: Iterable[str], options: Iterable[str]) -> None:
    """Refuse properties whose names differ little from those that have an effect."""
    by_folded = {name.casefold(): name for name in (*_READERS, *options)}
    for name in names:
        if name.casefold() in _BY_FOLDED:  # for `check_set`
            continue
        scope, folded = _NEARLY_SCOPE.fullmatch(name), name.casefold()
        near = difflib.get_close_matches(folded, by_folded, n=1, cutoff=_NEARLY)
        suggestion = by_folded[near[0]] if near else ""
        if scope is not None and scope[2] not in KEYS:
            found = difflib.get_close_matches(scope[2], KEYS, n=1, cutoff=_NEARLY)
            suggestion = f"projection.{scope[1]}.{found[0]}" if found else ""
        if suggestion and suggestion != name:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_OPTION",
                f"property '{name}' has no effect; did you mean '{suggestion}'? Choose a name that "
                "differs more, if it is one of your own",
            )


def _bad(name: str, properties: Mapping[str, str], wanted: str) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_BAD_OPTION",
        f"the table's property {name} is {properties[name]!r}; it takes {wanted}",
    )
