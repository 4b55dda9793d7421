"""`QueryPool`: processes that answer queries of tables side by side."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, Final, Self, TypeAlias, Unpack

import pyarrow as pa

from projseg.algebra.expressions.sql_parameters import ArgumentsLike
from projseg.algebra.query.query_parts import QueryParts, statement_options, with_query_parts
from projseg.algebra.query.request import Expressions, Query
from projseg.algebra.query.statement_words import is_select
from projseg.errors import InvalidInputError, QueryTimeoutError, WorkerError, did_you_mean
from projseg.memory.metrics import counted_question
from projseg.query_pool.fork_server import ForkServer
from projseg.query_pool.messages import TableQuestion, VersionName, rows_of
from projseg.query_pool.queue import QueuedQuestion, RequestQueue, Slot
from projseg.reader.query_log.log_files import query_log
from projseg.table import Table
from projseg.table.table_state import check_max_age
from projseg.table.table_version import reader_of, state_of

TableLike: TypeAlias = Table | str | os.PathLike[str]

WORKERS_MAX: Final = 256
_TRIES: Final = 2
_SECONDS_TO_END: Final = 1  # from the end of a worker's channel to its own
_THREAD_NAME: Final = "projseg-pool"


class QueryPool:
    """Processes that answer queries of one or more tables side by side, for many threads.

    One process computes with several threads, but plans and parses with one at a time. A pool's
    workers plan side by side, too: many small questions at once are answered by as many processors.
    The pool and all its workers read the version that a table's object is at; `refresh` moves the
    object to the newest version.

    Parameters
    ----------
    tables : Table, str or path, or mapping of names to these
        The tables that the pool answers for. The workers share the tables' data in this process's
        cache, so run a query on a table before you make a pool of it.
    workers : int or None
        The number of processes; None means one for each processor.
    threads : int or None
        The number of threads of each query whose context sets none; None means the number of
        processors divided by the number of workers.
    start_method : str or None
        `fork`, or `spawn`, by which workers share no memory. None means `fork` where that is safe,
        which is on Linux and without object stores.
    max_age : float or None
        If the last look is longer ago than this number of seconds, a question first moves its table
        to the newest version. None means the `max_age` with which each table was opened.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_ARGUMENT, and what `Table` raises.
    WorkerError
        PROJSEG_WORKER_NOT_STARTED.
    ProjsegError
        What `Table` raises.
    """

    def __init__(
        self,
        tables: TableLike | Mapping[str, TableLike],
        workers: int | None = None,
        *,
        threads: int | None = None,
        start_method: str | None = None,
        max_age: float | None = None,
    ) -> None:
        check_max_age(max_age)
        self._max_age = max_age
        named = tables if isinstance(tables, Mapping) else {"table": tables}
        if not named:
            raise _bad_argument("a query pool was made of no table; name one")
        self._tables: dict[str, Table] = {
            name: one if isinstance(one, Table) else Table(one) for name, one in named.items()
        }
        for name, one in self._tables.items():
            if reader_of(one).columns_of is not None:
                raise _bad_argument(
                    f"table '{name}' is one of a catalog, whose declared and hidden columns the "
                    "workers of a query pool do not know; ask the catalog's table itself, or make "
                    "a pool of Table(table.location), which has all columns"
                )
        processors = os.cpu_count() or 1
        worker_count = _count("workers", workers, processors)
        thread_count = _count("threads", threads, max(processors // worker_count, 1))
        self._process = os.getpid()
        self._executor: ThreadPoolExecutor | None = None
        self._requests: weakref.WeakKeyDictionary[Future[pa.Table], QueuedQuestion] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.RLock()  # a signal's handler may close the pool
        snapshots = {name: table.snapshot for name, table in self._tables.items()}
        is_copy = _is_forked(self._tables, start_method)
        server = ForkServer(snapshots, worker_count, thread_count, is_copy)
        self._slots = [Slot(server) for _ in range(worker_count)]
        self._queue = RequestQueue(self._slots)
        # Also when it is forgotten, or Python ends.
        self._end_workers = weakref.finalize(self, _end_workers, self._queue, server, os.getpid())
        try:
            for slot in self._slots:
                slot.fill()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self._tables.values()))
        state = "closed" if self._queue.is_closed else f"{len(self._slots)} workers"
        return f"<QueryPool of {names}: {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables by name; a table that was given without a name is called `table`."""
        return dict(self._tables)

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of the workers.

        A process that ended is listed until the pool notices it.
        """
        return [pid for slot in self._slots if (pid := slot.pid) is not None]

    @with_query_parts
    def query(
        self,
        group_by: Expressions | Query = (),
        aggregators: Expressions = (),
        filter: str | None = None,
        *,
        table: str | None = None,
        timeout: float | None = None,
        **parts: Unpack[QueryParts],
    ) -> pa.Table:
        """Return a query's final rows, as `Table.query` does.

        Parameters
        ----------
        group_by, aggregators, filter
            As in `Table.query`.
        interval, having, order_by, limit, columns, context, args, joins
            As in `Table.query`.
        table : str or None
            The name of the pool's table to query; None means the only one.
        timeout : float or None
            The most seconds until the answer, the time of waiting for a free worker included.

        Returns
        -------
        pa.Table
            As in `Table.query`.

        Raises
        ------
        QueryTimeoutError
            PROJSEG_QUERY_TIMEOUT; the worker that was asked is ended and replaced.
        WorkerError
            PROJSEG_WORKER_ENDED if the worker that was asked ended, and so did another one that
            was asked instead; PROJSEG_WORKER_NOT_STARTED.
        InvalidInputError
            PROJSEG_POOL_CLOSED, PROJSEG_FORKED_PROCESS, PROJSEG_BAD_ARGUMENT.
        ProjsegError
            What `Table.query` raises.
        """
        others = {"aggregators": aggregators, "filter": filter, **parts}
        question = TableQuestion.of_thread(self._version(table), "query", group_by, others)
        return self._answer(question, timeout, _deadline(timeout))

    def sql(
        self,
        text: str | Query,
        *,
        context: Mapping[str, Any] | None = None,
        args: ArgumentsLike | None = None,
        table: str | None = None,
        timeout: float | None = None,
    ) -> pa.Table:
        """Return the rows of one SELECT over one of the tables, as `Table.sql` does.

        Parameters
        ----------
        text, context, args
            As in `Table.sql`; the name after FROM does not choose the table.
        table, timeout
            As in `query`.

        Returns
        -------
        pa.Table
            As in `Table.sql`.

        Raises
        ------
        QueryTimeoutError, WorkerError, InvalidInputError
            What `query` raises.
        ProjsegError
            What `Table.sql` raises.
        """
        options = {"context": context, "args": args}
        question = TableQuestion.of_thread(self._version(table), "sql", text, options)
        return self._answer(question, timeout, _deadline(timeout))

    @with_query_parts
    def submit(
        self,
        group_by: Expressions | Query = (),
        aggregators: Expressions = (),
        filter: str | None = None,
        *,
        table: str | None = None,
        timeout: float | None = None,
        **parts: Unpack[QueryParts],
    ) -> Future[pa.Table]:
        """Ask without waiting for the answer.

        Parameters
        ----------
        group_by, aggregators, filter
            As in `query`; or a whole SELECT, as in `sql`, beside which only `context` and `args`
            may be given.
        interval, having, order_by, limit, columns, context, args, joins
            As in `query`.
        table, timeout
            As in `query`; the time of `timeout` begins at this call.

        Returns
        -------
        Future
            A future of `concurrent.futures` that gives the rows, or raises what `query` raises. It
            can be cancelled until a worker begins with it.

        Raises
        ------
        InvalidInputError
            PROJSEG_POOL_CLOSED, PROJSEG_FORKED_PROCESS, PROJSEG_BAD_ARGUMENT.
        """
        method = "query"
        others: dict[str, Any] = {"aggregators": aggregators, "filter": filter, **parts}
        if is_select(group_by):
            method, others = "sql", statement_options(**others)
        question = TableQuestion.of_thread(self._version(table), method, group_by, others)
        deadline = _deadline(timeout)
        with self._lock:
            if self._queue.is_closed:
                raise _closed()
            if self._executor is None:
                self._executor = ThreadPoolExecutor(len(self._slots), _THREAD_NAME)
            request = QueuedQuestion(question)
            found = self._executor.submit(self._answer, question, timeout, deadline, request)
            self._requests[found] = request
            return found

    def stop(self, future: Future[pa.Table]) -> None:
        """End the work for a question that was submitted; its worker is ended and replaced.

        Parameters
        ----------
        future : Future
            A future that `submit` returned. It is cancelled, or raises `CancelledError`, unless it
            has its answer already.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_ARGUMENT if this pool did not return the future.
        """
        request = self._requests.get(future)
        if request is None:
            raise _bad_argument("a future is stopped that this pool's submit did not return")
        if future.cancel():
            return
        request.is_stopped = True
        slot = request.slot
        if slot is not None and not future.done():
            slot.stop()

    def refresh(self) -> Self:
        """Move all tables to their newest versions, for questions asked from now on.

        Returns
        -------
        QueryPool
            This pool.

        Raises
        ------
        InvalidInputError, StorageError, CorruptTableError
            What `Table.refresh` raises.
        """
        for table in self._tables.values():
            table.refresh()
        return self

    def close(self) -> None:
        """End the workers; questions that have no answer yet fail with PROJSEG_POOL_CLOSED.

        `close` may be called again, and by any thread.
        """
        if os.getpid() != self._process:
            return  # workers are the parent's
        with self._lock:
            self._end_workers()
        if self._executor is not None:
            is_own_thread = threading.current_thread().name.startswith(_THREAD_NAME)
            self._executor.shutdown(wait=not is_own_thread)

    def _version(self, table: str | None) -> VersionName:
        """Return the version of a table that is to be read now."""
        if table is None and len(self._tables) == 1:
            (table,) = self._tables
        if table not in self._tables:
            known = ", ".join(self._tables)
            found = "none was named" if table is None else f"{table!r} was named"
            near = did_you_mean(str(table), self._tables)
            raise _bad_argument(f"a query pool has tables {known}, and {found}{near}; give table=")
        snapshot = state_of(self._tables[table]).current(self._max_age).snapshot
        return VersionName(table, snapshot.number, snapshot.file.write_id)

    def _answer(
        self,
        question: TableQuestion,
        timeout: float | None,
        deadline: float | None,
        request: QueuedQuestion | None = None,
    ) -> pa.Table:
        if os.getpid() != self._process:
            raise InvalidInputError(
                "PROJSEG_FORKED_PROCESS",
                f"{self!r} belongs to process {self._process}, of which this is a fork; make a "
                "pool here",
            )
        location = self._tables[question.version.table].location
        with counted_question(question.door, location) as counted:
            rows = self._rows(request or QueuedQuestion(question), timeout, deadline)
            counted.returned = rows.num_rows
            return rows

    def _rows(
        self, request: QueuedQuestion, timeout: float | None, deadline: float | None
    ) -> pa.Table:
        try:
            slot = self._queue.acquire(request, deadline)
            if slot is None:
                raise _closed()
            try:
                reply = self._reply(slot, request, deadline)
            finally:
                self._queue.release(slot)
            return rows_of(reply)
        except TimeoutError as error:
            raise QueryTimeoutError(
                "PROJSEG_QUERY_TIMEOUT",
                f"a question had no answer after {timeout:g} seconds: {request.question}; give it "
                "more time, or the pool more workers",
            ) from error

    def _reply(self, slot: Slot, request: QueuedQuestion, deadline: float | None) -> pa.Buffer:
        """Return the reply to a question; whatever else happens leaves the slot empty."""
        endings: list[str] = []
        try:
            while True:
                try:
                    if request.is_stopped:
                        raise CancelledError
                    if not request.is_sent:
                        slot.fill()
                        slot.send(request.content, deadline)
                    return slot.receive(deadline)
                except EOFError:
                    if request.is_stopped:
                        raise CancelledError from None
                    request.is_sent = False
                    endings.append(slot.clear(_SECONDS_TO_END))
                    if self._queue.is_closed:
                        raise _closed() from None
                    if len(endings) == _TRIES:
                        raise WorkerError(
                            "PROJSEG_WORKER_ENDED",
                            "two workers were asked and neither answered: the first "
                            f"{endings[0]}, the second {endings[1]}. The question was "
                            f"{request.question}; a process that is killed may have had too "
                            "little memory: ask for fewer rows at once, or use Table.scan",
                        ) from None
        except BaseException:
            slot.clear()
            raise


def _is_forked(tables: Mapping[str, Table], method: str | None) -> bool:
    """Whether workers share this process's memory: as `start_method` says, or if that is safe."""
    remote = ", ".join(name for name, one in tables.items() if one.snapshot.storage.is_remote)
    if method is None:
        return sys.platform == "linux" and not remote
    if method not in ("fork", "spawn"):
        raise _bad_argument(f"start_method is {method!r}; it is 'fork' or 'spawn'")
    if method == "fork" and remote:
        raise _bad_argument(
            f"start_method is 'fork', and {remote} lies in an object store, whose connections do "
            "not survive that; use 'spawn'"
        )
    return method == "fork"


def _end_workers(queue: RequestQueue, server: ForkServer, process: int) -> None:
    if os.getpid() != process:
        return  # they are the parent's
    free = queue.close()
    if query_log() is not None:  # a worker that ends by itself writes what it has queued
        for slot in free:
            slot.clear(_SECONDS_TO_END)
    server.close()
    for slot in free:
        slot.clear()


def _deadline(timeout: float | None) -> float | None:
    """Return the moment `timeout` seconds from now; None if there is no timeout."""
    if timeout is None:
        return None
    if not (type(timeout) in (int, float) and timeout > 0):
        raise _bad_argument(f"timeout is {timeout!r}; give seconds above 0, or None")
    return time.monotonic() + timeout if timeout < threading.TIMEOUT_MAX else None


def _count(name: str, value: int | None, default: int) -> int:
    if value is None:
        return min(default, WORKERS_MAX)
    if type(value) is not int or not 1 <= value <= WORKERS_MAX:
        raise _bad_argument(f"{name} is {value!r}; give a number from 1 to {WORKERS_MAX}")
    return value


def _bad_argument(problem: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_BAD_ARGUMENT", problem)


def _closed() -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_POOL_CLOSED", "the query pool was closed before it answered; make another"
    )
