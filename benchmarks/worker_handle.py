"""Start a worker, talk to it, end it."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from types import TracebackType

import msgspec

from projseg.benchmarks.worker import Assignment, Reply, Request, Verb, serve

__all__ = ["WorkerHandle"]


class WorkerHandle:
    """The parent's end of one worker; leaving it as a context ends the process.

    Parameters
    ----------
    assignment : Assignment
        The engine and its places.
    log_path : Path
        File to which everything that the process prints is appended.
    """

    def __init__(self, assignment: Assignment, log_path: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, child = context.Pipe()
        self._process = context.Process(
            target=serve,
            args=(child, msgspec.json.encode(assignment), str(log_path)),
            daemon=False,  # Spark has children of its own
        )
        self._process.start()
        child.close()

    def __enter__(self) -> WorkerHandle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.ask(Request(Verb.CLOSE))
        self._pipe.close()
        self._process.join(timeout=60)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()

    def ask(self, request: Request) -> Reply:
        """Send a request and wait; a worker that has died is a failure like any other."""
        try:
            self._pipe.send_bytes(msgspec.json.encode(request))
            return msgspec.json.decode(self._pipe.recv_bytes(), type=Reply)
        except (EOFError, OSError):
            self._process.join(timeout=5)
            return Reply(failure=f"the process ended with code {self._process.exitcode}")
