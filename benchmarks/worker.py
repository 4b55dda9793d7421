"""One engine alone in a fresh process, which gets its requests over a pipe.

A process of its own gives each engine its own peak memory and its own cold start, and lets engines
that cannot share a process (two ClickHouse sessions, two JVMs) take turns in one run.
"""

from __future__ import annotations

import os
import sys
import time
from enum import StrEnum
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pyarrow as pa

from projseg.benchmarks.memory import PeakMemory
from projseg.benchmarks.peers.engine import Engine, NotApplicableError
from projseg.benchmarks.peers.registry import select_engines
from projseg.benchmarks.question import Question
from projseg.benchmarks.records import Work
from projseg.benchmarks.staging import Source
from projseg.benchmarks.turn import take_turn
from projseg.benchmarks.workload import workload_named

__all__ = ["Assignment", "Reply", "Request", "Verb", "serve"]


class Verb(StrEnum):
    """A request that a worker understands."""

    START = "start"  # import the library and make the engine
    LOAD = "load"
    SETTLE = "settle"
    SIZES = "sizes"
    OPEN = "open"
    RUN = "run"  # answer a query once
    TURN = "turn"  # answer it a few times, and reply with the time of a warm answer
    WORK = "work"
    CLOSE = "close"


class Assignment(msgspec.Struct, frozen=True):
    """The engine that a worker runs, over which workload, and its folders."""

    engine: str
    folder: str
    source_folder: str
    thread_count: int
    workload: str = "edits"


class Request(msgspec.Struct, frozen=True):
    """One request; memory is sampled only when asked, because sampling costs a little."""

    verb: Verb
    query: Question | None = None
    answer_path: str | None = None  # where to leave the answer as an Arrow file
    samples_memory: bool = False


class Reply(msgspec.Struct):
    """The outcome of a request; `failure` is one line."""

    milliseconds: float = 0.0
    cpu_milliseconds: float = 0.0  # of this process, all threads
    peak_bytes: int | None = None
    failure: str | None = None
    is_missing: bool = False
    is_applicable: bool = True
    rows: int | None = None
    sizes: tuple[int, int] | None = None
    version: str | None = None
    work: Work | None = None


def serve(pipe: Connection, encoded_assignment: bytes, log_path: str) -> None:
    """Answer requests until told to close or the pipe ends: the child process's whole life."""
    _redirect_output(log_path)
    assignment = msgspec.json.decode(encoded_assignment, type=Assignment)
    _pin(assignment.thread_count)
    worker = _Worker(assignment)
    while True:
        try:
            request = msgspec.json.decode(pipe.recv_bytes(), type=Request)
        except EOFError:
            return
        pipe.send_bytes(msgspec.json.encode(worker.answer(request)))
        if request.verb is Verb.CLOSE:
            return


class _Worker:
    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._source = Source(Path(assignment.source_folder))
        self._engine: Engine | None = None

    def answer(self, request: Request) -> Reply:
        """Serve one request, timed; an engine's exception becomes the reply's failure."""
        reply = Reply()
        try:
            if request.samples_memory:
                with PeakMemory() as memory:
                    self._do(request, reply)
                reply.peak_bytes = memory.peak_bytes
            else:
                self._do(request, reply)
        except NotApplicableError:
            reply.is_applicable = False
        except ImportError as error:
            reply.failure, reply.is_missing = _one_line(error), True
        except Exception as error:  # noqa: BLE001  an engine may fail in any way; others go on
            reply.failure = _one_line(error)
        return reply

    def _do(self, request: Request, reply: Reply) -> None:
        if request.verb is Verb.TURN:
            self._take_turn(request, reply)
            return
        start, cpu_start = time.perf_counter(), time.process_time()
        answer = self._step(request, reply)
        reply.milliseconds = (time.perf_counter() - start) * 1000.0
        reply.cpu_milliseconds = (time.process_time() - cpu_start) * 1000.0
        if answer is not None:
            reply.rows = answer.num_rows
            if request.answer_path is not None:
                _keep(answer, request.answer_path)

    def _take_turn(self, request: Request, reply: Reply) -> None:
        engine, query = self._started_engine(), request.query
        assert query is not None, "a turn is at a query"
        time_taken = take_turn(lambda: engine.answer(query))
        reply.milliseconds = time_taken.milliseconds
        reply.cpu_milliseconds = time_taken.cpu_milliseconds

    def _started_engine(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("the worker was not started")
        return self._engine

    def _step(self, request: Request, reply: Reply) -> pa.Table | None:
        if request.verb is Verb.START:
            self._start(reply)
            return None
        engine = self._started_engine()
        if request.query is not None:
            if request.verb is Verb.RUN:
                return engine.answer(request.query)
            reply.work = engine.work(request.query)
            return None
        if request.verb is Verb.LOAD:
            engine.load(self._source)
        elif request.verb is Verb.SIZES:
            reply.sizes = engine.sizes()
        else:
            plain = {Verb.SETTLE: engine.settle, Verb.OPEN: engine.open, Verb.CLOSE: engine.close}
            plain[request.verb]()
        return None

    def _start(self, reply: Reply) -> None:
        assigned = self._assignment
        (kind,) = select_engines([assigned.engine], assigned.workload)
        folder = Path(assigned.folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._engine = kind(folder, assigned.thread_count, workload_named(assigned.workload))
        reply.version = self._engine.version()


def _keep(answer: pa.Table, path: str) -> None:
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, answer.schema) as writer:
        writer.write_table(answer)


def _redirect_output(log_path: str) -> None:
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


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:500]
