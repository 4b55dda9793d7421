"""The time in which a question must be answered."""

from __future__ import annotations

import threading
import time

from projseg.errors import QueryTimeoutError
from projseg.query_pool.refusals import bad_argument


class TimeLimit:
    """A number of seconds that begins now.

    Parameters
    ----------
    seconds : float or None
        Above 0; None: no limit.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_ARGUMENT.
    """

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
            raise bad_argument(f"timeout is {seconds!r}; give seconds above 0, or None")
        self._seconds = seconds
        self.deadline: float | None = None
        if seconds is not None and seconds < threading.TIMEOUT_MAX:
            self.deadline = time.monotonic() + seconds

    def passed(self, asked: str) -> QueryTimeoutError:
        """Return the error for a question that has no answer in time."""
        return QueryTimeoutError(
            "PROJSEG_QUERY_TIMEOUT",
            f"a question had no answer after {self._seconds:g} seconds: {asked}; give it more "
            "time, or the pool more workers",
        )
