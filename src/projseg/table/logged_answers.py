"""What the query log is given of each question: its plan or its texts, times and rows."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from projseg.errors import ProjsegError
from projseg.memory.cache import KEPT
from projseg.memory.door import Door, door_of_question
from projseg.memory.forks import late_import
from projseg.reader.plan.query_plan import QueryPlan
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
    """Return the answer of a plan; log it, or that there is none."""
    log = query_log()
    if log is None:
        return answer()
    event = _event(snapshot, plan, door_of_question())
    misses, start = KEPT.statistics().miss_count, time.perf_counter()
    try:
        found = answer()
    except Exception as error:
        event.answered = "failed"
        setattr(error, _LOGGED, True)
        log.put(event.record)
        raise
    event.answered_ms = (time.perf_counter() - start) * 1000
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
    """Yield the batches of a scan; log it when it ends, however it does."""
    log = query_log()
    if log is None:
        yield from batches
        return
    event = _event(snapshot, plan, door or door_of_question())
    event.answered, taken, row_count = "failed", 0.0, 0
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
        event.answered = "done"
    except GeneratorExit:
        event.answered = "done"  # whoever reads wants no more
        raise
    finally:
        event.answered_ms, event.returned = taken * 1000, row_count
        log.put(event.record)


class logging_failures:
    """Within the block, log an error of a question that has no plan.

    Parameters
    ----------
    snapshot : Snapshot
        The version that is asked.
    texts : callable
        Returns the texts of the question by their names.
    """

    __slots__ = ("_snapshot", "_texts")

    def __init__(self, snapshot: Snapshot, texts: Callable[[], Mapping[str, Any]]) -> None:
        self._snapshot, self._texts = snapshot, texts

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, ProjsegError) or hasattr(error, _LOGGED):
            return
        log = query_log()
        if log is not None:
            setattr(error, _LOGGED, True)
            event = _event(self._snapshot, None, door_of_question())
            event.answered, event.texts = "failed", self._texts()
            log.put(event.record)


def _event(snapshot: Snapshot, plan: QueryPlan | None, door: Door) -> QueryEvent:
    # Imported here, so that a process without a log starts without it.
    with late_import:
        from projseg.reader.query_log.query_record import QueryEvent

    planned_ms = getattr(_of_thread, "planned_ms", None) if plan is not None else None
    return QueryEvent(snapshot, plan, door, planned_ms=planned_ms)
