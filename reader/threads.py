"""The threads that queries run on, and the fetch of sources ahead of them.

The process has one pool of threads, and each query uses a share of it. Of a table in a folder
nothing is fetched ahead. In an object store each source takes two round trips: the segment's end,
which says where its parts lie, and then its parts.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from projseg.algebra.planning.source_plan import SourcePlan, columns_read
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.context import THREADS_MAX
from projseg.memory.deadline import Deadline, check_deadline, deadline_of_thread, under
from projseg.memory.forks import IN_FLIGHT_MAX, side_by_side
from projseg.reader.open_sources import Source, open_source
from projseg.reader.plan.query_plan import QueryPlan
from projseg.table_layer.commits.verify_entries import FetchedRanges
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.storage.storage_contract import Storage

# A source whose parts take more is read as it is needed: bytes then take longer than trips.
_FETCHED_BYTES_MAX: Final = 4 << 20

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
    """The threads of one query: a limited number of threads of the process's pool.

    With 1 the caller does all the work in its own thread when it takes a result.
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

        At most `ahead` results are under way or waiting beyond the next one.
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


@contextmanager
def fetched_ahead(
    storage: Storage,
    plan: QueryPlan,
    items: Iterable[Item],
    sources_of: Callable[[Item], Sequence[Source]],
) -> Iterator[Iterable[Item]]:
    """Yield items in order, each once its sources are fetched.

    What was fetched is held until it is read, or until the context is left, or until far later
    items come.
    """
    if not storage.is_remote:
        yield items
        return

    def requests() -> Iterator[tuple[Item, Source | None]]:
        """Yield each item's sources, and then the item without one."""
        for item in items:
            yield from ((item, source) for source in sources_of(item))
            yield item, None

    def fetch(request: tuple[Item, Source | None]) -> tuple[Item, bool, FetchedRanges | None]:
        item, source = request
        ranges = None if source is None else fetch_source(storage, plan, *source)
        return item, source is None, ranges

    begun: deque[list[FetchedRanges]] = deque([[]])  # of each item; the last is not complete
    with closing(side_by_side(fetch, requests())) as results:
        try:
            yield _fetched(results, begun)
        finally:
            for held in begun:
                _forget(held)


def _fetched(
    results: Iterable[tuple[Item, bool, FetchedRanges | None]], begun: deque[list[FetchedRanges]]
) -> Iterator[Item]:
    """Yield items whose sources are fetched, and forget what far earlier ones have not read."""
    for item, is_complete, ranges in results:
        if ranges is not None:
            begun[-1].append(ranges)
        if is_complete:
            yield item
            begun.append([])
            if len(begun) > 2 * IN_FLIGHT_MAX:
                _forget(begun.popleft())


def fetch_source(
    storage: Storage, plan: QueryPlan, entry: SegmentEntry, source_plan: SourcePlan
) -> FetchedRanges | None:
    """Open a source and fetch the parts of its columns not in memory; None if it has none."""
    if source_plan.is_metadata:
        return None
    source = open_source(storage, entry, source_plan, plan.schema)
    names, states = columns_read(plan.query, source_plan)
    ranges = {
        one
        for is_state, some in ((False, names), (True, states))
        for name in some
        for one in source.ranges_to_read(name, is_state=is_state)
    }
    reads = source.segment.read_range
    if not isinstance(reads, FetchedRanges):
        return None
    if sum(one.size for one in ranges) <= _FETCHED_BYTES_MAX:
        reads.fetch(sorted(ranges))
    return reads


def _forget(held: Iterable[FetchedRanges]) -> None:
    for ranges in held:
        ranges.forget()
