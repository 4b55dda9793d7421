"""The threads that queries run on: one pool for each number of threads, kept for the process."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from projseg.algebra.query_spec import QuerySpec

Item = TypeVar("Item")
Result = TypeVar("Result")


def thread_count_of(query: QuerySpec) -> int:
    """Return how many threads a query may use: what its context says, or one a processor."""
    return query.context.threads or os.cpu_count() or 1


@cache
def thread_pool(thread_count: int) -> ThreadPoolExecutor:
    """Return the process's pool of `thread_count` threads."""
    return ThreadPoolExecutor(thread_count, thread_name_prefix="projseg")


def map_ahead(
    function: Callable[[Item], Result], items: Iterable[Item], thread_count: int, *, ahead: int
) -> Generator[Result]:
    """Yield `function` of each item in order; closing it stops.

    Parameters
    ----------
    function : callable
        Runs in a thread of the pool; with `thread_count` 1 where and when its result is asked for.
    items : iterable
        Asked for as they are needed.
    thread_count : int
        Which pool works.
    ahead : int
        Results under way or waiting beyond the one that is asked for, at most.
    """
    if thread_count == 1:
        yield from map(function, items)
        return
    pool = thread_pool(thread_count)
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
