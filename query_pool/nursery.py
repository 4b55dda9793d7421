"""The process that workers are forked from: a copy of the one that made the pool.

It is forked once, and does nothing but fork workers and wait for their end. So a worker can be
replaced at any time, whatever the threads of the pool's process are doing then, and every worker
shares the memory of the caches that were warm when the pool was made.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NoReturn, TypeAlias

from projseg.query_pool.channel import Channel
from projseg.query_pool.ending import ended
from projseg.query_pool.process_care import let_go
from projseg.query_pool.started_worker import StartedWorker

Work: TypeAlias = Callable[[Channel], None]

_SECONDS_TO_END_WORKERS: Final = 5


class Nursery:
    """Forks workers; one thread asks at a time.

    Parameters
    ----------
    work : callable
        A worker's whole life.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._lock = threading.RLock()
        self._is_closed = False
        self._pid = 0
        self._control: Channel | None = None

    def start(self) -> StartedWorker:
        """Fork a worker.

        Raises
        ------
        OSError
            If the system has no room for another process.
        EOFError
            If the nursery is closed.
        """
        with self._lock:
            if self._is_closed:
                raise EOFError
            try:
                told, descriptor = self._ask({"start": True})
            except EOFError:
                # It is not there yet, or was ended by force; its workers work on.
                self._leave()
                self._begin()
                told, descriptor = self._ask({"start": True})
        if descriptor is None:
            raise OSError(told["number"], told["message"])
        return StartedWorker(told["pid"], Channel(socket.socket(fileno=descriptor)))

    def end(self, worker: StartedWorker, patience_seconds: float = 0) -> str:
        """End a worker, which may take so long to end by itself, and say how it ended."""
        worker.channel.close()
        try:
            with self._lock:
                told, _ = self._ask({"end": worker.pid, "patience": patience_seconds})
        except EOFError:
            return "ended"
        return str(told["ended"])

    def close(self) -> None:
        """End all workers, and the nursery."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._leave()

    def _ask(self, asked: Any) -> tuple[Any, int | None]:
        if self._control is None:
            raise EOFError
        self._control.send(json.dumps(asked).encode())
        message = self._control.receive()
        return json.loads(bytes(message.content)), message.descriptor

    def _begin(self) -> None:
        ours, its = socket.socketpair()
        with its:
            try:
                self._pid = os.fork()
            except OSError:
                ours.close()
                raise
            if self._pid == 0:
                ours.close()
                _run(its, lambda control: _tend(control, self._work))
        self._control = Channel(ours)

    def _leave(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
            ended(self._pid, _SECONDS_TO_END_WORKERS)


def _run(end: socket.socket, act: Callable[[Channel], None]) -> NoReturn:
    """Do all that a forked process is for, and end it; nothing of its parent's runs after."""
    code = 1
    try:
        let_go(kept=end.fileno())
        act(Channel(end))
        code = 0
    except BaseException:  # noqa: BLE001 - it must not return into its parent's code
        traceback.print_exc()
        with suppress(OSError, ValueError):
            sys.stderr.flush()
    finally:
        os._exit(code)


def _tend(control: Channel, work: Work) -> None:
    """Fork and end workers as asked, until the other end is closed; then end them all."""
    gc.freeze()  # a collection would write to, and so copy, memory that workers share
    pids: Final[set[int]] = set()
    try:
        while True:
            asked = json.loads(bytes(control.receive().content))
            if "end" in asked:
                told = _ended_child(asked["end"], asked["patience"], pids)
                control.send(json.dumps({"ended": told}).encode())
            else:
                _fork_for(control, work, pids)
    except EOFError:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            ended(pid)


def _ended_child(pid: int, patience_seconds: float, pids: set[int]) -> str:
    """End a worker that was forked here and say how it ended; others end with their channels."""
    if pid not in pids:
        return "ended"
    told = ended(pid, patience_seconds)
    if told != "does not end":
        pids.remove(pid)
    return told


def _fork_for(control: Channel, work: Work, pids: set[int]) -> None:
    ours, its = socket.socketpair()
    try:
        pid = os.fork()
    except OSError as error:
        told = {"number": error.errno, "message": error.strerror}
        control.send(json.dumps(told).encode())
        return
    else:
        if pid == 0:
            ours.close()
            _run(its, work)
        pids.add(pid)
        control.send(json.dumps({"pid": pid}).encode(), ours.fileno())
    finally:
        ours.close()
        its.close()
