"""Measure the first query of a process over many rows, beside DuckDB and ClickHouse.

    python -m projseg.benchmarks.cold_queries 20000000 [results.json]

loads the generator's edits into projseg, with the benchmark's projections and without, into a file
of DuckDB, and into ClickHouse with the same projections, where chdb is installed. Each question is
asked by new processes, which have imported the engine and opened the table: the files are in the
page cache, and nothing else is warm. The figures are medians in milliseconds, of the clock and of
the processor, which alone says what a question costs on a machine that does other work as well.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec

from projseg.benchmarks.dataset import EDITS
from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.peers.engine import Engine
from projseg.benchmarks.peers.registry import select_engines
from projseg.benchmarks.publish import publish
from projseg.benchmarks.staging import Source, stage
from projseg.benchmarks.workload import WORKLOADS

_RUNS: Final = 3
_THREADS: Final = 2
_ENGINES: Final = {
    "projseg": "projseg",
    "projseg-base": "projseg",
    "duckdb": "duckdb",
    "clickhouse-projections": "chdb",
}
_QUERIES: Final = (
    "total",
    "by_channel",
    "users_by_channel",
    "by_hour_channel",
    "by_day_channel_of_country",
    "filter_point",
    "four_sums",
    "prices_by_country",
    "by_user",
    "rows_of_page",
)


def main() -> None:
    """Measure, print and write what was measured; or be one of the processes that are measured."""
    verb, *arguments = sys.argv[1:]
    if verb in _VERBS:
        _VERBS[verb](*arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        figures = run(Path(folder), int(verb))
    path = arguments[0] if arguments else None
    publish(f"python -m projseg.benchmarks.cold_queries {verb}", figures, path)


def run(folder: Path, row_count: int) -> dict[str, Any]:
    """Load all engines and measure.

    Parameters
    ----------
    folder : Path
        Where the rows are staged and all engines keep them.
    row_count : int
        Edits.

    Returns
    -------
    dict
        `milliseconds` by question and engine: `clock`, `processor`, the answer's `rows`, what the
        engine says that it reads, and whether the process imported Numba. `missing` are engines
        whose library is not installed.
    """
    stage(EditStream(row_count), folder / "staged", with_parquet=False)
    present = [name for name, module in _ENGINES.items() if find_spec(module) is not None]
    for name in present:
        _in_new_process("load", str(folder), name)
    figures: dict[str, Any] = {query: {} for query in _QUERIES}
    for query in _QUERIES:
        for name in present:
            asked = [_in_new_process("ask", str(folder), name, query) for _ in range(_RUNS + 1)]
            # The first one leaves compiled modules and kernels behind for the others.
            figures[query][name] = asked[-1] | {
                measure: round(statistics.median(one[measure] for one in asked[1:]), 1)
                for measure in ("clock", "processor")
            }
    return {
        "rows": row_count,
        "runs": _RUNS,
        "threads": _THREADS,
        "missing": sorted(_ENGINES.keys() - set(present)),
        "milliseconds": figures,
    }


def _in_new_process(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "projseg.benchmarks.cold_queries", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - ours
    if done.returncode:
        raise SystemExit(done.stderr)
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def _load(folder: str, name: str) -> None:
    engine = _engine(folder, name)
    engine.load(Source(Path(folder) / "staged"))
    engine.settle()
    engine.close()
    sys.stdout.write("{}\n")


def _ask(folder: str, name: str, query: str) -> None:
    (question,) = WORKLOADS[EDITS.name].select([query])
    engine = _engine(folder, name)
    engine.open()
    clock, processor = time.perf_counter(), time.process_time()
    rows = engine.run(question)
    told = {
        "clock": 1000 * (time.perf_counter() - clock),
        "processor": 1000 * (time.process_time() - processor),
        "rows": rows.num_rows,
        "imports_numba": "numba" in sys.modules,
    }
    work = engine.work(question)
    told["work"] = None if work is None else msgspec.structs.asdict(work)
    engine.close()
    sys.stdout.write(json.dumps(told) + "\n")


_VERBS: Final[dict[str, Callable[..., None]]] = {"load": _load, "ask": _ask}


def _engine(folder: str, name: str) -> Engine:
    (chosen,) = select_engines([name])
    place = Path(folder) / name
    place.mkdir(exist_ok=True)
    return chosen(place, _THREADS, WORKLOADS[EDITS.name])


if __name__ == "__main__":
    main()
