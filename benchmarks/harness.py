"""One run: stage the rows, load every engine, then let them take turns at every query.

Each engine loads in one process and is measured in a second, fresh one. Before the second starts,
the engine's files leave the page cache, so its first answers are cold. Warm rounds are interleaved:
in every round each query goes to each engine in turn, and a disturbance of the machine meets all.
Within its turn an engine answers a quick query a few times, so that its caches are its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from projseg.benchmarks.answers import (
    APPROXIMATION_BOUND,
    approximation_error,
    find_difference,
    normalised,
)
from projseg.benchmarks.bandwidth import best_bandwidth, measure_bandwidth
from projseg.benchmarks.column_storage import measure_columns, read_json_lines
from projseg.benchmarks.environment import describe_environment
from projseg.benchmarks.peers.engine import Engine
from projseg.benchmarks.peers.statements import spark_statement
from projseg.benchmarks.question import Question
from projseg.benchmarks.records import ColumnStorage, EngineRun, Ingest, QueryText, Run, Timing
from projseg.benchmarks.staging import RowsToStage, Source, stage
from projseg.benchmarks.turn import ANSWERS_PER_TURN
from projseg.benchmarks.worker import Assignment, Request, Verb
from projseg.benchmarks.worker_handle import WorkerHandle
from projseg.benchmarks.workload import Workload

__all__ = ["Plan", "run_benchmark"]

Progress = Callable[[str], None]
COLUMN_ROWS_MAX: Final = 3_000_000  # rows of one segment


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, and where to put the rows meanwhile."""

    workload: Workload
    rows: RowsToStage
    engines: Sequence[type[Engine]]
    queries: Sequence[Question]
    rounds: int
    thread_count: int
    folder: Path
    with_columns: bool = False
    wiki_path: Path | None = None  # gzipped JSON lines, measured by column beside the edits


def run_benchmark(plan: Plan, progress: Progress) -> Run:
    """Measure everything of the plan.

    Parameters
    ----------
    plan : Plan
        Its folder must be empty; about 150 bytes a row and each engine's copy go there.
    progress : callable
        Told one line at every step.

    Returns
    -------
    Run
        Engines that cannot start are listed with the reason; failures of single queries as well.
    """
    progress(f"staging {plan.rows.row_count:,} rows")
    source = stage(
        plan.rows,
        plan.folder / "source",
        with_parquet=any(engine.runs_on_spark for engine in plan.engines),
    )
    run = Run(
        environment=describe_environment(),
        bandwidth=measure_bandwidth(plan.thread_count),
        workload=plan.workload.name,
        row_count=plan.rows.row_count,
        seed=plan.rows.seed,
        rounds=plan.rounds,
        answers_per_turn=ANSWERS_PER_TURN,
        thread_count=plan.thread_count,
        queries=[
            QueryText(query.name, spark_statement(query), query.covered_by, query.is_row_scan)
            for query in plan.queries
        ],
        engines=[_loaded(plan, engine, source, progress) for engine in plan.engines],
    )
    with ExitStack() as workers:
        opened = {
            engine.name: worker
            for engine in run.present
            if (worker := _opened(plan, engine, source, workers, progress)) is not None
        }
        _run_cold(plan, run, opened, progress)
        _compare_answers(plan, run, opened, progress)
        _run_warm(plan, run, opened, progress)
    # Again after minutes of measuring: what memory can deliver is the best of both.
    run.bandwidth = best_bandwidth(run.bandwidth, measure_bandwidth(plan.thread_count))
    if plan.with_columns:
        progress("measuring columns")
        run.columns = _columns(plan, source)
    return run


def _columns(plan: Plan, source: Source) -> list[ColumnStorage]:
    rows = source.table().slice(0, COLUMN_ROWS_MAX)
    measured = measure_columns(plan.workload.name, rows, plan.folder / "columns", plan.thread_count)
    if plan.wiki_path is not None:
        rows = read_json_lines(plan.wiki_path)
        measured += measure_columns("wiki", rows, plan.folder / "wiki", plan.thread_count)
    return measured


def _started(plan: Plan, engine: str, source: Source) -> WorkerHandle:
    folder = str(plan.folder / engine)
    assignment = Assignment(
        engine, folder, str(source.folder), plan.thread_count, plan.workload.name
    )
    return WorkerHandle(assignment, plan.folder / f"{engine}.log")


def _loaded(plan: Plan, kind: type[Engine], source: Source, progress: Progress) -> EngineRun:
    """Load one engine in a process of its own."""
    progress(f"{kind.title}: loading")
    engine = EngineRun(
        kind.name, kind.title, kind.is_peer, kind.runs_on_spark, kind.has_projections
    )
    with _started(plan, kind.name, source) as worker:
        started = worker.ask(Request(Verb.START))
        engine.version = started.version
        if started.failure:
            engine.missing = started.failure
            return engine
        loaded = worker.ask(Request(Verb.LOAD, samples_memory=True))
        settled = worker.ask(Request(Verb.SETTLE))
        sized = worker.ask(Request(Verb.SIZES))
    failure = loaded.failure or settled.failure or sized.failure
    if failure or sized.sizes is None:
        engine.missing = f"loading failed: {failure}"
        return engine
    engine.ingest = Ingest(
        loaded.milliseconds / 1000.0,
        settled.milliseconds / 1000.0,
        loaded.peak_bytes,
        *sized.sizes,
    )
    return engine


