"""The time by which a thread must be done; its work checks the time between steps.

Nothing is interrupted: a check raises the error once the time has passed, so what is half done is
left by the ways that every error takes. The threads that work for a question have its deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from projseg.errors import QueryTimeoutError

Item = TypeVar("Item")
_of_thread = threading.local()


class Deadline:
    """A moment, some seconds from now, and the error that is raised once it has passed.

    Without `error`, that of a question that has no answer is raised; `outer` holds as well.
    """

    def __init__(
        self,
        seconds: float,
        error: Callable[[], Exception] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        outer: Deadline | None = None,
    ) -> None:
        self._seconds, self._error = seconds, error
        self._clock, self._outer = clock, outer
        self._at = clock() + seconds

    def check(self) -> None:
        """Raise the error if the moment has passed."""
        if self._outer is not None:
            self._outer.check()
        if self._clock() > self._at:
            raise self._late() if self._error is None else self._error()

    def _late(self) -> QueryTimeoutError:
        return QueryTimeoutError(
            "PROJSEG_QUERY_TIMEOUT",
            f"a question had no answer after {self._seconds:g} seconds, its context's timeLimit; "
            "give it more time, or ask for less",
        )


def deadline_of_thread() -> Deadline | None:
    """Return the deadline of what this thread runs; None if it has none."""
    return getattr(_of_thread, "deadline", None)


def check_deadline() -> None:
    """Raise the deadline's error if this thread has one and it has passed."""
    deadline = deadline_of_thread()
    if deadline is not None:
        deadline.check()


@contextmanager
def under(deadline: Deadline | None) -> Iterator[None]:
    """Give this thread a deadline within the block, or none."""
    before = deadline_of_thread()
    _of_thread.deadline = deadline
    try:
        yield
    finally:
        _of_thread.deadline = before


@contextmanager
def answered_within(seconds: float | None) -> Iterator[None]:
    """Give this thread a deadline in `seconds` seconds, unless it has one or None is given."""
    if seconds is None or deadline_of_thread() is not None:
        yield
        return
    with under(Deadline(seconds)):
        check_deadline()
        yield


def each_under(deadline: Deadline | None, items: Generator[Item, Any, Any]) -> Iterator[Item]:
    """Yield items, each of which is made under a deadline; who takes them may have another."""
    try:
        while True:
            with under(deadline):
                check_deadline()
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item
    finally:
        items.close()
