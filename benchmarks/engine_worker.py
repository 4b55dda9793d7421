"""One engine alone in a fresh process, which gets its calls over a pipe.

A process of its own gives each engine its own peak memory and its own cold start, and lets engines
that cannot share a process (two ClickHouse sessions, two JVMs) take turns in one run.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from projseg.benchmarks.measuring import TurnTime, peak_memory
from projseg.benchmarks.peers.engine import Engine, NotApplicableError
from projseg.benchmarks.workload import Workload


@dataclass(frozen=True)
class Assignment:
    """The engine that a worker runs, over which workload, and where."""

    kind: type[Engine]
    folder: Path
    thread_count: int
    workload: Workload

    def started(self) -> Engine:
        """Import the engine's library and make the engine."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.kind(self.folder, self.thread_count, self.workload)


@dataclass(frozen=True)
class EngineCall:
    """A call of one of the engine's methods; sampling memory costs a little."""

    method: str
    arguments: tuple[Any, ...] = ()
    answer_path: Path | None = None  # where to leave the answer as an Arrow file
    samples_memory: bool = False


@dataclass
class Reply:
    """The outcome of a call; `failure` is one line."""

    milliseconds: float = 0.0
    cpu_milliseconds: float = 0.0  # of this process, all threads
    peak_bytes: int | None = None
    failure: str | None = None
    is_applicable: bool = True
    value: Any = None  # what the method returned; of an answer, the number of rows


class EngineWorker:
    """The parent's end of one worker; leaving it as a context ends the process.

    `started` tells how the start of the engine went; everything that the process prints goes to the
    log.
    """

    def __init__(self, assignment: Assignment, log_path: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, child = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(child, assignment, log_path), daemon=False
        )
        self._process.start()
        child.close()
        self.started = self._reply()

    def __enter__(self) -> EngineWorker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.call("close")
        self._pipe.close()
        self._process.join(timeout=60)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()

    def call(
        self,
        method: str,
        *arguments: Any,
        answer_path: Path | None = None,
        samples_memory: bool = False,
    ) -> Reply:
        """Call a method and wait; a worker that has died is a failure like any other."""
        try:
            self._pipe.send(EngineCall(method, arguments, answer_path, samples_memory))
        except OSError:
            return self._ended()
        return self._reply()

    def _reply(self) -> Reply:
        try:
            reply: Reply = self._pipe.recv()
        except (EOFError, OSError):
            return self._ended()
        return reply

    def _ended(self) -> Reply:
        self._process.join(timeout=5)
        return Reply(failure=f"the process ended with code {self._process.exitcode}")


def _serve(pipe: Connection, assignment: Assignment, log_path: Path) -> None:
    """Answer calls until the pipe ends or the engine is closed: the child process's whole life."""
    _redirect_output(log_path)
    _pin(assignment.thread_count)
    engines: list[Engine] = []
    call = EngineCall("start")
    while True:
        pipe.send(_replied(assignment, engines, call))
        if call.method == "close":
            return
        try:
            call = pipe.recv()
        except EOFError:
            return


def _replied(assignment: Assignment, engines: list[Engine], call: EngineCall) -> Reply:
    """Serve one call, timed; an engine's exception becomes the reply's failure."""
    reply = Reply()
    try:
        with peak_memory(is_wanted=call.samples_memory) as peaks:
            start, cpu_start = time.perf_counter(), time.process_time()
            value: Any
            if call.method == "start":
                engines.append(assignment.started())
                value = None
            else:
                value = getattr(engines[0], call.method)(*call.arguments)
            reply.milliseconds = (time.perf_counter() - start) * 1000.0
            reply.cpu_milliseconds = (time.process_time() - cpu_start) * 1000.0
        reply.peak_bytes = next(iter(peaks), None)
        if isinstance(value, TurnTime):
            reply.milliseconds, reply.cpu_milliseconds = value
        elif isinstance(value, pa.Table):
            reply.value = value.num_rows
            if call.answer_path is not None:
                _keep(value, call.answer_path)
        else:
            reply.value = value
    except NotApplicableError:
        reply.is_applicable = False
    except Exception as error:  # noqa: BLE001  an engine may fail in any way; others go on
        text = " ".join(str(error).split())
        reply.failure = f"{type(error).__name__}: {text}"[:500]
    return reply


def _keep(answer: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, answer.schema) as writer:
        writer.write_table(answer)


def _redirect_output(log_path: Path) -> None:
    """Send everything that libraries and JVMs print to a file."""
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(log, stream.fileno())
    os.close(log)


def _pin(thread_count: int) -> None:
    """Keep this process and its children on as many processors as it may use threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:thread_count])
