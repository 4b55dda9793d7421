"""A worker that runs, and what starts and ends workers."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from projseg.query_pool.channel import Channel


class StartedWorker(NamedTuple):
    """A worker that runs.

    Parameters
    ----------
    pid : int
        Its process.
    channel : Channel
        To ask it.
    """

    pid: int
    channel: Channel


class WorkerStarter(Protocol):
    """Starts workers in one way."""

    def start(self) -> StartedWorker:
        """Start a worker.

        Raises
        ------
        OSError
            If the system has no room for another process.
        EOFError
            If no more are to be started.
        """
        ...

    def end(self, worker: StartedWorker, patience_seconds: float = 0) -> str:
        """End a worker, which may take so long to end by itself, and say how it ended."""
        ...

    def close(self) -> None:
        """End all workers."""
        ...
