"""The record of a query: its text, the sources of its answer, and how long that took."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, get_args

import msgspec

from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.memory.cache import KEPT
from projseg.memory.door import Door
from projseg.reader.plan.query_plan import QueryPlan
from projseg.reader.plan_figures import BASE_ROWS, plan_figures, planned_reads
from projseg.reader.query_log.query_text import ShownLiterals, hidden_content, query_content
from projseg.table_layer.metadata.snapshot import Snapshot

FORM: Final = 1
_LOGGER: Final = logging.getLogger("projseg.query_log")
LITERALS_SETTING: Final = "PROJSEG_QUERY_LOG_LITERALS"
_COARSEST_FIRST: Final = (
    "year", "quarter", "month", "week", "day", "eight_hour", "six_hour", "hour", "thirty_minute",
    "fifteen_minute", "ten_minute", "five_minute", "minute", "second",
)  # fmt: skip


class QueryEvent(msgspec.Struct):
    """One question and its answer, as far as the thread that asks knows it.

    Without a plan the question did not bind. `answered` is `done` or `failed`; of Spark `planted`,
    `shared`, `scanned` or `not`, and `texts` has the texts that Spark wrote where it is not planned
    here. `is_cached` says that all data for the answer was in memory; `at` is in seconds since 1970
    at its end.
    """

    snapshot: Snapshot
    plan: QueryPlan | None
    door: Door
    answered: str = "done"
    planned_ms: float | None = None
    answered_ms: float | None = None
    returned: int | None = None
    is_cached: bool | None = None
    texts: Mapping[str, Any] | None = None
    code: str | None = None
    at: float = msgspec.field(default_factory=time.time)

    def record(self, shown: ShownLiterals | None = None) -> dict[str, Any]:
        """Return its record, with the constants that the caller or the setting shows."""
        snapshot = self.snapshot
        described = (
            {"query": hidden_content(self.texts) if self.texts else None}
            if self.plan is None
            else _described(self.plan, shown or _shown_literals())
        )
        return {
            "projseg_log": FORM,
            "time": datetime.fromtimestamp(self.at, UTC).isoformat(timespec="microseconds"),
            "location": snapshot.storage.location,
            "table_id": snapshot.properties.table_id,
            "version": snapshot.version,
            "door": self.door,
            "answered": self.answered,
            "code": self.code,
            **described,
            "returned": self.returned,
            "planned_ms": _rounded(self.planned_ms),
            "answered_ms": _rounded(self.answered_ms),
            "cached": self.is_cached,
        }


def miss_count() -> int:
    """Return how often a look-up in the process's cache failed."""
    return KEPT.statistics().miss_count


def _rounded(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, 3)


def _described(plan: QueryPlan, shown: ShownLiterals) -> dict[str, Any]:
    """Return the part of a record about a plan; it is made once for each plan."""
    kept = vars(plan).get("_logged")
    if kept is not None and kept[0] == shown:
        found: dict[str, Any] = kept[1]
        return found
    reads = list(planned_reads(plan))
    figures = plan_figures(plan, reads)
    sources = Counter(read.source or BASE_ROWS for read in reads)
    refused = {f"view:{one.name}": one.reason for one in plan.wider if one.reason is not None}
    for read in reads:
        refused |= dict(read.rejected) if read.source is None else {}
    query = plan.query
    found = {
        "query": query_content(query, shown),
        "interval": _interval(query),
        "sources": dict(sources),
        "reasons": {name: str(reason.code) for name, reason in refused.items() if reason},
        "indexes": sorted({use.index for use in plan.indexes if use.used}),
        "pruned": plan.pruned_count,
        "rows": figures.rows,
        "bytes": figures.bytes,
    }
    vars(plan)["_logged"] = (shown, found)
    return found


def _interval(query: QuerySpec) -> dict[str, Any] | None:
    interval = query.interval
    if interval is None or interval.is_empty:
        return None
    ends = [end for end in (interval.start_us, interval.end_us) if MIN_MICROS < end < MAX_MICROS]
    length = (interval.end_us - interval.start_us) / 1e6 if len(ends) > 1 else None
    zone = query.context.zone
    return {"aligned": _aligned(ends, zone), "length": length, "zone": zone}


def _aligned(ends: list[int], zone: str) -> str:
    for name in _COARSEST_FIRST:
        granularity = Granularity.parse(name, zone)
        if all(map(granularity.is_boundary, ends)):
            return name
    return "none"


def _shown_literals() -> ShownLiterals:
    text = os.environ.get(LITERALS_SETTING, "none")
    if text in get_args(ShownLiterals):
        return text  # type: ignore[return-value]
    _warn_of_literals(text)
    return "none"


@cache
def _warn_of_literals(text: str) -> None:
    words = ", ".join(get_args(ShownLiterals))
    _LOGGER.warning("%s is %.40r, so it is none; the words are %s", LITERALS_SETTING, text, words)
