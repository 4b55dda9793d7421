"""The queries of a log by their shapes: how often, how long, from what, and why not from less."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from statistics import median
from typing import Any, Final

import msgspec

from projseg.errors import InvalidInputError
from projseg.reader.query_log.query_text import query_line
from projseg.reader.query_log.read_log import LoggedQuery, LogReader

SORTS: Final = ("time", "count", "slowest", "newest")
_SHAPES_MAX: Final = 100
_RECORDS_MAX: Final = 500_000
_SECONDS: Final = 5.0
_LOOK_EVERY: Final = 1000  # records between looks at the clock


class ShapeLine(msgspec.Struct):
    """Queries that are equal but for values, as text and as a statement over t with question marks.

    `table` is the last part of its location. Times are of planning and answering: the sum in
    seconds, and of one query in milliseconds. `sources` counts segments by source; `reasons` counts
    queries by source and reason why it did not serve.
    """

    query: str
    sql: str
    table: str
    count: int
    failed: int
    seconds: float
    median_ms: float
    slowest_ms: float
    newest: str
    doors: dict[str, int]
    sources: dict[str, int]
    reasons: dict[str, int]


class QueriesRecord(msgspec.Struct):
    """The hundred shapes of a log that take most, of one table or of all.

    `since` is how old the oldest record is; `sort` is time, count, slowest or newest; if it is not
    whole, only part of the log was read.
    """

    name: str | None
    log: str
    since: str
    sort: str
    records: int
    shapes_count: int
    is_whole: bool
    shapes: list[ShapeLine]


class Use(msgspec.Struct):
    """How many queries of a log used a source, when the last did, and why others did not."""

    queries: int = 0
    last: str | None = None
    rejections: Counter[str] = msgspec.field(default_factory=Counter)


def queries_record(
    name: str | None, table_id: str | None, log: str, since: str, sort: str
) -> QueriesRecord:
    """Return the shapes of a log's queries, of all tables without a name; see `QueriesRecord`.

    Raises InvalidInputError: PROJSEG_BAD_LOG, or for `since` PROJSEG_BAD_ARGUMENT or
    PROJSEG_BAD_EXPRESSION.
    """
    if sort not in SORTS:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"sort is {sort!r}; give one of {', '.join(SORTS)}"
        )
    found: dict[tuple[str, str], list[LoggedQuery]] = {}
    records, is_whole = 0, False
    for one, is_end in _bounded(log, since):
        is_whole = is_end
        if one is not None and (table_id is None or one.table_id == table_id):
            records += 1
            query = "a query that did not bind" if one.query is None else query_line(one.query)
            found.setdefault((one.location, query), []).append(one)
    lines = [_line(query, place, group) for (place, query), group in found.items()]
    lines.sort(key=_key_of(sort), reverse=True)
    shown = lines[:_SHAPES_MAX]
    return QueriesRecord(name, log, since, sort, records, len(lines), is_whole, shown)


def use_of_sources(table_id: str, log: str, since: str) -> dict[str, Use]:
    """Return how often each source of a table was used, by the names that the log has for them."""
    found: dict[str, Use] = {}
    for one, _ in _bounded(log, since):
        if one is None or one.table_id != table_id:
            continue
        for source in (*one.sources, *(f"index:{name}" for name in one.indexes)):
            use = found.setdefault(source, Use())
            use.queries, use.last = use.queries + 1, max(use.last or "", _iso(one))
        for source, code in one.reasons.items():
            found.setdefault(source, Use()).rejections[code] += 1
    return found


def _bounded(log: str, since: str) -> Iterator[tuple[LoggedQuery | None, bool]]:
    """Yield records, and at last whether all were read; it stops when that takes too long."""
    end = time.monotonic() + _SECONDS
    for number, one in enumerate(LogReader(log, since)):
        if number >= _RECORDS_MAX or (number % _LOOK_EVERY == 0 and time.monotonic() > end):
            yield None, False
            return
        yield one, False
    yield None, True


def _line(query: str, location: str, group: list[LoggedQuery]) -> ShapeLine:
    took = [(one.planned_ms or 0) + (one.answered_ms or 0) for one in group]
    sources: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for one in group:
        sources.update(one.sources)
        reasons.update(f"{source}: {code}" for source, code in one.reasons.items())
    content = group[0].query
    return ShapeLine(
        query,
        "" if content is None else query_line(content, "t"),
        location.rstrip("/").rpartition("/")[2],
        len(group),
        sum(one.answered == "failed" for one in group),
        sum(took) / 1000,
        median(took),
        max(took),
        max(map(_iso, group)),
        dict(Counter(one.door for one in group)),
        dict(sources),
        dict(reasons),
    )


def _key_of(sort: str) -> Any:
    return {
        "time": lambda one: one.seconds,
        "count": lambda one: one.count,
        "slowest": lambda one: one.slowest_ms,
        "newest": lambda one: one.newest,
    }[sort]


def _iso(one: LoggedQuery) -> str:
    return one.time.isoformat(timespec="seconds").replace("+00:00", "Z")
