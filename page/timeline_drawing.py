"""What a timeline looks like: rectangles, marks and titles to print as SVG, and links to others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from projseg.algebra.time.interval import Interval, micros_to_iso
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.page.timeline import Bin, Lane, Timeline

WIDTH: Final = 1000
LABEL_WIDTH: Final = 170
_WITHOUT_TIME_WIDTH: Final = 40
_BASE_HEIGHT: Final = 40
_LANE_HEIGHT: Final = 16
_GAP: Final = 6
_TOP: Final = 4
_LEAST_WIDTH: Final = 1.5
_STEPS: Final = 5
_SOME: Final = 2  # the step of what covers an unknown share
_LABEL_CHARACTERS: Final = 22
_LEAST_WINDOW: Final = 1_000_000


class DrawnBin(NamedTuple):
    """A bin as a rectangle, with its numbers in words as a title.

    `kind` is the class of its fill: `covered-0` (nothing) to `covered-5` (all); marks are `failed`,
    `skipped`, `deleted`.
    """

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str
    from_: str | None
    to: str | None
    file: str | None
    marks: tuple[str, ...]


class DrawnLane(NamedTuple):
    """A lane's label and shapes."""

    label: str
    y: float
    shapes: list[DrawnBin]


class Drawing(NamedTuple):
    """A whole timeline."""

    width: int
    height: float
    lanes: list[DrawnLane]


def drawing(found: Timeline) -> Drawing:
    """Return the shapes of a timeline."""
    lanes, y = [], float(_TOP)
    for lane in found.lanes:
        height = _BASE_HEIGHT if lane.kind == "base" else _LANE_HEIGHT
        name = "rows" if lane.kind == "base" else f"{lane.kind} {lane.name}"
        short = name if len(name) <= _LABEL_CHARACTERS else f"{name[: _LABEL_CHARACTERS - 1]}…"
        lanes.append(DrawnLane(short, y + height - 4, _shapes(found, lane, y, height)))
        y += height + _GAP
    return Drawing(WIDTH, y, lanes)


def _shapes(found: Timeline, lane: Lane, y: float, height: float) -> list[DrawnBin]:
    start, end = _seconds(found.from_), _seconds(found.to)
    has_timeless = any(one.from_ is None for one in lane.bins)
    room = WIDTH - LABEL_WIDTH - (_WITHOUT_TIME_WIDTH + _GAP if has_timeless else 0)
    scale = room / max(end - start, 1)
    most = max((one.rows for one in lane.bins), default=0) or 1
    shapes = []
    for one, (first, last) in zip(lane.bins, _slots(lane.bins, start, end), strict=True):
        if one.from_ is None:
            x, width = float(WIDTH - _WITHOUT_TIME_WIDTH), float(_WITHOUT_TIME_WIDTH)
        else:
            x = LABEL_WIDTH + (first - start) * scale
            width = max((last - first) * scale - 0.5, _LEAST_WIDTH)
        tall = max(height * one.rows / most, 1.0) if lane.kind == "base" else height
        shapes.append(
            DrawnBin(
                _short(x),
                _short(y + height - tall),
                _short(width),
                _short(tall),
                _kind(lane, one, is_exact=found.is_exact),
                bin_title(lane, one, is_exact=found.is_exact),
                one.from_,
                one.to,
                one.file,
                _marks(lane, one),
            )
        )
    return shapes


def _slots(bins: Sequence[Bin], start: float, end: float) -> list[tuple[float, float]]:
    """Return where each bin begins and ends in seconds; those that overlap share their time."""
    found: list[tuple[float, float]] = []
    group: list[tuple[float, float]] = []

    def close() -> None:
        if len(group) == 1:
            found.extend(group)
        elif group:
            low, high = group[0][0], max(last for _, last in group)
            step = (high - low) / len(group)
            found.extend((low + step * n, low + step * (n + 1)) for n in range(len(group)))

    for one in bins:
        first = max(_seconds(one.from_), start)
        last = min(max(_seconds(one.to), first), end)
        if group and (one.from_ is None or first >= max(last for _, last in group)):
            close()
            group = []
        group.append((first, last))
    close()
    return found


def _short(number: float) -> float:
    """Return a number without digits that nobody sees."""
    rounded = round(number, 1)
    return int(rounded) if rounded == int(rounded) else rounded


def _kind(lane: Lane, one: Bin, *, is_exact: bool) -> str:
    if not one.built:
        return "covered-0"
    if not is_exact and lane.kind != "base":
        return f"covered-{_SOME}"
    if one.built == one.segments:
        return f"covered-{_STEPS}"
    share = one.covered / one.rows if one.rows else 0
    return f"covered-{min(max(int(share * _STEPS), 1), _STEPS - 1)}"


def _marks(lane: Lane, one: Bin) -> tuple[str, ...]:
    if lane.kind == "base":
        return ("deleted",) if one.deleted else ()
    return tuple(name for name in ("failed", "skipped") if getattr(one, name))


def bin_title(lane: Lane, one: Bin, *, is_exact: bool) -> str:
    """Return a bin's numbers in words."""
    text = f"{one.from_ or 'without a time'}: "
    if lane.kind == "base":
        text += f"{one.rows:,} rows in {one.segments:,} segments"
        return text + (f", {one.deleted:,} deleted" if one.deleted else "")
    if not is_exact:
        known = "at least one segment has it or says why not" if one.built else "none has it"
        return f"{text}{known}, of {one.segments:,} segments"
    text += f"{one.covered:,} of {one.rows:,} rows"
    counts = [
        f"{name} in {count:,}"
        for name in ("missing", "skipped", "failed")
        if (count := getattr(one, name))
    ]
    return ", ".join([text, *counts])


def _seconds(text: str | None) -> float:
    if text is None:
        return 0.0
    if text.startswith("10000"):
        return datetime.fromisoformat("9999-12-31T23:59:59+00:00").timestamp() + 1
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class ZoomLink(NamedTuple):
    """A link, and the key that follows it, to another window, None for all times."""

    label: str
    key: str
    from_: str | None
    to: str | None


def zoom_links(shown: Timeline, first_time: str | None, last_time: str | None) -> list[ZoomLink]:
    """Return the windows around the one that is shown, within all times of the table."""
    if shown.from_ is None or shown.to is None or first_time is None or last_time is None:
        return []
    (start, end), (first, last) = _window(shown.from_, shown.to), _window(first_time, last_time)
    length = end - start
    found = []
    for label, key, low, high in (
        ("earlier", "ArrowLeft", start - length // 2, end - length // 2),
        ("later", "ArrowRight", start + length // 2, end + length // 2),
        ("closer", "+", start + length // 4, end - length // 4),
        ("wider", "-", start - length // 2, end + length // 2),
    ):
        if high <= first or low >= last or high - low < _LEAST_WINDOW:
            continue
        if key == "-" and start <= first and end >= last:
            continue
        bounds = max(low, MIN_MICROS), min(high, MAX_MICROS - 1)
        found.append(ZoomLink(label, key, *map(micros_to_iso, bounds)))
    found.append(ZoomLink("all times", "0", None, None))
    return found


def _window(start: str, end: str) -> tuple[int, int]:
    found = Interval.parse(f"{start}/{end}")
    return found.start_us, found.end_us
