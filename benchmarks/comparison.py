"""Is a run worse than an earlier one? Only projseg's own figures can regress.

The machine may be slower during one of two runs. Where both contain peers, the median ratio of the
peers' times measures this drift, and every time of the later run is divided by it. A query
regressed when both its median and its minimum did, which one disturbed round cannot cause.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Final

from projseg.benchmarks.figures import format_ms
from projseg.benchmarks.records import EngineRun, Ingest, Run, Timing
from projseg.errors import InvalidInputError

__all__ = ["Comparison", "Regression", "compare_runs"]

SLOWER_BY_MORE_THAN: Final = 0.25
LARGER_BY_MORE_THAN: Final = 0.02
NOISE_MS: Final = 0.1  # smaller differences are noise


@dataclass(frozen=True, slots=True)
class Regression:
    """One figure that got worse."""

    engine: str
    subject: str  # a query's name, `ingest`, `size`
    problem: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing two runs found."""

    drift: float  # how much slower the machine was in the later run, by the peers
    ratios: dict[tuple[str, str], float]  # (engine, query) -> later / earlier, drift removed
    regressions: tuple[Regression, ...]


def compare_runs(earlier: Run, later: Run, *, tolerance: float = SLOWER_BY_MORE_THAN) -> Comparison:
    """Compare projseg's figures of two runs over the same rows.

    Parameters
    ----------
    earlier, later : Run
        Of equal workload, row count, seed, threads and answers in a turn.
    tolerance : float
        Share by which a time may grow.

    Returns
    -------
    Comparison
        Regressions in time, size, ingest and correctness; queries that only one run has are not
        compared.

    Raises
    ------
    InvalidInputError
        If the runs are over different rows or were timed by different rules.
    """
    for field in ("workload", "row_count", "seed", "thread_count", "answers_per_turn"):
        before, after = getattr(earlier, field), getattr(later, field)
        if before != after:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"the runs differ in {field}: {before} and {after}; compare runs of equal plans",
            )
    drift = _drift(earlier, later)
    ratios: dict[tuple[str, str], float] = {}
    regressions: list[Regression] = []
    for engine in earlier.engines:
        successor = next((other for other in later.engines if other.name == engine.name), None)
        if engine.is_peer or engine.missing or successor is None:
            continue
        if successor.missing:
            regressions.append(Regression(engine.name, "start", successor.missing))
            continue
        regressions += _stored_regressions(engine, successor, drift, tolerance)
        for query in engine.timings.keys() & successor.timings.keys():
            before, after = engine.timings[query], successor.timings[query]
            if before.median_ms and after.median_ms:
                ratios[engine.name, query] = after.median_ms / drift / before.median_ms
            problem = _query_problem(before, after, drift, tolerance)
            if problem:
                regressions.append(Regression(engine.name, query, problem))
    regressions.sort(key=lambda regression: (regression.engine, regression.subject))
    return Comparison(drift, ratios, tuple(regressions))


def _drift(earlier: Run, later: Run) -> float:
    """Return the median ratio of the peers' minimum times; 1 without common peers."""
    ratios = []
    for engine in earlier.present:
        successor = later.engine(engine.name)
        if not engine.is_peer or successor is None:
            continue
        for query in engine.timings.keys() & successor.timings.keys():
            before = engine.timings[query].minimum_ms
            after = successor.timings[query].minimum_ms
            if before and after:
                ratios.append(after / before)
    return statistics.median(ratios) if ratios else 1.0


def _query_problem(before: Timing, after: Timing, drift: float, tolerance: float) -> str | None:
    if after.failure and not before.failure:
        return f"fails: {after.failure}"
    if before.agrees and after.agrees is False:
        return f"gives another answer than the reference: {after.difference or 'approximation'}"
    pairs = ((before.median_ms, after.median_ms), (before.minimum_ms, after.minimum_ms))
    if all(
        first is not None and second is not None and _is_slower(first, second / drift, tolerance)
        for first, second in pairs
    ):
        times = f"{format_ms(before.median_ms)} ms became {format_ms(after.median_ms)} ms"
        return f"{times} (drift {drift:.2f})"
    return None


def _is_slower(before_ms: float, after_ms: float, tolerance: float) -> bool:
    return after_ms > before_ms * (1.0 + tolerance) and after_ms - before_ms > NOISE_MS


def _stored_regressions(
    before: EngineRun, after: EngineRun, drift: float, tolerance: float
) -> list[Regression]:
    if before.ingest is None or after.ingest is None:
        return []
    problems = _ingest_problems(before.ingest, after.ingest, drift, tolerance)
    return [Regression(before.name, subject, problem) for subject, problem in problems.items()]


def _ingest_problems(
    before: Ingest, after: Ingest, drift: float, tolerance: float
) -> dict[str, str]:
    problems = {}
    if _is_slower(before.seconds * 1000.0, after.seconds * 1000.0 / drift, tolerance):
        problems["ingest"] = f"{before.seconds:.1f} s became {after.seconds:.1f} s"
    if after.stored_bytes > before.stored_bytes * (1.0 + LARGER_BY_MORE_THAN):
        problems["size"] = f"{before.stored_bytes:,} bytes became {after.stored_bytes:,} bytes"
    return problems
