"""Where we stand beside the best peer, and where we lose."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from projseg.benchmarks.figures import format_ms, format_ratio, own_engines, peer_ratio
from projseg.benchmarks.records import EngineRun, QueryText, Run
from projseg.benchmarks.tables import Cell, TableOfFigures

__all__ = ["loss_tables", "ratio_table"]


def loss_tables(run: Run) -> list[TableOfFigures]:
    """Return, for each of our engines that is not Spark's, the queries that a peer answers faster.

    The worst comes first. The caption counts them and gives the geometric mean of all ratios.
    """
    return [_losses(run, engine) for engine in _judged(run)]


def ratio_table(run: Run) -> TableOfFigures:
    """Return every query's medians, and our ratios to the best peer; more than 1 is a loss."""
    ours = _judged(run)
    rows = []
    for query in run.queries:
        own = (engine.timings.get(query.name) for engine in ours)
        peer, milliseconds = run.best_peer(query.name) or ("-", None)
        texts = (*(format_ms(one.median_ms if one else None) for one in own), peer)
        rows.append(
            (
                Cell(f"{query.name} *" if query.covered_by else query.name),
                *map(Cell, (*texts, format_ms(milliseconds))),
                *(_ratio(run, engine, query) for engine in ours),
            )
        )
    blank = (Cell(""),) * (len(ours) + 2)
    means = (Cell(format_ratio(_mean(_ratios(run, engine).values()))) for engine in ours)
    return TableOfFigures(
        "Milliseconds, warm median, and the ratio to the best peer",
        (
            "query",
            *(engine.title for engine in ours),
            "peer",
            "peer's ms",
            *(f"ratio {engine.title.removeprefix('projseg ')}" for engine in ours),
        ),
        (*rows, (Cell("geometric mean"), *blank, *means)),
        "* a projection covers it; marked: a peer is faster",
    )


def _judged(run: Run) -> list[EngineRun]:
    return [engine for engine in own_engines(run) if not engine.runs_on_spark]


def _losses(run: Run, engine: EngineRun) -> TableOfFigures:
    ratios = _ratios(run, engine)
    lost = sorted((name for name in ratios if ratios[name] > 1), key=lambda name: -ratios[name])
    covered = {query.name for query in run.queries if query.covered_by}
    rows = []
    for name in lost:
        peer, milliseconds = run.best_peer(name) or ("", None)
        own = engine.timings[name].median_ms
        texts = (format_ms(own), peer, format_ms(milliseconds), format_ratio(ratios[name]))
        rows.append((Cell(f"{name} *" if name in covered else name), *map(Cell, texts)))
    means = {
        "all": ratios.values(),
        "covered": [ratio for name, ratio in ratios.items() if name in covered],
        "not covered": [ratio for name, ratio in ratios.items() if name not in covered],
    }
    said = ", ".join(f"{which} {format_ratio(_mean(some))}" for which, some in means.items())
    return TableOfFigures(
        f"{engine.title}: where a peer is faster",
        ("query", "ms", "peer", "peer's ms", "ratio"),
        tuple(rows),
        f"{len(lost)} of {len(ratios)} queries; geometric mean of the ratios: {said};"
        " * a projection covers it",
    )


def _ratio(run: Run, engine: EngineRun, query: QueryText) -> Cell:
    ratio = peer_ratio(run, engine, query.name)
    return Cell(format_ratio(ratio), mark="wrong" if ratio is not None and ratio > 1 else "")


def _ratios(run: Run, engine: EngineRun) -> dict[str, float]:
    found = {query.name: peer_ratio(run, engine, query.name) for query in run.queries}
    return {name: ratio for name, ratio in found.items() if ratio is not None}


def _mean(ratios: Iterable[float]) -> float | None:
    known = list(ratios)
    return statistics.geometric_mean(known) if known else None
