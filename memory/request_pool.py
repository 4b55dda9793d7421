"""Requests side by side: threads that wait for answers, a bounded number for the process.

They are apart from the threads that compute, which would otherwise stand idle while these wait.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

IN_FLIGHT_MAX: Final = 32


def _new_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(IN_FLIGHT_MAX, thread_name_prefix="projseg-requests")


_pool = _new_pool()


def _leave_pool_behind() -> None:
    """Start with a new pool in a forked child, which has none of its parent's threads."""
    global _pool
    _pool = _new_pool()


os.register_at_fork(after_in_child=_leave_pool_behind)


def side_by_side(
    function: Callable[[Item], Result], items: Iterable[Item], ahead: int = IN_FLIGHT_MAX
) -> Generator[Result]:
    """Yield `function` of each item in order, with some calls under way; closing it stops.

    Parameters
    ----------
    function : callable
        Makes requests, and does not call this.
    items : iterable
        Asked for as they are needed.
    ahead : int
        Calls under way, or done, beyond the one that is asked for, at most.
    """
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            pending.append(_pool.submit(function, item))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
