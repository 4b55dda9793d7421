"""The process that workers are forked from, a copy of the pool's or a new one; a worker's life.

It does nothing but fork workers and wait for their end. So a worker can be replaced at any time,
whatever the threads of the pool's process are doing then. Workers of a copy share the memory of the
caches that were warm when the pool was made. A new process is for tables of object stores, whose
connections do not survive a fork, and for systems whose libraries do not.

A thread of a worker waits for the other end of its channel to close, so that the worker ends at
once with the process that it works for, also in the middle of a question.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import stat
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import Any, Final, NoReturn, TypeAlias

from projseg.errors import InvalidInputError
from projseg.memory.cache import BUDGET_SETTING, KEPT
from projseg.query_pool.messages import (
    Channel,
    TableQuestion,
    VersionsOf,
    error_to_bytes,
    send_rows,
)
from projseg.reader.query_log.log_files import flush_query_logs
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.locate_storage import open_storage

Life: TypeAlias = Callable[[Channel], None]
"""All that a process does with the channel to the one that started it."""

_SECONDS_TO_DIE: Final = 5.0
_PAUSE_SECONDS: Final = 0.002
_STANDARD_STREAMS: Final = 3


class ForkServer:
    """Starts and ends workers, which share the cache's budget.

    Each holds a version of every table, by its name in the pool. The server is a copy of this
    process if `is_copy`, else a new one.
    """

    def __init__(
        self, tables: Mapping[str, Snapshot], workers: int, threads: int, is_copy: bool
    ) -> None:
        self._tables = tables
        self._workers = workers
        self._threads = threads
        self._is_copy = is_copy
        self._lock = threading.RLock()
        self._is_closed = False
        self._pid = 0
        self._control: Channel | None = None

    def start(self) -> tuple[int, Channel]:
        """Fork a worker, and return its process and a channel to it.

        Raises OSError if the system has no room for another process, EOFError if the server is
        closed.
        """
        with self._lock:
            if self._is_closed:
                raise EOFError
            try:
                return self._start()
            except EOFError:
                # The server is not there yet, or was ended by force; its workers work on.
                self._leave()
                self._pid, connection = self._forked() if self._is_copy else self._spawned()
                self._control = Channel(connection)
                return self._start()

    def end(self, pid: int, patience_seconds: float = 0) -> str:
        """End a worker, after `patience_seconds` by force, and say how it ended."""
        try:
            with self._lock:
                return str(self._ask(pid, patience_seconds))
        except EOFError:
            return "ended"

    def close(self) -> None:
        """End all workers, and the server."""
        with self._lock:
            self._is_closed = True
            self._leave()

    def _start(self) -> tuple[int, Channel]:
        pid = self._ask()
        if isinstance(pid, OSError):
            raise pid
        assert self._control is not None
        return pid, Channel(Connection(self._control.receive_file()))

    def _ask(self, *request: Any) -> Any:
        if self._control is None:
            raise EOFError
        self._control.send(pickle.dumps(request))
        return pickle.loads(self._control.receive())  # noqa: S301 - our own process

    def _leave(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
            _ended(self._pid, _SECONDS_TO_DIE)

    def _forked(self) -> tuple[int, Connection]:
        tables = {name: VersionsOf(one.storage, one) for name, one in self._tables.items()}

        def life(channel: Channel) -> None:
            KEPT.keep_inherited(self._workers)
            work(channel, tables, self._threads)

        return _fork(lambda control: _serve(control, life))

    def _spawned(self) -> tuple[int, Connection]:
        path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
        budget = KEPT.budget_bytes // self._workers
        ours, its = Pipe()
        with its:
            # In a group of its own, Ctrl-C does not reach it while it starts.
            process = subprocess.Popen(
                (sys.executable, "-m", "projseg.query_pool.fork_server"),
                stdin=its.fileno(),
                env=os.environ | {"PYTHONPATH": path, BUDGET_SETTING: str(budget)},
                process_group=0,
            )
        process.returncode = 0  # `_ended` waits for it
        storages = {name: one.storage for name, one in self._tables.items()}
        places = {
            name: (storage.location, dict(getattr(storage, "options", {})))
            for name, storage in storages.items()
        }
        with suppress(OSError):  # who asks it first meets its end
            ours.send((places, self._threads))
        return process.pid, ours


def main() -> None:
    """Serve as a new process, with a connection as its input, whose first message is the task."""
    _ignore_interrupts()
    connection = Connection(os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    with suppress(EOFError):
        places, threads = connection.recv()

        def life(channel: Channel) -> None:
            tables = {name: VersionsOf(open_storage(*place)) for name, place in places.items()}
            work(channel, tables, threads)

        _serve(Channel(connection), life)


def _serve(control: Channel, life: Life) -> None:
    """Fork and end workers on request, until the other end is closed; then end them all."""
    gc.freeze()  # a collection would write to, and so copy, memory that workers share
    pids: set[int] = set()
    try:
        while True:
            request = pickle.loads(control.receive())  # noqa: S301 - of our own pool
            if request:
                control.send(pickle.dumps(_end_worker(pids, *request)))
            else:
                _start_worker(pids, control, life)
    except EOFError:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            _ended(pid)


def _start_worker(pids: set[int], control: Channel, life: Life) -> None:
    try:
        pid, connection = _fork(life)
    except OSError as error:
        control.send(pickle.dumps(error))
        return
    with connection:
        pids.add(pid)
        control.send(pickle.dumps(pid))
        control.send_file(connection.fileno())


def _end_worker(pids: set[int], pid: int, patience_seconds: float) -> str:
    """End a worker that was forked here and say how it ended; others end with their channels."""
    if pid not in pids:
        return "ended"
    ending = _ended(pid, patience_seconds)
    if ending != "does not end":
        pids.remove(pid)
    return ending


def _fork(life: Life) -> tuple[int, Connection]:
    """Fork a process; return its number and a connection to it."""
    ours, its = Pipe()
    with its:
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            raise
        if pid == 0:
            _live(its, life)
    return pid, ours


def _live(connection: Connection, life: Life) -> NoReturn:
    """Do all that a forked process is for, and end it.

    Nothing of the parent's code runs afterwards.
    """
    code = 1
    try:
        _let_go(kept=connection.fileno())
        life(Channel(connection))
        code = 0
    except BaseException:  # noqa: BLE001 - it must not return into its parent's code
        traceback.print_exc()
        with suppress(OSError, ValueError):
            sys.stderr.flush()
    finally:
        flush_query_logs()
        os._exit(code)


def _let_go(kept: int) -> None:
    """Leave a parent's signal handlers and connections, but for one, to the parent.

    A connection that a child keeps open stays open when the parent closes it. Descriptors are
    overlaid instead of closed: objects of the parent, of which this process has copies, may close
    them later, when their numbers would be those of other files.
    """
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)) or number == signal.SIGCHLD:
            signal.signal(number, signal.SIG_DFL)
    _ignore_interrupts()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in _open_descriptors():
        if descriptor >= _STANDARD_STREAMS and descriptor not in (kept, nothing):
            with suppress(OSError):
                mode = os.fstat(descriptor).st_mode
                if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
                    os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def _open_descriptors() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir("/dev/fd")]
    return list(range(os.sysconf("SC_OPEN_MAX")))


def _ignore_interrupts() -> None:
    """Leave Ctrl-C, which reaches all processes of a terminal, to the pool's own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _ended(pid: int, patience_seconds: float = 0) -> str:
    """End a child of this process, after `patience_seconds` by force, and say how it ended.

    A process that waits for its disk or network cannot be ended: after a few seconds it is left
    running.
    """
    ending = _awaited(pid, patience_seconds)
    if not ending:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        ending = _awaited(pid, _SECONDS_TO_DIE)
    return ending or "does not end"


