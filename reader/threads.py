"""The threads that queries run on: one pool for the process, of which a query uses its share."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.context import THREADS_MAX
from projseg.memory.deadline import Deadline, check_deadline, deadline_of_thread, under

Item = TypeVar("Item")
Result = TypeVar("Result")


def _new_pool() -> ThreadPoolExecutor:
    """Return a pool that starts a thread when all of its threads are busy."""
    return ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="projseg")


_pool = _new_pool()


def _leave_pool_behind() -> None:
    """Start with a new pool in a forked child, which has none of its parent's threads."""
    global _pool
    _pool = _new_pool()


os.register_at_fork(after_in_child=_leave_pool_behind)


def thread_count_of(query: QuerySpec) -> int:
    """Return how many threads a query may use: the context's number, or one per processor."""
    return query.context.threads or min(os.cpu_count() or 1, THREADS_MAX)


@dataclass(eq=False, slots=True)
class _Task(Generic[Result]):
    """One item of work, the process whose threads do it, and by when."""

    function: Callable[[Any], Result]
    item: Any
    process: int
    future: Future[Result]
    deadline: Deadline | None

    def run(self) -> None:
        """Do the work, unless it is no longer wanted."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            with under(self.deadline):
                check_deadline()
                result = self.function(self.item)
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

    def result(self) -> Result:
        """Return the task's result; a forked child runs its parent's task itself."""
        if self.process != os.getpid():
            return self.function(self.item)
        return self.future.result()

    def cancel(self) -> None:
        """Cancel the task if no thread has begun it."""
        if self.process == os.getpid():
            self.future.cancel()


class Workers:
    """The threads of one query: at most so many of the process's pool at a time.

    Parameters
    ----------
    thread_count : int
        With 1 everything is done by the caller, where and when its result is asked for.
    """

    def __init__(self, thread_count: int) -> None:
        self._thread_count = thread_count
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()
        self._waiting: deque[_Task[Any]] = deque()
        self._idle_count = self._thread_count

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return `function` of each item, in order."""
        every = list(items)
        return list(self.map_ahead(function, every, ahead=len(every)))

    def map_ahead(
        self, function: Callable[[Item], Result], items: Iterable[Item], *, ahead: int
    ) -> Generator[Result]:
        """Yield `function` of each item in order; closing it stops.

        Parameters
        ----------
        function : callable
            Runs in a thread of the pool.
        items : iterable
            Asked for as they are needed.
        ahead : int
            Results under way or waiting beyond the one that is asked for, at most.
        """
        if self._thread_count == 1:
            yield from map(function, items)
            return
        pending: deque[_Task[Result]] = deque()
        try:
            for item in items:
                pending.append(self._submit(function, item))
                if len(pending) > ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for task in pending:
                task.cancel()

    def _submit(self, function: Callable[[Item], Result], item: Item) -> _Task[Result]:
        if self._process != os.getpid():
            self._begin()
        task = _Task(function, item, self._process, Future(), deadline_of_thread())
        with self._lock:
            self._waiting.append(task)
            if self._idle_count == 0:
                return task
            self._idle_count -= 1
        _pool.submit(self._work)
        return task

    def _work(self) -> None:
        """Do waiting tasks until there are none."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._idle_count += 1
                    return
                task = self._waiting.popleft()
            task.run()
