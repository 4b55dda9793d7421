"""Forks: a child inherits no held lock, and starts its own threads for requests.

A fork copies the memory of the process and only the thread that forks. A lock that another thread
holds at that moment stays locked in the child for ever, and what it guards may be half changed. So
the locks of process-wide state are taken before a fork and given back on both sides.

The threads that wait for requests are apart from the threads that compute, which would otherwise
stand idle while these wait.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401
import functools
import logging  # noqa: F401
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Protocol, Self, TypeVar, overload

# Modules that take locks of their own before a fork are imported first, though not used here:
# Python then takes theirs after ours, so that what holds one of ours may still wait for theirs.


class _Lock(Protocol):
    def acquire(self) -> object: ...

    def release(self) -> None: ...


_LOCKS: Final[list[_Lock]] = []


def hold_while_forking(lock: _Lock) -> None:
    """Let no fork happen while another thread holds `lock`.

    It is held for short moments only, and never while waiting for another such lock.
    """
    _LOCKS.append(lock)


def _acquire() -> None:
    for lock in _LOCKS:
        lock.acquire()


def _release() -> None:
    for lock in reversed(_LOCKS):
        lock.release()


os.register_at_fork(before=_acquire, after_in_parent=_release, after_in_child=_release)


# Import modules at their first use, so that a process that asks one small query starts sooner.
#
#     with late_import:
#         from projseg.aggregation.hash_sketches import HllState
#
# A child forked while another thread imports a module could never import it itself: Python's lock
# of that module would stay held. So a query imports modules late only while no fork can happen.

late_import: Final = threading.RLock()
hold_while_forking(late_import)


# `cached_property` without the lock that Python 3.11 holds while it computes.
#
# That lock belongs to the class: a child forked while another thread computes any object's value
# would wait for it for ever. Without the lock two threads may both compute a value; one of the two
# is kept.

Value = TypeVar("Value")


class cached_property(functools.cached_property[Value]):
    """A property that is computed once for each object, which must have a `__dict__`."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Value: ...

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        """Return the value, computed if this is the first time it is asked for."""
        if instance is None:
            return self
        assert self.attrname is not None, "set when the class is made"
        return instance.__dict__.setdefault(self.attrname, self.func(instance))


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

    The function makes requests, and does not call this. At most `ahead` calls are under way, or
    done, beyond the next one.
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
