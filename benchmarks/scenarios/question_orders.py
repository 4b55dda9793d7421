"""Whether a question takes longer after others than it takes alone: the sweep's, in random order.

What a process holds when a question arrives, its cache, its memory and its threads, may slow the
question down by far more than it saves. So each order is asked in a new process that has just
loaded the rows, with one budget of the cache, and each question alone in a new process that has
only opened them, and has its kernels. A question that takes `factor` times as long as alone is
reported, with how many kernels it waited for: on a fresh machine they are compiled once.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Final

import numpy as np

from projseg.benchmarks.bench import Bench
from projseg.benchmarks.peers.projseg_engine import ProjsegBase
from projseg.benchmarks.sweep import SweepTable, sweep_questions
from projseg.benchmarks.workload import Source, Workload, stage

_NOISE_MS: Final = 30.0
_THREADS: Final = 2
_CHILD: Final = (
    "import os; os.environ.update({settings!r});"
    " from projseg.benchmarks.scenarios.question_orders import print_times;"
    " print_times({family!r}, {rows!r}, {seed!r}, {count!r}, {folder!r}, {order!r}, {staged!r})"
)


def run(bench: Bench) -> None:
    """Ask each question alone, then every order with every budget of the cache."""
    draw = np.random.default_rng(bench["seed"])
    for family in bench.names("tables"):
        table = SweepTable(family, bench["rows"], bench["seed"])
        names = [one.name for one in sweep_questions(table, bench["questions"])]
        staged = bench.folder / family / "staged"
        stage(table, staged, with_parquet=False)
        opened = str(bench.folder / family)
        _times(bench, family, opened, [], staged=str(staged))
        alone: dict[str, list[float]] = {}
        for name in names:
            bench.progress(f"{family}: {name} alone")
            _times(bench, family, opened, [name])  # compiles what it needs
            alone |= _times(bench, family, opened, [name])
        for budget in bench.names("caches"):
            for number in range(bench["orders"]):
                order = [names[place] for place in draw.permutation(len(names))]
                bench.progress(f"{family}: order {number}, cache of {budget}")
                own = str(bench.folder / f"{family} {budget} {number}")
                found = _times(bench, family, own, order, budget, str(staged))
                _add(bench, f"{family}, cache {budget}, order {number}", alone, found)


def _times(
    bench: Bench,
    family: str,
    folder: str,
    order: list[str],
    budget: str = "default",
    staged: str | None = None,
) -> dict[str, list[float]]:
    settings = {} if budget == "default" else {"PROJSEG_CACHE_BYTES": budget}
    code = _CHILD.format(
        settings=settings,
        family=family,
        rows=bench["rows"],
        seed=bench["seed"],
        count=bench["questions"],
        folder=folder,
        order=order,
        staged=staged,
    )
    times: dict[str, list[float]] = bench.in_new_process(code).printed
    return times


def print_times(
    family: str,
    rows: int,
    seed: int,
    count: int,
    folder: str,
    order: list[str],
    staged: str | None,
) -> None:
    """Print what each question takes: ms of the clock, ms of the processor, kernels compiled.

    The rows are loaded first where a file of them is given.
    """
    table = SweepTable(family, rows, seed)
    questions = {one.name: one for one in sweep_questions(table, count)}
    workload = Workload(family, table.schema, "time", (), tuple(questions.values()))
    engine = ProjsegBase(Path(folder), _THREADS, workload)
    if staged is None:
        engine.open()
    else:
        engine.load(Source(Path(staged)))
    compiled = _CompiledKernels()
    logging.getLogger("projseg").addHandler(compiled)
    logging.getLogger("projseg").setLevel(logging.INFO)
    times = {}
    for name in order:
        compiled.count = 0
        started, used = time.perf_counter(), time.process_time()
        engine.answer(questions[name])
        clock, processor = time.perf_counter() - started, time.process_time() - used
        times[name] = [1000 * clock, 1000 * processor, compiled.count]
    print(json.dumps(times))


class _CompiledKernels(logging.Handler):
    """Counts kernels that are compiled, by the log's line about each."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count a kernel."""
        self.count += "kernel" in record.msg and "compiled" in record.msg


def _add(
    bench: Bench, case: str, alone: dict[str, list[float]], found: dict[str, list[float]]
) -> None:
    """Add each question that is much slower than alone, and how the others compare."""
    ratios = {
        name: max(
            (time + _NOISE_MS) / (before + _NOISE_MS)
            for time, before in zip(times[:2], alone[name][:2], strict=True)
        )
        for name, times in found.items()
    }
    for place, (name, ratio) in enumerate(ratios.items()):
        if ratio > bench["factor"]:
            clock, processor, kernels = found[name]
            values = {"ms": clock, "cpu ms": processor, "alone ms": alone[name][0], "ratio": ratio}
            values["kernels compiled"] = kernels
            bench.add("cliffs", f"{case}: {name}", f"question {place + 1}", values)
    ordered = sorted(ratios.values())
    values = {
        "questions": len(ordered),
        "median ratio": ordered[len(ordered) // 2],
        "worst ratio": ordered[-1],
        "cliffs": sum(ratio > bench["factor"] for ratio in ordered),
        "cpu s": sum(times[1] for times in found.values()) / 1000,
        "alone cpu s": sum(times[1] for times in alone.values()) / 1000,
    }
    bench.add("after others, of alone", case, "", values)
