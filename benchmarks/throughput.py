"""Measure how many questions a second are answered, and how late, when many clients ask at once.

    python -m projseg.benchmarks.throughput [--output results.json]

asks three questions of the same edits, by 1, 2, 4 and 16 clients, each of which asks again as soon
as it has an answer: `covered` is a filtered one that a projection answers, `uncovered` reads base
rows, and `tiny` is answered from fifty groups. Four contenders answer: threads over one table, a
`QueryPool` of two workers, DuckDB with a cursor for each client, and ClickHouse with a connection
for each, if it is installed. Every query has one thread of its own; DuckDB shares its threads among
all. Contenders take turns, each in a fresh process; medians over the rounds count.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

import projseg
from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.peers.clickhouse_peer import ClickHouseProjections
from projseg.benchmarks.peers.duckdb_peer import DuckDbNative
from projseg.benchmarks.peers.engine import Engine
from projseg.benchmarks.peers.projseg_engine import ProjsegProjections, query_arguments
from projseg.benchmarks.peers.statements import statement
from projseg.benchmarks.publish import publish
from projseg.benchmarks.question import Question
from projseg.benchmarks.staging import Source, stage
from projseg.benchmarks.workload import workload_named

QUESTIONS: Final = {
    "covered": "by_day_channel_of_country",
    "uncovered": "filter_not",
    "tiny": "by_channel",
}
WORKERS: Final = 2
_WORKLOAD: Final = workload_named("edits")
_WARM_UP_ANSWERS: Final = 20

Ask: TypeAlias = Callable[[Question], pa.Table]
NewClient: TypeAlias = Callable[[], Ask]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--clients", default="1,2,4,16", help="how many ask at once")
    parser.add_argument("--seconds", type=float, default=2, help="for each figure")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--output", type=Path)
    # Of the fresh processes: what to do as which contender, and where.
    parser.add_argument("--step", choices=["load", "ask"], help=argparse.SUPPRESS)
    parser.add_argument("--contender", choices=sorted(CONTENDERS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.step == "load":
        _load(asked.contender, asked.folder)
    elif asked.step == "ask":
        clients = [int(count) for count in asked.clients.split(",")]
        sys.stdout.write(
            json.dumps(_figures(asked.contender, asked.folder, clients, asked.seconds))
        )
    else:
        with tempfile.TemporaryDirectory() as folder:
            figures = measured(
                Path(folder),
                asked.rows,
                asked.contenders,
                asked.clients,
                asked.seconds,
                asked.rounds,
            )
        publish("python -m projseg.benchmarks.throughput", figures, asked.output)


def measured(
    folder: Path,
    row_count: int,
    contenders: Sequence[str],
    clients: str,
    seconds: float,
    round_count: int,
) -> dict[str, Any]:
    """Return the figures of every contender, or why it is missing."""
    stage(EditStream(row_count), folder / "rows", with_parquet=False)
    missing = {}
    rounds: dict[str, list[Any]] = {}
    for name in contenders:
        done = _in_fresh_process("load", name, folder)
        if done.returncode == 0:
            rounds[name] = []
        else:
            missing[name] = done.stderr.strip().rpartition("\n")[2]
    for _ in range(round_count):
        for name, found in rounds.items():
            options = ["--clients", clients, "--seconds", str(seconds)]
            done = _in_fresh_process("ask", name, folder, *options)
            if done.returncode:
                raise SystemExit(done.stderr)
            found.append(json.loads(done.stdout))
    return {
        "rows": row_count,
        "seconds": seconds,
        "rounds": round_count,
        "questions": QUESTIONS,
        "missing": missing,
        "contenders": {name: _medians(found) for name, found in rounds.items()},
    }


def _in_fresh_process(
    step: str, contender: str, folder: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    module = [sys.executable, "-m", "projseg.benchmarks.throughput"]
    what = ["--step", step, "--contender", contender, "--folder", str(folder)]
    return subprocess.run(  # noqa: S603 - our own
        [*module, *what, *options], capture_output=True, text=True, check=False
    )


def _engine(contender: str, folder: Path, thread_count: int = WORKERS) -> Engine:
    place = folder / contender
    place.mkdir(exist_ok=True)
    return CONTENDERS[contender][0](place, thread_count, _WORKLOAD)


def _load(contender: str, folder: Path) -> None:
    engine = _engine(contender, folder)
    engine.load(Source(folder / "rows"))
    engine.settle()
    engine.close()


def _figures(
    contender: str, folder: Path, clients: Sequence[int], seconds: float
) -> dict[str, dict[str, dict[str, float]]]:
    """Return the figures of one contender, by question and number of clients."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    with CONTENDERS[contender][1](folder) as new_client:
        for name, query in QUESTIONS.items():
            (question,) = _WORKLOAD.select([query])
            ask = new_client()
            for _ in range(_WARM_UP_ANSWERS):
                ask(question)
            found[name] = {
                str(count): _at_once(new_client, question, count, seconds) for count in clients
            }
    return found


