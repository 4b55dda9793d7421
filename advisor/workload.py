"""The queries of a log as shapes: queries that are equal but for values and their interval."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from projseg.reader.query_log.read_log import LoggedQuery

SHAPES_MAX: Final = 500
INDEX_USE: Final = "index:"
"""Stands before the name of an index among sources."""
VIEW_USE: Final = "view:"
"""Stands before the name of a view among sources, as a log has it."""
_TIMES_MAX: Final = 512  # of a shape, by which its median is known


class Shape(msgspec.Struct, frozen=True):
    """Queries that are equal but for values and the place of their interval.

    The id is the same in every log, `query` as `Query.to_json` writes it, with `?` for values or
    with values. `median_ms` is of answers that read no file, if there are any. `aligned` is the
    granularity, in `zone`, on which the interval's ends lie, empty without one; `length` is its
    seconds, in the median, None if it has no end; `returned` has rows, in the median.
    """

    id: str
    query: dict[str, Any]
    count: int
    median_ms: float | None = None
    aligned: str = ""
    zone: str = "UTC"
    length: float | None = None
    returned: float = 0.0


class SourceUse(msgspec.Struct):
    """How often a source answered for segments, and when last."""

    count: int = 0
    last: datetime | None = None


class LoggedWorkload(msgspec.Struct, kw_only=True):
    """The queries of a table in a log, by shapes, those with the most time first.

    `query_count` were answered, `hinted_count` chose their sources themselves; torn lines are no
    records. Other tables are by location. `uses` is by source: views begin with `view:`, indexes
    with `index:`. If it is weighted, there is no log, and the user gave the counts as weights.
    """

    shapes: list[Shape]
    query_count: int = 0
    hinted_count: int = 0
    failed_count: int = 0
    torn_count: int = 0
    first: datetime | None = None
    last: datetime | None = None
    doors: dict[str, int] = {}
    other_tables: dict[str, int] = {}
    uses: dict[str, SourceUse] = {}
    is_weighted: bool = False

    @property
    def days(self) -> float:
        """Days between the first query and the last."""
        if self.first is None or self.last is None:
            return 0.0
        return (self.last - self.first).total_seconds() / 86_400


class _Gathered:
    """Queries of one shape, as they are read."""

    def __init__(self, query: dict[str, Any]) -> None:
        self.query = query
        self.count = 0
        self.warm: list[float] = []
        self.all: list[float] = []
        self.lengths: list[float] = []
        self.returned: list[float] = []
        self._draw = random.Random(0)  # noqa: S311 - a sample of times

    def add(self, one: LoggedQuery) -> None:
        self.count += 1
        if one.answered_ms is not None:
            self._keep(self.all, one.answered_ms)
            if one.cached:
                self._keep(self.warm, one.answered_ms)
        if one.interval is not None and one.interval.length is not None:
            self._keep(self.lengths, one.interval.length)
        if one.returned is not None:
            self._keep(self.returned, float(one.returned))

    def _keep(self, several: list[float], value: float) -> None:
        if len(several) < _TIMES_MAX:
            several.append(value)
        elif (place := self._draw.randrange(self.count)) < _TIMES_MAX:
            several[place] = value


def gather(records: Iterable[LoggedQuery], table_id: str) -> LoggedWorkload:
    """Return the workload of one table."""
    found: dict[tuple[str, str, str], _Gathered] = {}
    doors: Counter[str] = Counter()
    others: Counter[str] = Counter()
    work = LoggedWorkload(shapes=[], uses={})
    for one in records:
        if one.table_id != table_id:
            others[one.location] += 1
            continue
        moment = one.time if one.time.tzinfo else one.time.replace(tzinfo=UTC)
        work.first = min(work.first or moment, moment)
        work.last = max(work.last or moment, moment)
        doors[one.door] += 1
        for name in (*one.sources, *(f"{INDEX_USE}{name}" for name in one.indexes)):
            use = work.uses.setdefault(name, SourceUse())
            use.count += 1
            use.last = max(use.last or moment, moment)
        if one.answered in ("failed", "not") or not one.query:
            work.failed_count += 1
            continue
        if one.query.get("context"):
            work.hinted_count += 1
            continue
        work.query_count += 1
        text = msgspec.json.encode(one.query, order="sorted").decode()
        interval = one.interval
        key = (text, "", "UTC") if interval is None else (text, interval.aligned, interval.zone)
        if key not in found:
            found[key] = _Gathered(one.query)
        found[key].add(one)
    work.doors, work.other_tables = dict(sorted(doors.items())), dict(sorted(others.items()))
    shapes = [_shape(key, one) for key, one in found.items()]
    work.shapes = sorted(shapes, key=lambda one: (-one.count * (one.median_ms or 0.0), one.id))
    return work


def _shape(key: tuple[str, str, str], found: _Gathered) -> Shape:
    return Shape(
        shape_id(*key),
        found.query,
        found.count,
        _median(found.warm or found.all),
        key[1],
        key[2],
        _median(found.lengths),
        _median(found.returned) or 0.0,
    )


def shape_id(*parts: str) -> str:
    """Return the name of a shape, which is made of what all its queries have."""
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=6).hexdigest()


def _median(values: list[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None
