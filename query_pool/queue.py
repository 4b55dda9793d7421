"""The queue of requests that wait for a worker, which are served in the order in which they came.

Whoever releases a slot sends its worker the next queued request, so that the worker is busy before
the thread that asked has woken up.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa

from projseg.errors import WorkerError
from projseg.query_pool.fork_server import ForkServer
from projseg.query_pool.messages import (
    SENT_AT_ONCE_BYTES_MAX,
    Channel,
    TableQuestion,
    receive_reply,
)


class Slot:
    """Room for one worker, which a server starts when needed; used by one thread at a time."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server
        self._channel: Channel | None = None
        self.pid: int | None = None

    @property
    def is_filled(self) -> bool:
        """Whether there is a worker, dead or alive."""
        return self._channel is not None

    def fill(self) -> None:
        """Start a worker if there is none."""
        if self._channel is None:
            try:
                self.pid, self._channel = self._server.start()
            except OSError as error:
                raise WorkerError(
                    "PROJSEG_WORKER_NOT_STARTED",
                    f"the system started no process for a query pool: {error}; end others, or "
                    "raise the limits on processes and memory",
                ) from error

    def send(self, content: bytes, deadline: float | None = None) -> None:
        """Ask the worker, as in `Channel.send`; if it is gone, `receive` says so."""
        assert self._channel is not None
        with suppress(EOFError):
            self._channel.send(content, deadline)

    def receive(self, deadline: float | None) -> pa.Buffer:
        """Return the worker's reply, as in `receive_reply`."""
        assert self._channel is not None
        return receive_reply(self._channel, deadline)

    def stop(self) -> None:
        """End the worker while another thread waits for its reply, which then sees the end."""
        if self.pid is not None:
            self._server.end(self.pid)

    def clear(self, patience_seconds: float = 0) -> str:
        """End the worker, after `patience_seconds` by force, and say how it ended."""
        channel, self._channel = self._channel, None
        pid, self.pid = self.pid, None
        if channel is None or pid is None:
            return ""
        channel.close()
        return self._server.end(pid, patience_seconds)


class QueuedQuestion:
    """A question, and the slot that it was given."""

    def __init__(self, question: TableQuestion) -> None:
        self.question = question
        self.content = question.to_bytes()
        self.slot: Slot | None = None
        self.is_sent = False
        self.is_stopped = False
        self.woken = threading.Lock()
        self.woken.acquire()


class RequestQueue:
    """Gives slots to requests, first come, first served."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._lock = threading.RLock()
        self._free = list(slots)
        self._waiting: deque[QueuedQuestion] = deque()
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether slots are given no more."""
        return self._is_closed

    def acquire(self, request: QueuedQuestion, deadline: float | None) -> Slot | None:
        """Wait for a slot and return it; None once the queue is closed."""
        with self._lock:
            if self._is_closed:
                return None
            if self._free:
                request.slot = self._free.pop()
                return request.slot
            self._waiting.append(request)
        try:
            seconds = -1 if deadline is None else max(deadline - time.monotonic(), 0)
            if not request.woken.acquire(timeout=seconds):
                raise TimeoutError
        except BaseException:
            self._give_up(request)
            raise
        return request.slot

    def release(self, slot: Slot) -> None:
        """Give a slot to the request that has waited longest, and send that."""
        with self._lock:
            is_closed = self._is_closed
            request = self._waiting.popleft() if self._waiting and not is_closed else None
            if request is not None:
                request.slot = slot
            elif not is_closed:
                self._free.append(slot)
        if request is not None:
            _hand_over(slot, request)
        elif is_closed:
            slot.clear()

    def close(self) -> list[Slot]:
        """Hand out no more slots, and return the unused ones."""
        with self._lock:
            self._is_closed = True
            for request in self._waiting:
                request.woken.release()
            self._waiting.clear()
            free, self._free = self._free, []
            return free

    def _give_up(self, request: QueuedQuestion) -> None:
        """Take a request out of the queue; a slot that it was given meanwhile goes on."""
        with self._lock:
            if request in self._waiting:
                self._waiting.remove(request)
            slot = request.slot
        if slot is not None:
            request.woken.acquire()  # its question is sent, and nobody reads the answer
            slot.clear()
            self.release(slot)


def _hand_over(slot: Slot, request: QueuedQuestion) -> None:
    """Send a question for the thread that asked it, if that cannot take long, and wake it."""
    try:
        if slot.is_filled and len(request.content) <= SENT_AT_ONCE_BYTES_MAX:
            slot.send(request.content)
            request.is_sent = True
    except BaseException:
        slot.clear()
        raise
    finally:
        request.woken.release()
