"""Queries of the page: they run in processes of their own, and answers are kept for a while."""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from projseg.doors.plain_values import plain_value
from projseg.errors import ProjsegError, QueryTimeoutError, place_in
from projseg.memory.deadline import Deadline, under
from projseg.memory.door import through
from projseg.query_pool.pool import QueryPool
from projseg.table import Table
from projseg.table.table_version import TableVersion, reader_of

if TYPE_CHECKING:
    from projseg.advisor.advice import Advice

QUERIES_RUNNING_MAX: Final = 2
QUERIES_WAITING_MAX: Final = 16
_KEPT_BYTES: Final = 64 << 20
_KEPT_MAX: Final = 200
_POOLS_MAX: Final = 3
_SELECTS: Final = ("SELECT", "WITH")
TEXT_COLUMN: Final = "plan"
"""The only column of an answer that is a text, as EXPLAIN names it."""

State: TypeAlias = Literal["running", "done", "failed", "cancelled", "timeout"]


class TooManyQueriesError(Exception):
    """So many run and wait that no other is taken."""


class Asked(NamedTuple):
    """A statement, change or request for advice, and the table it is for.

    `sql` is empty unless it is a statement, before which `prefix` is put; `budget` is None unless
    it is advice. It may take as long as any statement if `seconds` is None. `version` is the one
    that is read, if that is fixed before; `asked_version` the one in the request, None for the
    newest.
    """

    table: str
    sql: str = ""
    seconds: float | None = None
    prefix: str = ""
    version: str | None = None
    asked_version: str | None = None
    budget: str | None = None


class Answer:
    """A request and its result, which may take some seconds and keeps at most `max_rows`."""

    def __init__(self, asked: Asked, seconds: float, max_rows: int) -> None:
        self.id = secrets.token_hex(16)
        self.asked, self.seconds, self.max_rows = asked, seconds, max_rows
        self.state: State = "running"
        self.rows: pa.Table | None = None
        self.row_count = 0
        self.version = asked.version
        self.milliseconds: float | None = None
        self.error: ProjsegError | None = None
        self.advice: Advice | None = None
        self.progress: tuple[int, int] | None = None
        self.future: Future[pa.Table] | None = None
        self.stop: Callable[[], None] = lambda: None
        self._start = time.monotonic()
        self.over = threading.Event()

    @property
    def byte_count(self) -> int:
        """The bytes of the rows that are kept."""
        return 0 if self.rows is None else int(self.rows.nbytes)

    @property
    def place(self) -> int | None:
        """The place in the statement that the error names."""
        prefix, sql = self.asked.prefix, self.asked.sql
        found = None if self.error is None else place_in(prefix + sql, self.error)
        return None if found is None else max(found - len(prefix), 0)

    def error_record(self) -> dict[str, Any] | None:
        """Return the error as code, message, and the place in the statement or None."""
        if self.error is None:
            return None
        return {"code": self.error.code, "message": self.error.message, "place": self.place}

    def note_progress(self, done: int, count: int) -> None:
        """Keep how much of the work is done."""
        self.progress = done, count

    def finish(self, future: Future[pa.Table]) -> None:
        """Take over what a future has."""
        self.milliseconds = (time.monotonic() - self._start) * 1000
        try:
            rows = future.result()
            metadata = rows.schema.metadata or {}
            self.version = metadata.get(b"projseg.version", b"").decode() or self.version
            self.row_count, self.rows = rows.num_rows, _bounded(rows.slice(0, self.max_rows))
            self.state = "done"
        except CancelledError:
            self.state = "cancelled"
        except QueryTimeoutError as error:
            self.state, self.error = "timeout", error
        except ProjsegError as error:
            self.state, self.error = "failed", error
        except Exception as error:  # noqa: BLE001 - whatever it is, the page shows it
            self.state = "failed"
            self.error = ProjsegError("PROJSEG_INTERNAL", f"{type(error).__name__}: {error}")


