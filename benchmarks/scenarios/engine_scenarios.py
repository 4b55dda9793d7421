"""Scenarios that ask several engines the same: written workloads, and random ones."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Final

from projseg.benchmarks.bench import Bench
from projseg.benchmarks.engine_comparison import EngineComparison
from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.peers.projseg_engine import ProjsegBase
from projseg.benchmarks.peers.statements import spark_statement
from projseg.benchmarks.results import Figure
from projseg.benchmarks.scenarios.profiling import dearest_functions
from projseg.benchmarks.sweep import KINDS, SweepTable, sweep_questions
from projseg.benchmarks.workload import Question, Workload
from projseg.benchmarks.written_workloads import EDITS, HOURLY_EDITS, LINEITEM, LineitemRows

_HOUR_US: Final = 3_600_000_000
_MEMORY: Final = "peak memory"
_DEAREST: Final = 3  # functions named of each of the worst


def edits(bench: Bench, *measures: str) -> None:
    """Ask the queries over edits, in warm rounds unless measures are named."""
    rows = EditStream(bench["rows"], bench.arguments.get("seed", 2015))
    EngineComparison(bench, EDITS, rows, measures or ("warm",)).run()


def cold_queries(bench: Bench) -> None:
    """Ask each in a new process."""
    edits(bench, "fresh")


def throughput(bench: Bench) -> None:
    """Ask by many clients at once."""
    edits(bench, "clients")


def spark_sql(bench: Bench) -> None:
    """Ask Spark in all ways: planning, warm rounds, and clients."""
    edits(bench, "plan", "warm", "clients")


def lineitem(bench: Bench) -> None:
    """Ask the queries over TPC-H's lineitem."""
    rows = LineitemRows.in_folder(bench.folder / "made", bench["scale"])
    EngineComparison(bench, LINEITEM, rows).run()


def small_segments(bench: Bench) -> None:
    """Ask tables of more and more segments, each an hour."""
    for count in bench.numbers("segments"):
        rows = EditStream(bench["rows"], span_us=count * _HOUR_US)
        label = f"{count} segments"
        EngineComparison(bench, HOURLY_EDITS, rows, {"plan", "warm"}, label).run()


def wide_loads(bench: Bench) -> None:
    """Load rows of many columns, and ask nothing."""
    for count in bench.numbers("rows"):
        rows = SweepTable("log", count, bench["seed"])
        workload = Workload("log", rows.schema, "time", (), ())
        EngineComparison(bench, workload, rows, (), f"{count} rows").run()


def sweep(bench: Bench) -> None:
    """Compare engines by questions that nobody tuned for: by kind, and the worst.

    A ratio is of the least times of all rounds. On a machine that does other work as well, compare
    the processor's times of all threads: `measure="cpu ms"`. With `measure="peak memory"` each
    question is asked once of a fresh process of each engine.
    """
    workloads: dict[str, Workload] = {}
    ratios: dict[tuple[str, str], float] = {}
    for family in bench.names("tables"):
        rows = SweepTable(family, bench["rows"], bench["seed"])
        questions = sweep_questions(rows, bench["questions"])
        wanted = bench.names("kinds")
        questions = tuple(q for q in questions if not wanted or _kind(q.name) in wanted)
        workloads[family] = Workload(family, rows.schema, "time", (), questions)
        measures = {"memory" if bench["measure"] == _MEMORY else "warm"}
        EngineComparison(bench, workloads[family], rows, measures, label=family).run()
        figures = [figure for figure in bench.figures if figure.table == family]
        ratios |= {(family, name): ratio for name, ratio in _ratios(bench, figures).items()}
    if ratios:
        _add_distribution(bench, ratios)
        _add_worst(bench, workloads, ratios)


def _ratios(bench: Bench, figures: list[Figure]) -> dict[str, float]:
    """Return projseg's time over the best peer's, by question, where both answered."""
    times: dict[str, dict[str, float]] = {}
    for figure in figures:
        if rounds := figure.values.get(bench["measure"]):
            times.setdefault(figure.case, {})[figure.way] = min(rounds)
    own = ProjsegBase.name
    best = {
        case: min((w[p] for p in w if p in bench.peers), default=0) for case, w in times.items()
    }
    return {
        case: ways[own] / best[case] for case, ways in times.items() if own in ways and best[case]
    }


def _add_distribution(bench: Bench, ratios: dict[tuple[str, str], float]) -> None:
    by_kind = {
        kind: [ratio for (_, name), ratio in ratios.items() if _kind(name) == kind]
        for kind in KINDS
    }
    for kind, found in {**by_kind, "all": list(ratios.values())}.items():
        if found:
            found = sorted(found)
            values = {
                "geometric mean": statistics.geometric_mean(found),
                "median": statistics.median(found),
                "of ten the worst": found[len(found) * 9 // 10],
                "worst": found[-1],
                "slower": sum(ratio > 1 for ratio in found),
                "questions": len(found),
            }
            bench.add("ratio to the best peer, by kind", kind, "", values)


def _add_worst(
    bench: Bench, workloads: dict[str, Workload], ratios: dict[tuple[str, str], float]
) -> None:
    """Add the questions of the greatest ratios, and the functions that take most of their time."""
    worst = sorted(ratios, key=lambda one: -ratios[one])[: bench["worst"]]
    engines: dict[str, ProjsegBase] = {}
    for family, name in worst:
        bench.progress(f"profile of {family}: {name}")
        (question,) = workloads[family].select([name])
        if family not in engines:
            folder = bench.folder / family / ProjsegBase.name
            engines[family] = ProjsegBase(folder, 1, workloads[family])
            engines[family].open()
        cpu_ms, functions = dearest_functions(partial(engines[family].answer, question))
        dearest = (f"{one['own ms']:.3g} {place}" for place, one in functions[:_DEAREST])
        values = {
            "ratio": ratios[family, name],
            "cpu ms": cpu_ms,
            "dearest": "; ".join(dearest),
            "question": _text(question),
        }
        bench.add("worst", f"{family}: {name}", "", values)


def _text(question: Question) -> str:
    return spark_statement(question)[:300].replace("|", "\\|")


def _kind(name: str) -> str:
    return name.rsplit(" ", 1)[0]
