"""The timeline: how far each projection, index and view covers the rows of each time; pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import msgspec

from projseg.algebra.time.interval import Interval, micros_to_iso
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.table_layer.coverage import CoverageState

BINS_MAX: Final = 200
SINGLE_MAX: Final = 500
"""So many segments are drawn one by one."""
_SECOND: Final = 1_000_000
_STEPS: Final = tuple(
    seconds * _SECOND
    for seconds in (1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 86400, 7 * 86400)
)
_UNITS: Final = (
    (86400 * _SECOND, "day"),
    (3600 * _SECOND, "hour"),
    (60 * _SECOND, "minute"),
    (_SECOND, "second"),
)
_MONTHS: Final = (1, 3, 12, 60, 120, 600, 1200)
_LAST_YEAR: Final = 9999
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MONDAY_US: Final = -3 * 86400 * _SECOND  # of the week in which 1970 began


class SegmentTime(msgspec.Struct, frozen=True):
    """What a timeline needs of a segment, or of a manifest's segments together (without a file).

    Times exclude the end, and are None if the rows have none; `rows` are those not deleted;
    `deleted` is None if it is unknown without the segments; `states` is by the lane's name.
    """

    file: str | None
    start_us: int | None
    end_us: int | None
    rows: int
    deleted: int | None
    segments: int
    states: Mapping[str, CoverageState]


class Bin(msgspec.Struct, rename={"from_": "from"}):
    """Rows of a time, [from, to) in ISO 8601, and how many are in segments with a lane built.

    Without times, these are rows without a time. Segments are counted by what became of the lane in
    them; `deleted` is None if it is unknown without the segments; `file` is the segment, if the bin
    is one.
    """

    from_: str | None
    to: str | None
    rows: int = 0
    covered: int = 0
    segments: int = 0
    built: int = 0
    failed: int = 0
    skipped: int = 0
    missing: int = 0
    deleted: int | None = 0
    file: str | None = None


class Lane(msgspec.Struct):
    """The bins of the base table, or of a projection, an index or a view."""

    name: str
    kind: Literal["base", "projection", "index", "view"]
    bins: list[Bin]


class Timeline(msgspec.Struct, rename={"from_": "from"}):
    """All lanes over one window, None if no row has a time, the base table's first.

    `unit` is what a bin is: `segment`, `manifest` (segments together; where a projection is built,
    one of them at least has it or says why not), or how long it is. If it is exact, each segment
    was counted, not each manifest. Lanes of indexes and views in `left_out` would take too long.
    """

    from_: str | None
    to: str | None
    unit: str
    is_exact: bool
    lanes: list[Lane]
    left_out: list[str] = []


def timeline(
    segments: Sequence[SegmentTime],
    lanes: Sequence[tuple[str, Literal["projection", "index", "view"]]],
    window: tuple[int, int] | None,
    *,
    is_exact: bool = True,
) -> Timeline:
    """Return the timeline of segments in a window or without times; each counts in one bin.

    The window is in microseconds, the end excluded, None for all times; lanes are those beside the
    base table.
    """
    timed = [one for one in segments if one.start_us is not None and one.end_us is not None]
    without = [one for one in segments if one.start_us is None]
    if window is None and timed:
        ends = min(one.start_us or 0 for one in timed), max(one.end_us or 0 for one in timed)
        window = snapped(*ends)
    timed.sort(key=lambda one: (one.start_us, one.end_us, one.file))
    if not is_exact or len(timed) <= SINGLE_MAX or window is None:
        groups = [(one.start_us, one.end_us, [one]) for one in timed]
        unit = "segment" if is_exact else "manifest"
    else:
        edges, unit = bin_edges(*window)
        held: list[list[SegmentTime]] = [[] for _ in edges[1:]]
        for one in timed:
            place = bisect_right(edges, one.start_us or 0) - 1
            held[min(max(place, 0), len(held) - 1)].append(one)
        groups = [
            (edges[place], edges[place + 1], found) for place, found in enumerate(held) if found
        ]
    groups += [(None, None, without)] if without else []
    named = [("base", "base"), *lanes]
    return Timeline(
        from_=_iso(window[0] if window else None),
        to=_iso(window[1] if window else None),
        unit=unit,
        is_exact=is_exact,
        lanes=[
            Lane(name, kind, [_bin(start, end, found, name, kind) for start, end, found in groups])  # type: ignore[arg-type]
            for name, kind in named
        ],
    )


def _bin(
    start: int | None, end: int | None, segments: Sequence[SegmentTime], name: str, kind: str
) -> Bin:
    found = Bin(_iso(start), _iso(end), file=segments[0].file if len(segments) == 1 else None)
    for one in segments:
        state: CoverageState = (
            "built" if kind == "base" else one.states.get(f"{kind}:{name}", "missing")
        )
        found.rows += one.rows
        found.deleted = None if one.deleted is None else (found.deleted or 0) + one.deleted
        found.segments += one.segments
        found.covered += one.rows if state == "built" else 0
        setattr(found, state, getattr(found, state) + one.segments)
    return found


def bin_edges(start_us: int, end_us: int) -> tuple[list[int], str]:
    """Return the edges of at most `BINS_MAX` bins around a window, and what each is long."""
    for step in _STEPS:
        origin = _MONDAY_US if step == _STEPS[-1] else 0
        first = (start_us - origin) // step * step + origin
        count = -((first - end_us) // step)
        if count <= BINS_MAX:
            return [first + step * n for n in range(max(count, 1) + 1)], _length_text(step)
    begin, last = _datetime(start_us), _datetime(end_us - 1)
    for months in _MONTHS:
        low = (begin.year * 12 + begin.month - 1) // months
        high = (last.year * 12 + last.month - 1) // months + 1
        if high - low <= BINS_MAX:
            return [
                _month_us(n * months) for n in range(low, high + 1)
            ], f"{months} month{'s' * (months > 1)}"
    return [start_us, end_us], "all"


def _length_text(micros: int) -> str:
    """Return a step in the greatest unit that divides it."""
    unit, name = next(one for one in _UNITS if micros % one[0] == 0)
    count = micros // unit
    return f"{count} {name}{'s' * (count > 1)}"


def open_window(start: str | None, end: str | None) -> Interval | None:
    """Return the window between two texts, one of which may be left out; None means all times.

    Raises InvalidInputError (PROJSEG_BAD_INTERVAL).
    """
    if not start and not end:
        return None
    if start and end:
        return Interval.parse(f"{start}/{end}")
    if start:
        return Interval(Interval.parse((start, start)).start_us, MAX_MICROS)
    return Interval(MIN_MICROS, Interval.parse((str(end), str(end))).end_us)


def snapped(start_us: int, end_us: int) -> tuple[int, int]:
    """Return a window whose ends lie on whole bins."""
    edges, _ = bin_edges(start_us, max(end_us, start_us + 1))
    return edges[0], edges[-1]


def _datetime(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _month_us(months: int) -> int:
    year, month = divmod(months, 12)
    if year > _LAST_YEAR:
        return MAX_MICROS
    first = datetime(max(year, 1), month + 1 if year else 1, 1, tzinfo=UTC)
    return (first - _EPOCH) // timedelta(microseconds=1)


def _iso(micros: int | None) -> str | None:
    return None if micros is None else micros_to_iso(micros)
