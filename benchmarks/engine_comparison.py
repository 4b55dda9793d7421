"""The closed list of engines, and several of them asked the same over the same rows."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from projseg.benchmarks.bench import (
    APPROXIMATION_BOUND,
    Bench,
    approximation_error,
    find_difference,
    normalised,
)
from projseg.benchmarks.engine_worker import Assignment, EngineWorker, Reply
from projseg.benchmarks.measuring import read_bandwidth
from projseg.benchmarks.peers.clickhouse_peer import ClickHouse, ClickHouseProjections
from projseg.benchmarks.peers.duckdb_peer import DuckDbNative, DuckDbParquet
from projseg.benchmarks.peers.engine import Engine
from projseg.benchmarks.peers.projseg_engine import ProjsegBase, ProjsegPool, ProjsegProjections
from projseg.benchmarks.peers.projseg_on_spark import (
    ProjsegSparkOptions,
    ProjsegSparkPlain,
    ProjsegSparkShared,
    ProjsegSparkSql,
    SparkParquetExtended,
)
from projseg.benchmarks.peers.spark_peer import SparkParquet, SparkPrepared, SparkRollup
from projseg.benchmarks.workload import (
    Question,
    RowsToStage,
    Source,
    Workload,
    require_known,
    stage,
)

ENGINES: Final[tuple[type[Engine], ...]] = (
    ProjsegProjections,
    ProjsegBase,
    ProjsegPool,
    DuckDbNative,
    DuckDbParquet,
    ClickHouse,
    ClickHouseProjections,
    SparkParquet,
    SparkParquetExtended,
    SparkRollup,
    SparkPrepared,
    ProjsegSparkSql,
    ProjsegSparkShared,
    ProjsegSparkPlain,
    ProjsegSparkOptions,
)

_FRESH_RUNS: Final = 3  # after one that leaves compiled modules and kernels behind


def select_engines(names: Iterable[str]) -> tuple[type[Engine], ...]:
    """Return the engines of these names in the list's order; refuse a name that is not in it."""
    wanted, known = list(names), [engine.name for engine in ENGINES]
    for name in wanted:
        require_known(name, known, "an engine")
    return tuple(engine for engine in ENGINES if engine.name in wanted)


