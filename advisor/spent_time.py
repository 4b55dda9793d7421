"""How long advice has taken, how far it is, and what there was no time for."""

from __future__ import annotations

import time
from collections.abc import Callable

from projseg.memory.deadline import check_deadline

OnProgress = Callable[[int, int], object]


class OutOfTimeError(Exception):
    """The time that may be taken is over."""


class SpentTime:
    """The time of one call of `advise`, which lists as `not_examined` what it leaves out.

    `on_progress` gets the number of candidates that have a size, and of all.
    """

    def __init__(self, seconds: float, on_progress: OnProgress | None = None) -> None:
        self._start, self._seconds = time.monotonic(), seconds
        self._on_progress = on_progress
        self.not_examined: list[str] = []

    def check(self, share: float = 1.0) -> None:
        """Raise OutOfTimeError if a share of the time is over: the best so far is to be returned.

        Raises QueryTimeoutError if whoever asked no longer waits.
        """
        check_deadline()
        if time.monotonic() - self._start > share * self._seconds:
            raise OutOfTimeError

    def is_over(self, share: float = 1.0) -> bool:
        """Whether a share of the time is over."""
        return time.monotonic() - self._start > share * self._seconds

    def note(self, what: str) -> None:
        """Say what there was no time for."""
        if what not in self.not_examined:
            self.not_examined.append(what)

    def report(self, done: int, count: int) -> None:
        """Tell who waits how many candidates have a size; what that raises ends the work."""
        if self._on_progress is not None:
            self._on_progress(done, count)
