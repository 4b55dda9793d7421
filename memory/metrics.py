"""What this process answered, read and committed, counted for a monitor that asks now and then.

Names and labels are as OpenMetrics has them. No label is a table's name or a value: so their number
is bounded, and a monitor may see less than a reader of the tables.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Final, Literal, NamedTuple, Self, TypeAlias

from projseg.errors import CommitConflictError, CommitStateUnknownError
from projseg.memory.cache import KEPT
from projseg.memory.door import Door
from projseg.memory.forks import hold_while_forking
from projseg.memory.tracing import is_traced, trace_operation

SourceKind: TypeAlias = Literal["base", "projection", "view", "metadata"]

_BOUNDS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
_DURATION: Final = "projseg_query_duration_seconds"
_COUNTERS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "projseg_queries": (("door", "outcome"), "Questions, by the door by which they came."),
    "projseg_rows_returned": (("door",), "Rows of answers."),
    "projseg_sources": (("kind",), "Sources of segments that answers were read from."),
    "projseg_rows_read": ((), "Rows of these sources, as explain counts them, cached or not."),
    "projseg_bytes_read": ((), "Stored bytes of the columns read, cached or not."),
    "projseg_commits": (("operation", "outcome"), "Commits, by what they do."),
    "projseg_commit_conflicts": ((), "Commits refused because of another commit."),
    "projseg_commit_retries": ((), "Tries of commits after another one was faster."),
}
"""The labels of each family of counters, and what it counts."""


class ReadFigures(NamedTuple):
    """What a question reads, as `explain` counts it: sources of each kind, their rows and bytes."""

    sources: Mapping[SourceKind, int]
    rows: int
    bytes: int


_lock: Final = Lock()
hold_while_forking(_lock)
_counts: Final[defaultdict[tuple[str, ...], int]] = defaultdict(int)
_seconds: Final[defaultdict[Door, float]] = defaultdict(float)
_buckets: Final[defaultdict[Door, list[int]]] = defaultdict(lambda: [0] * (len(_BOUNDS) + 1))


def _forget() -> None:
    for counts in (_counts, _seconds, _buckets):
        counts.clear()


os.register_at_fork(after_in_child=_forget)


def count_question(
    door: Door,
    location: str,
    seconds: float,
    returned: int | None,
    read: ReadFigures | None = None,
    error: BaseException | None = None,
) -> None:
    """Count a question and trace it; one without returned rows failed by `error`.

    There are no figures of reading where another process read, or nothing was.
    """
    if is_traced():
        trace_operation("query", location, seconds, error)
    with _lock:
        _counts["projseg_queries", door, "failed" if returned is None else "done"] += 1
        _seconds[door] += seconds
        _buckets[door][bisect_left(_BOUNDS, seconds)] += 1
        if returned is not None:
            _counts["projseg_rows_returned", door] += returned
        if read is not None:
            _counts["projseg_rows_read",] += read.rows
            _counts["projseg_bytes_read",] += read.bytes
            for kind, count in read.sources.items():
                _counts["projseg_sources", kind] += count


class counted_question:
    """Count a question that another process answers within the block."""

    returned: int | None = None
    """Rows of the answer; None if there is none."""

    def __init__(self, door: Door, location: str) -> None:
        self._door, self._location = door, location

    def __enter__(self) -> Self:
        self._start = time.perf_counter()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        seconds = time.perf_counter() - self._start
        count_question(self._door, self._location, seconds, self.returned, error=error)


@contextmanager
def counted_commit(operation: str, location: str) -> Iterator[None]:
    """Count the commit to a table that the block makes, by how it ends, and trace it."""
    outcome, start, failure = "failed", time.perf_counter(), None
    try:
        yield
        outcome = "done"
    except Exception as error:
        failure = error
        if isinstance(error, CommitConflictError):
            outcome = "conflict"
        elif isinstance(error, CommitStateUnknownError):
            outcome = "unknown"
        raise
    finally:
        with _lock:
            _counts["projseg_commits", operation, outcome] += 1
            _counts["projseg_commit_conflicts",] += outcome == "conflict"
        if is_traced():
            trace_operation(operation, location, time.perf_counter() - start, failure)


def count_retry() -> None:
    """Count another try of a commit."""
    with _lock:
        _counts["projseg_commit_retries",] += 1


def metrics() -> str:
    """Return this process's counters, as a monitor that speaks OpenMetrics reads them.

    Counts begin with the process. They have neither names of tables nor values. Questions of a
    `QueryPool` are counted by the process that asks, without what its workers read.

    Returns
    -------
    str
        OpenMetrics text, of the media type
        `application/openmetrics-text; version=1.0.0; charset=utf-8`.
    """
    with _lock:
        counts, seconds = dict(_counts), dict(_seconds)
        buckets = {door: list(found) for door, found in _buckets.items()}
    return "\n".join([*_counter_lines(counts), *_duration_lines(seconds, buckets), *_cache_lines(),
                      "# EOF", ""])  # fmt: skip


def _counter_lines(counts: Mapping[tuple[str, ...], int]) -> Iterator[str]:
    for family, (labels, meaning) in _COUNTERS.items():
        yield from _head(family, "counter", meaning)
        found = {key[1:]: count for key, count in counts.items() if key[0] == family}
        for values in sorted(found) or ([] if labels else [()]):
            named = zip(labels, values, strict=True)
            yield f"{family}_total{_labelled(named)} {found.get(values, 0)}"


def _duration_lines(
    seconds: Mapping[Door, float], buckets: Mapping[Door, list[int]]
) -> Iterator[str]:
    yield from _head(_DURATION, "histogram", "Seconds from question to answer.")
    yield f"# UNIT {_DURATION} seconds"
    for door in sorted(buckets):
        total = 0
        for bound, count in zip([*map(str, _BOUNDS), "+Inf"], buckets[door], strict=True):
            total += count
            yield f"{_DURATION}_bucket{_labelled([('door', door), ('le', bound)])} {total}"
        yield f"{_DURATION}_count{_labelled([('door', door)])} {total}"
        yield f"{_DURATION}_sum{_labelled([('door', door)])} {seconds[door]:.6f}"


def _cache_lines() -> Iterator[str]:
    found = KEPT.statistics()
    yield from _head("projseg_cache_bytes", "gauge", "Bytes of the cache, by kind of entry.")
    for kind, count in sorted(found.bytes_by_kind.items()):
        yield f"projseg_cache_bytes{_labelled([('kind', kind)])} {count}"
    for name, count, meaning in (
        ("hits", found.hit_count, "Look-ups that found an entry."),
        ("misses", found.miss_count, "Look-ups that found none."),
        ("evictions", found.eviction_count, "Entries that made room for others."),
    ):
        yield from _head(f"projseg_cache_{name}", "counter", meaning)
        yield f"projseg_cache_{name}_total {count}"


def _head(family: str, kind: str, meaning: str) -> tuple[str, str]:
    return f"# TYPE {family} {kind}", f"# HELP {family} {meaning}"


def _labelled(labels: Iterable[tuple[str, str]]) -> str:
    shown = ",".join(f'{name}="{value}"' for name, value in labels)
    return f"{{{shown}}}" if shown else ""
