"""Workers as new processes, which share no memory with the one that made the pool.

They are for tables of object stores, whose connections do not survive a fork, and for systems whose
libraries do not.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from projseg.memory.cache import BUDGET_SETTING, KEPT
from projseg.query_pool.channel import Channel
from projseg.query_pool.ending import ending_of, words_of
from projseg.query_pool.started_worker import StartedWorker
from projseg.table_layer.storage import Storage

_COMMAND = (sys.executable, "-m", "projseg.query_pool.spawned")


class Spawning:
    """Starts processes of the same Python, and sends each what it is to serve.

    Parameters
    ----------
    tables : mapping of str to Storage
        By their names in the pool.
    threads : int
        For a question that does not name a number.
    workers : int
        How many share the cache's budget.
    """

    def __init__(self, tables: Mapping[str, Storage], threads: int, workers: int) -> None:
        places = {name: _place_of(storage) for name, storage in tables.items()}
        self._task = json.dumps({"tables": places, "threads": threads}).encode()
        self._budget_bytes = KEPT.budget_bytes // workers
        self._lock = threading.RLock()
        self._is_closed = False
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> StartedWorker:
        """Start a process.

        Raises
        ------
        OSError
            If the system has no room for another process.
        EOFError
            If `close` was called.
        """
        ours, its = socket.socketpair()
        path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
        settings = {"PYTHONPATH": path, BUDGET_SETTING: str(self._budget_bytes)}
        channel = Channel(ours)
        try:
            # In a group of its own, Ctrl-C does not reach it while it starts.
            process = subprocess.Popen(  # noqa: S603 - our own
                _COMMAND, stdin=its.fileno(), env=os.environ | settings, process_group=0
            )
        except BaseException:
            channel.close()
            raise
        finally:
            its.close()
        worker = StartedWorker(process.pid, channel)
        with self._lock:
            self._processes[process.pid] = process
            is_late = self._is_closed
        if is_late:
            self.end(worker)
            raise EOFError
        with suppress(EOFError):  # who asks it first meets its end
            channel.send(self._task)
        return worker

    def end(self, worker: StartedWorker, patience_seconds: float = 0) -> str:
        """End a worker, which may take so long to end by itself, and say how it ended."""
        worker.channel.close()
        with self._lock:
            process = self._processes.pop(worker.pid, None)
        return "ended" if process is None else _ended(process, patience_seconds)

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            self._is_closed = True
            processes, self._processes = self._processes, {}
        for process in processes.values():
            process.kill()
        for process in processes.values():
            _ended(process, 0)


def _ended(process: subprocess.Popen[bytes], patience_seconds: float) -> str:
    def ending() -> str:
        code = process.poll()
        return "" if code is None else words_of(code)

    return ending_of(ending, process.kill, patience_seconds)


def _place_of(storage: Storage) -> tuple[str, dict[str, Any]]:
    """Return where a table is, and by which options."""
    return storage.location, dict(getattr(storage, "options", {}))