@dataclass
class EngineComparison:
    """Engines of the argument `peers`, and queries of the argument `queries`, of one workload.

    Other arguments are `threads` and `rounds`, and for clients `clients` and `seconds`. About 150
    bytes a row are staged in the bench's folder, and each engine's copy. Measures are `warm`
    rounds, `clients` at once, `plan`, or first answers in a `fresh` process a query, or the
    `memory` of one such.
    """

    bench: Bench
    workload: Workload
    rows: RowsToStage
    measures: Collection[str] = ("warm",)
    label: str = "queries"
    _values: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    _loading: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(self) -> None:
        """Measure everything; failures become problems of the bench."""
        engines = select_engines(self.bench.names("peers"))
        with_parquet = any(engine.runs_on_spark for engine in engines)
        self.bench.progress(f"staging {self.rows.row_count:,} rows")
        source = stage(self.rows, self._folder / "source", with_parquet=with_parquet)
        self.bench.peers += [
            one.name for one in engines if one.is_peer and one.name not in self.bench.peers
        ]
        loaded = [engine for engine in engines if self._load(engine, source)]
        if "fresh" in self.measures or "memory" in self.measures:
            self._ask_fresh(loaded, _FRESH_RUNS if "fresh" in self.measures else 0)
        else:
            with ExitStack() as workers:
                self._ask(self._opened(loaded, workers))
        for name, values in self._loading.items():
            self.bench.add(f"loading {self.label}", f"{self.rows.row_count:,} rows", name, values)
        for query in self._queries:
            for engine in loaded:
                found = self._values.get((query.name, engine.name))
                if found is not None and {"warm", "fresh", "memory"}.intersection(self.measures):
                    self.bench.add(self.label, query.title, engine.name, found)

    @property
    def _folder(self) -> Path:
        return self.bench.folder / self.label.replace(" ", "-")

    @property
    def _queries(self) -> tuple[Question, ...]:
        return self.workload.select(self.bench.names("queries"))

    def _worker(self, engine: type[Engine]) -> EngineWorker:
        folder = self._folder / engine.name
        assignment = Assignment(engine, folder, self.bench["threads"], self.workload)
        return EngineWorker(assignment, self._folder / f"{engine.name}.log")

    def _load(self, engine: type[Engine], source: Source) -> bool:
        """Load one engine in a process of its own."""
        self.bench.progress(f"{engine.name}: loading")
        with self._worker(engine) as worker:
            if worker.started.failure:
                self.bench.problems.append(f"missing: {engine.name}: {worker.started.failure}")
                return False
            loaded = worker.call("load", source, samples_memory=True)
            settled, sized = worker.call("settle"), worker.call("sizes")
        if failure := loaded.failure or settled.failure or sized.failure:
            self.bench.problems.append(f"failed: {engine.name}: loading: {failure}")
            return False
        seconds = loaded.milliseconds / 1000.0
        base, projections = sized.value
        self._loading[engine.name] = {
            "s": seconds,
            "rows per s": self.rows.row_count / seconds,
            "cpu s": loaded.cpu_milliseconds / 1000.0,
            "settling s": settled.milliseconds / 1000.0,
            "settling cpu s": settled.cpu_milliseconds / 1000.0,
            "peak memory": loaded.peak_bytes,
            "base bytes": base,
            "projections' bytes": projections,
        }
        return True

    def _opened(
        self, engines: Sequence[type[Engine]], workers: ExitStack
    ) -> dict[type[Engine], EngineWorker]:
        """Start second processes over files that are no longer in memory."""
        found = {}
        for engine in engines:
            self.bench.progress(f"{engine.name}: opening")
            _drop_from_page_cache(self._folder / engine.name)
            worker = workers.enter_context(self._worker(engine))
            opened = worker.call("open")
            if failure := worker.started.failure or opened.failure:
                self.bench.problems.append(f"failed: {engine.name}: opening: {failure}")
                continue
            taken = worker.started.milliseconds + opened.milliseconds
            self._loading[engine.name]["open ms"] = taken
            found[engine] = worker
        return found

    def _ask(self, workers: dict[type[Engine], EngineWorker]) -> None:
        self._ask_first(workers)
        self._compare_answers(workers)
        if "warm" in self.measures:
            for round_index in range(self.bench["rounds"] + 1):
                name = f"round {round_index} of {self.bench['rounds']}"
                self.bench.progress(name if round_index else "warm-up round")
                self._take_turns(workers, counts=round_index > 0)
            self._add_bandwidth_shares()
        if "clients" in self.measures:
            for count in self.bench.numbers("clients"):
                self.bench.progress(f"{count} clients")
                self._ask_at_once(workers, count)

    def _ask_first(self, workers: dict[type[Engine], EngineWorker]) -> None:
        """Ask every query for the first time, keep the answers, and note memory and work."""
        for engine, worker in workers.items():
            self.bench.progress(f"{engine.name}: first answers")
            peaks = []
            for query in self._queries:
                planned = worker.call("plan", query) if "plan" in self.measures else None
                path = self._answer_path(engine.name, query)
                reply = worker.call("answer", query, answer_path=path, samples_memory=True)
                if reply.failure:
                    self._fail(engine, query.name, reply)
                if reply.failure or not reply.is_applicable:
                    continue
                values = self._values[query.name, engine.name] = {"ms": []}
                if planned is not None and planned.is_applicable and not planned.failure:
                    values["plan ms"] = planned.milliseconds
                values |= {"first ms": reply.milliseconds, "first cpu ms": reply.cpu_milliseconds}
                values |= worker.call("work", query).value or {}
                peaks += [reply.peak_bytes] if reply.peak_bytes else []
            self._loading[engine.name]["queries' peak memory"] = max(peaks, default=None)

    def _take_turns(self, workers: dict[type[Engine], EngineWorker], *, counts: bool) -> None:
        """Ask each query of each engine in turn."""
        for query in self._queries:
            for engine, worker in workers.items():
                values = self._values.get((query.name, engine.name))
                if values is None:
                    continue
                reply = worker.call("turn", query)
                if reply.failure:
                    self._fail(engine, query.name, reply)
                    del self._values[query.name, engine.name]
                elif counts:
                    values["ms"].append(reply.milliseconds)
                    values.setdefault("cpu ms", []).append(reply.cpu_milliseconds)
                    if "plan" in self.measures and "plan ms" in values:
                        values["plan ms"] = worker.call("plan", query).milliseconds

    def _add_bandwidth_shares(self) -> None:
        """Add the bytes read for each second over what memory delivers."""
        bandwidth = read_bandwidth(self.bench["threads"])
        for values in self._values.values():
            if values["ms"] and values.get("read bytes"):
                seconds = sorted(values["ms"])[len(values["ms"]) // 2] / 1000.0
                values["of bandwidth"] = values["read bytes"] / seconds / bandwidth

    def _ask_at_once(self, workers: dict[type[Engine], EngineWorker], count: int) -> None:
        rounds: dict[tuple[Question, str], dict[str, list[float]]] = {}
        for _ in range(self.bench["rounds"]):
            for query in self._queries:
                for engine, worker in workers.items():
                    if query.is_drained or (query.name, engine.name) not in self._values:
                        continue
                    reply = worker.call("at_once", query, count, self.bench["seconds"])
                    if reply.failure:
                        self._fail(engine, f"{query.name}, {count} clients", reply)
                        continue
                    found = rounds.setdefault((query, engine.name), {})
                    for measure, value in reply.value.items():
                        found.setdefault(measure, []).append(value)
        for (query, name), values in rounds.items():
            self.bench.add("clients at once", f"{query.title}, {count} clients", name, values)

    def _ask_fresh(self, engines: Sequence[type[Engine]], runs: int) -> None:
        """Ask each query of new processes: files are in the page cache, nothing else is warm."""
        for query in self._queries:
            for engine in engines:
                self.bench.progress(f"{engine.name}: {query.name}")
                values: dict[str, Any] = {"ms": [], "cpu ms": []}
                for number in range(runs + 1):
                    with self._worker(engine) as worker:
                        worker.call("open")
                        path = self._answer_path(engine.name, query)
                        is_sampled = number == 0
                        reply = worker.call(
                            "answer", query, answer_path=path, samples_memory=is_sampled
                        )
                        if number == runs:
                            values |= worker.call("work", query).value or {}
                    if reply.failure:
                        self._fail(engine, query.name, reply)
                        break
                    if is_sampled:
                        values["peak memory"] = [reply.peak_bytes] if reply.peak_bytes else []
                    else:
                        values["ms"].append(reply.milliseconds)
                        values["cpu ms"].append(reply.cpu_milliseconds)
                else:
                    self._values[query.name, engine.name] = values

    def _compare_answers(self, workers: dict[type[Engine], EngineWorker]) -> None:
        """Compare every kept answer with that of the reference, a peer wherever there is one."""
        for query in self._queries:
            answered = [one for one in workers if (query.name, one.name) in self._values]
            answered.sort(key=lambda engine: not engine.is_peer)
            if query.is_drained or len(answered) < 2:
                continue
            reference = answered[0]
            exact = _read_answer(self._answer_path(reference.name, query))
            if query.approximate_outputs:
                path = self._folder / "exact.arrow"
                if workers[reference].call("run", query.exact(), answer_path=path).failure:
                    continue
                exact = _read_answer(path)
            exact = normalised(exact, query)
            for engine in answered:
                answer = _read_answer(self._answer_path(engine.name, query))
                if problem := _problem(exact, answer, query):
                    self.bench.problems.append(f"differs: {engine.name}: {query.name}: {problem}")

    def _fail(self, engine: type[Engine], step: str, reply: Reply) -> None:
        self.bench.problems.append(f"failed: {engine.name}: {step}: {reply.failure}")

    def _answer_path(self, engine: str, query: Question) -> Path:
        folder = self._folder / "answers"
        folder.mkdir(exist_ok=True)
        return folder / f"{engine}.{query.name}.arrow"


def _problem(exact: pa.Table, answer: pa.Table, query: Question) -> str | None:
    """Return how an answer differs from the reference's, None where it does not."""
    try:
        answer = normalised(answer, query)
        difference = find_difference(exact, answer, query)
        error = approximation_error(exact, answer, query) or 0.0
    except pa.ArrowException as problem:
        return f"cannot be compared: {problem}"
    if difference is None and error > APPROXIMATION_BOUND:
        return f"relative error {error:.3f}"
    return difference


def _read_answer(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as mapped:
        return pa.ipc.open_file(mapped).read_all()


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