def _at_once(
    new_client: NewClient, question: Question, client_count: int, seconds: float
) -> dict[str, float]:
    """Return the rate and latencies of clients that each ask again and again."""
    times: list[float] = []
    started = threading.Barrier(client_count + 1)

    def ask_again_and_again(ask: Ask) -> None:
        own = []
        started.wait()
        end = time.perf_counter() + seconds
        while (asked := time.perf_counter()) < end:
            ask(question)
            own.append(time.perf_counter() - asked)
        times.extend(own)

    clients = [
        threading.Thread(target=ask_again_and_again, args=(new_client(),))
        for _ in range(client_count)
    ]
    for client in clients:
        client.start()
    started.wait()
    begun = time.perf_counter()
    for client in clients:
        client.join()
    taken = time.perf_counter() - begun
    times.sort()
    return {
        "per_second": round(len(times) / taken, 1),
        "p50": round(_percentile(times, 0.50) * 1000, 3),
        "p99": round(_percentile(times, 0.99) * 1000, 3),
    }


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[math.ceil(share * len(ordered)) - 1]


def _medians(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return figures of the same form, each the median over the rounds."""
    first = rounds[0]
    return {
        name: _medians([one[name] for one in rounds])
        if isinstance(first[name], Mapping)
        else statistics.median(one[name] for one in rounds)
        for name in first
    }


@contextmanager
def _threads(folder: Path) -> Iterator[NewClient]:
    """Ask one table object."""
    engine = _engine("threads", folder, thread_count=1)
    engine.open()
    yield lambda: engine.run


@contextmanager
def _pool(folder: Path) -> Iterator[NewClient]:
    """Ask a pool that is made of a warm table, as its documentation advises."""
    table = projseg.Table(folder / "pool" / _WORKLOAD.name)
    for question in _WORKLOAD.select(QUESTIONS.values()):
        table.query(**query_arguments(question))
    with projseg.QueryPool(table, workers=WORKERS, threads=1) as pool:
        yield lambda: lambda question: pool.query(**query_arguments(question))


@contextmanager
def _duckdb(folder: Path) -> Iterator[NewClient]:
    """Ask a cursor for each client, as a connection serves one query at a time."""
    import duckdb

    engine = _engine("duckdb", folder)
    with duckdb.connect(str(engine.folder / f"{_WORKLOAD.name}.duckdb")) as connection:
        connection.execute(f"SET threads = {WORKERS}")

        def new_client() -> Ask:
            cursor: Any = connection.cursor()
            return lambda question: cursor.sql(statement(question, "duckdb")).to_arrow_table()

        yield new_client


@contextmanager
def _clickhouse(folder: Path) -> Iterator[NewClient]:
    """Ask a connection for each client."""
    import chdb  # optional and large: installed by hand

    library: Any = chdb  # it has no type hints
    path = str(folder / "clickhouse" / "clickhouse")
    connections: list[Any] = []

    def new_client() -> Ask:
        connections.append(connection := library.connect(path))
        where = f"FROM bench.{_WORKLOAD.name}"

        def ask(question: Question) -> pa.Table:
            text = statement(question, "clickhouse").replace(f"FROM {question.table}", where)
            settings = "SETTINGS max_threads = 1, session_timezone = 'UTC'"
            answer = connection.query(f"{text} {settings}", "ArrowStream")
            return pa.ipc.open_stream(answer.bytes()).read_all()

        return ask

    yield new_client
    for connection in connections:
        connection.close()


CONTENDERS: Final[
    dict[str, tuple[type[Engine], Callable[[Path], AbstractContextManager[NewClient]]]]
] = {
    "threads": (ProjsegProjections, _threads),
    "pool": (ProjsegProjections, _pool),
    "duckdb": (DuckDbNative, _duckdb),
    "clickhouse": (ClickHouseProjections, _clickhouse),
}


if __name__ == "__main__":
    main()