def _bounded(rows: pa.Table) -> pa.Table:
    """Return as many of the first rows as may be kept."""
    while rows.nbytes > _KEPT_BYTES:
        rows = rows.slice(0, rows.num_rows // 2)
    return _copied(rows)


def _copied(rows: pa.Table) -> pa.Table:
    """Return a copy of rows that were a slice, to free the memory of the other rows."""
    return (
        rows
        if rows.nbytes * 2 >= rows.get_total_buffer_size()
        else rows.take(pa.array(range(rows.num_rows), pa.int64()))
    )


class Answers:
    """Runs statements, few at a time, and keeps the latest answers.

    A statement takes at most `seconds` seconds, and at most `max_rows` rows of an answer are kept.
    """

    def __init__(self, seconds: float, max_rows: int) -> None:
        self._seconds, self._max_rows = seconds, max_rows
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._pools: OrderedDict[str, QueryPool] = OrderedDict()
        self._threads: ThreadPoolExecutor | None = None

    def ask(self, asked: Asked, table: TableVersion) -> Answer:
        """Begin to answer a statement over a table; TooManyQueriesError if too many wait already.

        Processes read the newest version, and this one reads all others.
        """
        # What a definition hides is known in this process alone.
        is_select = not asked.prefix and asked.sql.lstrip()[:6].upper().startswith(_SELECTS)
        if not isinstance(table, Table) or reader_of(table).columns_of is not None or not is_select:
            asked = asked._replace(version=str(table.version))
            return self.begin(asked, lambda _: table.sql(asked.prefix + asked.sql))
        with self._lock:
            answer = self._new(asked)
            pool = self._pool(asked.table, table)
            with through("page"):
                future = pool.submit(asked.sql, timeout=answer.seconds)
            answer.stop = lambda: pool.stop(future)
        return self._followed(answer, future)

    def begin(self, asked: Asked, work: Callable[[Answer], pa.Table]) -> Answer:
        """Begin to answer by a function, in a thread of this process. Raises what `ask` raises."""
        stopped = threading.Event()
        with self._lock:
            answer = self._new(asked)
            self._threads = self._threads or ThreadPoolExecutor(QUERIES_RUNNING_MAX, "projseg-page")
            future = self._threads.submit(_answered, work, answer, stopped)

        def stop() -> None:
            stopped.set()
            future.cancel()

        answer.stop = stop
        return self._followed(answer, future)

    def _followed(self, answer: Answer, future: Future[pa.Table]) -> Answer:
        answer.future = future
        future.add_done_callback(lambda one: self._finish(answer, one))
        return answer

    def _finish(self, answer: Answer, future: Future[pa.Table]) -> None:
        answer.finish(future)
        with self._lock:
            if answer.id in self._answers:
                self._answers.move_to_end(answer.id)
            self._evict()
        answer.over.set()

    def _new(self, asked: Asked) -> Answer:
        running = [one for one in self._answers.values() if one.state == "running"]
        if len(running) >= QUERIES_RUNNING_MAX + QUERIES_WAITING_MAX:
            raise TooManyQueriesError
        seconds = asked.seconds or self._seconds
        seconds = min(seconds, self._seconds) if asked.sql else seconds
        answer = Answer(asked, seconds, self._max_rows)
        self._answers[answer.id] = answer
        self._evict()
        return answer

    def _pool(self, name: str, table: Table) -> QueryPool:
        """Return the processes that answer statements over a table, at its newest version."""
        pool = self._pools.pop(name, None)
        if pool is None:
            while len(self._pools) >= _POOLS_MAX:
                _, oldest = self._pools.popitem(last=False)
                threading.Thread(target=oldest.close, daemon=True).start()
            pool = QueryPool({name: table}, QUERIES_RUNNING_MAX, start_method="spawn", max_age=0)
        self._pools[name] = pool
        return pool

    def get(self, id_: str, table: str) -> Answer | None:
        """Return an answer that is kept; None if there is none of a table."""
        with self._lock:
            found = self._answers.get(id_)
            return found if found is not None and found.asked.table == table else None

    def latest_advice(self, table: str) -> Answer | None:
        """Return the latest advice for a table, if it is kept."""
        with self._lock:
            found = reversed(self._answers.values())
            return next(
                (one for one in found if one.asked.budget and one.asked.table == table), None
            )

    def cancel(self, answer: Answer) -> None:
        """End the work for an answer."""
        if answer.state == "running":
            with suppress(ProjsegError):
                answer.stop()
            answer.over.wait(5)

    def _evict(self) -> None:
        """Forget the oldest answers that are over, where they are too many or too large."""
        total = sum(one.byte_count for one in self._answers.values())
        for key, one in list(self._answers.items()):
            if total <= _KEPT_BYTES and len(self._answers) <= _KEPT_MAX:
                return
            if one.state != "running":
                total -= one.byte_count
                del self._answers[key]

    def close(self) -> None:
        """End all work; later requests begin anew."""
        with self._lock:
            answers, pools = list(self._answers.values()), list(self._pools.values())
            threads, self._threads = self._threads, None
            self._pools.clear()
        for one in answers:
            if one.state == "running":
                with suppress(ProjsegError):
                    one.stop()
        for pool in pools:
            pool.close()
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)


def _answered(
    work: Callable[[Answer], pa.Table], answer: Answer, stopped: threading.Event
) -> pa.Table:
    """Do some work in this process, until it is stopped or late."""
    end = time.monotonic() + answer.seconds

    def late() -> Exception:
        if stopped.is_set():
            return CancelledError()
        return QueryTimeoutError(
            "PROJSEG_QUERY_TIMEOUT",
            f"a question had no answer after {answer.seconds:g} seconds; ask for less",
        )

    def clock() -> float:
        return math.inf if stopped.is_set() or time.monotonic() > end else 0.0

    with through("page"), under(Deadline(1, late, clock=clock)):
        return work(answer)


def waited(answer: Answer, seconds: float) -> None:
    """Wait for an answer, for at most `seconds` seconds."""
    if answer.future is not None:
        wait([answer.future], timeout=seconds)
        if answer.future.done():
            answer.over.wait(1)


def plain_rows(rows: pa.Table, count: int) -> list[list[Any]]:
    """Return the first rows as lists of values."""
    if not rows.num_columns:
        return []
    part = rows.slice(0, count)
    columns = [column.to_pylist(maps_as_pydicts="lossy") for column in part.columns]
    return [[plain_value(value) for value in row] for row in zip(*columns, strict=True)]
