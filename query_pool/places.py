"""A place for one worker in a pool, who is started, asked, ended and replaced there."""

from __future__ import annotations

from contextlib import suppress

from projseg.query_pool.channel import Message
from projseg.query_pool.refusals import not_started
from projseg.query_pool.started_worker import StartedWorker, WorkerStarter


class WorkerPlace:
    """Room for one worker, used by one thread at a time.

    Parameters
    ----------
    starter : WorkerStarter
        Starts the worker when it is needed.
    """

    def __init__(self, starter: WorkerStarter) -> None:
        self._starter = starter
        self._worker: StartedWorker | None = None

    @property
    def is_filled(self) -> bool:
        """Whether there is a worker, dead or alive."""
        return self._worker is not None

    @property
    def pid(self) -> int | None:
        """The worker's process, if there is a worker."""
        worker = self._worker
        return None if worker is None else worker.pid

    def fill(self) -> None:
        """Start a worker if there is none.

        Raises
        ------
        WorkerError
            PROJSEG_WORKER_NOT_STARTED.
        EOFError
            If the pool is closed.
        """
        if self._worker is not None:
            return
        try:
            self._worker = self._starter.start()
        except OSError as error:
            raise not_started(error) from error

    def send(self, content: bytes, deadline: float | None = None) -> None:
        """Ask the worker; if it is gone, `receive` says so.

        Raises
        ------
        TimeoutError
            If it does not take the question by the deadline.
        """
        assert self._worker is not None
        with suppress(EOFError):
            self._worker.channel.send(content, deadline=deadline)

    def receive(self, deadline: float | None) -> Message:
        """Return the worker's reply.

        Raises
        ------
        EOFError
            If the worker is gone.
        TimeoutError
            If there is no reply by the deadline.
        """
        assert self._worker is not None
        return self._worker.channel.receive(deadline)

    def clear(self, patience_seconds: float = 0) -> str:
        """End the worker, which may take so long to end by itself, and say how it ended."""
        worker, self._worker = self._worker, None
        return "" if worker is None else self._starter.end(worker, patience_seconds)
