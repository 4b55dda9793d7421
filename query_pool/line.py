"""The line of questions that want a place, which are served in the order in which they came.

Who leaves a place sends the next question at once, so that the worker is busy before the thread
that asked has woken up.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

from projseg.query_pool.asked import Asked
from projseg.query_pool.channel import SENT_AT_ONCE_BYTES_MAX
from projseg.query_pool.places import WorkerPlace


class Turn:
    """A question's turn at a place.

    Parameters
    ----------
    content : bytes
        The question.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.place: WorkerPlace | None = None
        self.is_sent = False
        self.woken = threading.Lock()
        self.woken.acquire()

    @property
    def asked(self) -> str:
        """The question in words, for messages."""
        return str(Asked.read(self.content))


class Line:
    """Gives places to questions, first come, first served.

    Parameters
    ----------
    places : sequence of WorkerPlace
        All places.
    """

    def __init__(self, places: Sequence[WorkerPlace]) -> None:
        self._lock = threading.RLock()
        self._free = list(places)
        self._waiting: deque[Turn] = deque()
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether places are given no more."""
        return self._is_closed

    def enter(self, turn: Turn, deadline: float | None) -> WorkerPlace | None:
        """Wait for a place and return it; None once the line is closed.

        Raises
        ------
        TimeoutError
            If there is none by the deadline.
        """
        with self._lock:
            if self._is_closed:
                return None
            if self._free:
                turn.place = self._free.pop()
                return turn.place
            self._waiting.append(turn)
        try:
            seconds = -1 if deadline is None else max(deadline - time.monotonic(), 0)
            is_woken = turn.woken.acquire(timeout=seconds)
        except BaseException:
            self._give_up(turn)
            raise
        if not is_woken:
            self._give_up(turn)
            raise TimeoutError
        return turn.place

    def leave(self, place: WorkerPlace) -> None:
        """Give a place to who has waited longest, and send that question."""
        with self._lock:
            is_closed = self._is_closed
            turn = self._waiting.popleft() if self._waiting and not is_closed else None
            if turn is not None:
                turn.place = place
            elif not is_closed:
                self._free.append(place)
        if turn is not None:
            _hand_over(place, turn)
        elif is_closed:
            place.clear()

    def close(self) -> list[WorkerPlace]:
        """Give no more places, and return those that nobody uses."""
        with self._lock:
            self._is_closed = True
            for turn in self._waiting:
                turn.woken.release()
            self._waiting.clear()
            free, self._free = self._free, []
            return free

    def _give_up(self, turn: Turn) -> None:
        """Take a turn out of the line; a place that it was given meanwhile goes on."""
        with self._lock:
            if turn in self._waiting:
                self._waiting.remove(turn)
            place = turn.place
        if place is not None:
            turn.woken.acquire()  # its question is sent, and nobody reads the answer
            place.clear()
            self.leave(place)


def _hand_over(place: WorkerPlace, turn: Turn) -> None:
    """Send a question for the thread that asked it, if that cannot take long, and wake it."""
    try:
        if place.is_filled and len(turn.content) <= SENT_AT_ONCE_BYTES_MAX:
            place.send(turn.content)
            turn.is_sent = True
    except BaseException:
        place.clear()
        raise
    finally:
        turn.woken.release()