def _awaited(pid: int, seconds: float) -> str:
    """Return how a child ended; nothing if it runs longer."""
    end = time.monotonic() + seconds
    while True:
        try:
            found, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return "ended"  # another part of this process waits for all its children
        if found:
            return _ending_of(os.waitstatus_to_exitcode(status))
        if time.monotonic() >= end:
            return ""
        time.sleep(_PAUSE_SECONDS)


def _ending_of(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    name = next((known.name for known in signal.Signals if known == -code), f"signal {-code}")
    return f"was killed by {name}"


def work(channel: Channel, tables: Mapping[str, VersionsOf], threads: int) -> None:
    """Answer the questions of a channel until its other end is closed.

    A question that names no number of threads gets `threads`.
    """
    threading.Thread(target=_end_with, args=(channel.fileno(),), daemon=True).start()
    with suppress(EOFError):
        while True:
            _answer(channel, tables, threads)


def _answer(channel: Channel, tables: Mapping[str, VersionsOf], threads: int) -> None:
    content = channel.receive()
    try:
        question = _question(content)
        version = tables[question.version.table].named(question.version)
        send_rows(channel, question.answer(version, threads))
    except EOFError:
        raise
    except Exception as error:  # noqa: BLE001 - the worker outlives a question that it cannot answer
        channel.send(error_to_bytes(error))


def _question(content: bytes) -> TableQuestion:
    try:
        question: TableQuestion = pickle.loads(content)  # noqa: S301 - of our own pool
    except (AttributeError, ImportError) as error:
        raise InvalidInputError(
            "PROJSEG_BAD_QUERY",
            f"a value of the query has a class that the pool's workers cannot import ({error}); "
            "give plain numbers, texts and times",
        ) from error
    return question


def _end_with(descriptor: int) -> None:
    """End this process when the other end of a connection is closed."""
    closing = select.poll()
    closing.register(descriptor, 0)  # which reports nothing but the end
    closing.poll()
    flush_query_logs()
    os._exit(0)


if __name__ == "__main__":
    main()