def _opened(
    plan: Plan, engine: EngineRun, source: Source, workers: ExitStack, progress: Progress
) -> WorkerHandle | None:
    """Start the engine's second process over files that are no longer in memory."""
    progress(f"{engine.title}: opening")
    _drop_from_page_cache(plan.folder / engine.name)
    worker = workers.enter_context(_started(plan, engine.name, source))
    started = worker.ask(Request(Verb.START))
    opened = worker.ask(Request(Verb.OPEN))
    if started.failure or opened.failure:
        engine.missing = f"opening failed: {started.failure or opened.failure}"
        return None
    engine.start_ms = started.milliseconds + opened.milliseconds
    return worker


def _run_cold(plan: Plan, run: Run, opened: dict[str, WorkerHandle], progress: Progress) -> None:
    """Ask every query for the first time, keep the answers, and note memory and work."""
    for name, worker in opened.items():
        engine = run.engine(name)
        assert engine is not None
        progress(f"{engine.title}: first answers")
        for query in plan.queries:
            path = _answer_path(plan, name, query)
            reply = worker.ask(Request(Verb.RUN, query, str(path), samples_memory=True))
            timing = Timing(
                answer_rows=reply.rows,
                peak_bytes=reply.peak_bytes,
                failure=reply.failure,
                is_applicable=reply.is_applicable,
            )
            if reply.failure is None and reply.is_applicable:
                timing.cold_ms = reply.milliseconds
                timing.work = worker.ask(Request(Verb.WORK, query)).work
            engine.timings[query.name] = timing


def _run_warm(plan: Plan, run: Run, opened: dict[str, WorkerHandle], progress: Progress) -> None:
    """Ask every query in interleaved rounds, after one round that does not count."""
    for round_index in range(plan.rounds + 1):
        progress(f"round {round_index} of {plan.rounds}" if round_index else "warm-up round")
        for query in plan.queries:
            for name, worker in opened.items():
                engine = run.engine(name)
                assert engine is not None
                timing = engine.timings[query.name]
                if timing.failure or not timing.is_applicable:
                    continue
                reply = worker.ask(Request(Verb.TURN, query))
                if reply.failure:
                    timing.failure = reply.failure
                elif round_index:
                    timing.warm_ms.append(reply.milliseconds)
                    if not engine.runs_on_spark:
                        timing.warm_cpu_ms.append(reply.cpu_milliseconds)


def _compare_answers(
    plan: Plan, run: Run, opened: dict[str, WorkerHandle], progress: Progress
) -> None:
    """Compare every kept answer with that of the reference, a peer wherever there is one."""
    by_trust = sorted(opened, key=lambda name: (not _is_peer(run, name), list(opened).index(name)))
    if not by_trust:
        return
    run.reference = by_trust[0]
    progress(f"comparing answers with {run.reference}")
    for query in plan.queries:
        if query.is_drained:
            continue
        exact = _exact_answer(plan, query, opened[run.reference], run.reference)
        if exact is None:
            continue
        for name in opened:
            engine = run.engine(name)
            assert engine is not None
            timing = engine.timings[query.name]
            if timing.answer_rows is not None:
                _judge(timing, exact, _kept(plan, name, query), query)


def _judge(timing: Timing, exact: pa.Table, answer: pa.Table, query: Question) -> None:
    try:
        answer = normalised(answer, query)
        timing.difference = find_difference(exact, answer, query)
        timing.approximation_error = approximation_error(exact, answer, query)
    except pa.ArrowException as error:
        timing.difference = f"cannot be compared: {error}"
    error_bound_holds = (timing.approximation_error or 0.0) <= APPROXIMATION_BOUND
    timing.agrees = timing.difference is None and error_bound_holds


def _exact_answer(plan: Plan, query: Question, worker: WorkerHandle, name: str) -> pa.Table | None:
    if query.approximate_outputs:
        path = plan.folder / "exact.arrow"
        reply = worker.ask(Request(Verb.RUN, query.exact(), str(path)))
        if reply.failure:
            return None
        return normalised(_read_answer(path), query)
    if not _answer_path(plan, name, query).exists():
        return None
    return normalised(_kept(plan, name, query), query)


def _kept(plan: Plan, name: str, query: Question) -> pa.Table:
    return _read_answer(_answer_path(plan, name, query))


def _read_answer(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as mapped:
        return pa.ipc.open_file(mapped).read_all()


def _answer_path(plan: Plan, name: str, query: Question) -> Path:
    folder = plan.folder / "answers"
    folder.mkdir(exist_ok=True)
    return folder / f"{name}.{query.name}.arrow"


def _is_peer(run: Run, name: str) -> bool:
    engine = run.engine(name)
    return engine is not None and engine.is_peer


def _drop_from_page_cache(folder: Path) -> None:
    """Ask the system to forget the pages of all files below a folder, where it can be asked."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)  # dirty pages are not dropped
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
