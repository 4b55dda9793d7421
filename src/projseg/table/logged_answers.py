"""What metrics and the query log are given of each question: its plan, times and rows."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from projseg.errors import ProjsegError
from projseg.memory.cache import KEPT
from projseg.memory.door import Door, door_of_question
from projseg.memory.forks import late_import
from projseg.memory.metrics import count_question
from projseg.reader.plan.query_plan import QueryPlan
from projseg.reader.plan_figures import read_figures
from projseg.reader.query_log.log_files import query_log
from projseg.table_layer.metadata.snapshot import Snapshot

if TYPE_CHECKING:
    from projseg.reader.query_log.query_record import QueryEvent

_Planner = TypeVar("_Planner", bound=Callable[..., QueryPlan])
_of_thread: Final = threading.local()
_LOGGED: Final = "_projseg_logged"


def timed(plan: _Planner) -> _Planner:
    """Return a function that plans and keeps how long it took, for the answer in this thread."""

    @functools.wraps(plan)
    def timing(*arguments: Any, **named: Any) -> QueryPlan:
        start = time.perf_counter()
        found = plan(*arguments, **named)
        _of_thread.planned_ms = (time.perf_counter() - start) * 1000
        return found

    return timing  # type: ignore[return-value]  # the same arguments


def logged_answer(snapshot: Snapshot, plan: QueryPlan, answer: Callable[[], pa.Table]) -> pa.Table:
    """Return the answer of a plan; count and log it, or that there is none."""
    log, door = query_log(), door_of_question()
    misses = 0 if log is None else KEPT.statistics().miss_count
    start = time.perf_counter()
    try:
        found = answer()
    except Exception as error:
        setattr(error, _LOGGED, True)
        _count(door, snapshot, time.perf_counter() - start, None, plan, error)
        if log is not None:
            event = _event(snapshot, plan, door)
            event.answered, event.code = "failed", getattr(error, "code", None)
            log.put(event.record)
        raise
    seconds = time.perf_counter() - start
    _count(door, snapshot, seconds, found.num_rows, plan)
    if log is not None:
        event = _event(snapshot, plan, door)
        event.answered_ms = seconds * 1000
        event.returned = len(found)
        event.is_cached = KEPT.statistics().miss_count == misses
        log.put(event.record)
    return found


def logged_batches(
    snapshot: Snapshot,
    plan: QueryPlan,
    batches: Iterable[pa.RecordBatch],
    door: Door | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a scan; count and log the scan when it ends or fails."""
    log, door = query_log(), door or door_of_question()
    taken, row_count, failure = 0.0, 0, None
    try:
        remaining = iter(batches)
        while True:
            start = time.perf_counter()
            batch = next(remaining, None)
            taken += time.perf_counter() - start
            if batch is None:
                break
            row_count += batch.num_rows
            yield batch
    except Exception as error:
        failure = error
        raise
    finally:  # also where whoever reads wants no more
        _count(door, snapshot, taken, None if failure else row_count, plan, failure)
        if log is not None:
            event = _event(snapshot, plan, door)
            event.answered = "done" if failure is None else "failed"
            event.code = getattr(failure, "code", None)
            event.answered_ms, event.returned = taken * 1000, row_count
            log.put(event.record)


def _count(
    door: Door,
    snapshot: Snapshot,
    seconds: float,
    returned: int | None,
    plan: QueryPlan,
    error: Exception | None = None,
) -> None:
    """Count a question that was planned in this thread."""
    seconds += getattr(_of_thread, "planned_ms", 0.0) / 1000
    location = snapshot.storage.location
    count_question(door, location, seconds, returned, read_figures(plan), error)


class logging_failures:
    """Within the block, count and log an error of a question that has no plan."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, ProjsegError) or hasattr(error, _LOGGED):
            return
        setattr(error, _LOGGED, True)
        log, door = query_log(), door_of_question()
        count_question(door, self._snapshot.storage.location, 0.0, None, error=error)
        if log is not None:
            event = _event(self._snapshot, None, door)
            event.answered, event.code = "failed", error.code
            log.put(event.record)


def _event(snapshot: Snapshot, plan: QueryPlan | None, door: Door) -> QueryEvent:
    # Imported here, so that a process without a log starts without it.
    with late_import:
        from projseg.reader.query_log.query_record import QueryEvent

    planned_ms = getattr(_of_thread, "planned_ms", None) if plan is not None else None
    return QueryEvent(snapshot, plan, door, planned_ms=planned_ms)
