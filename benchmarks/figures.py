"""Figures derived from a run, shared by the terminal tables and the HTML report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from projseg.benchmarks.records import EngineRun, QueryText, Run, Timing

__all__ = [
    "Goal",
    "bandwidth_share",
    "cpu_ratio",
    "format_bytes",
    "format_ms",
    "format_ratio",
    "goals",
    "medians_by_rows",
    "note",
    "own_engines",
    "peer_ratio",
    "time_ratio",
]


@dataclass(frozen=True, slots=True)
class Goal:
    """A peer to compare a query with, and the share of its time to stay within, if one is set."""

    peer: str
    ratio: float
    target: float | None

    @property
    def is_met(self) -> bool:
        """Whether the median is within the target; true where there is none."""
        return self.target is None or self.ratio <= self.target

    @property
    def verdict(self) -> str:
        """`met`, or the target that was missed; empty without one."""
        if self.target is None:
            return ""
        return "met" if self.is_met else f"{self.target:.2f} missed"


def goals(run: Run, engine: EngineRun, query: QueryText) -> list[Goal]:
    """Return the goals of a query on one of our engines, and whether each was reached.

    Without Spark: a third of the best peer; without projections only where none helps. On Spark: a
    covered query within a third of the hand-made rollup and a twentieth of Spark on Parquet;
    another aggregate within half of it; row scans are only compared with it.
    """
    wanted: list[tuple[str, float | None]]
    if not engine.runs_on_spark:
        best = run.best_peer(query.name)
        is_aimed_at = engine.has_projections or not query.covered_by
        wanted = [(best[0], 1 / 3 if is_aimed_at else None)] if best else []
    elif query.covered_by:
        wanted = [("spark-rollup", 1 / 3), ("spark-parquet", 1 / 20)]
    else:
        wanted = [("spark-parquet", None if query.is_row_scan else 1 / 2)]
    found = []
    for peer, target in wanted:
        ratio = time_ratio(run.timing(engine.name, query.name), run.timing(peer, query.name))
        if ratio is not None:
            found.append(Goal(peer, ratio, target))
    return found


def time_ratio(ours: Timing | None, theirs: Timing | None) -> float | None:
    """Return one median over another."""
    if ours is None or theirs is None or ours.median_ms is None or not theirs.median_ms:
        return None
    return ours.median_ms / theirs.median_ms


def peer_ratio(run: Run, engine: EngineRun, query: str) -> float | None:
    """Return an engine's median over the best peer's; below 1 is faster than every peer."""
    best = run.best_peer(query)
    return time_ratio(engine.timings.get(query), run.timing(best[0], query)) if best else None


def cpu_ratio(run: Run, engine: EngineRun, query: str) -> float | None:
    """Return an engine's processor time over that of the peer with the best time."""
    best = run.best_peer(query)
    ours = engine.timings.get(query)
    theirs = run.timing(best[0], query) if best else None
    if ours is None or theirs is None or ours.median_cpu_ms is None or not theirs.median_cpu_ms:
        return None
    return ours.median_cpu_ms / theirs.median_cpu_ms


def bandwidth_share(run: Run, timing: Timing) -> float | None:
    """Return the share of the measured read bandwidth that the bytes read would need."""
    if timing.work is None or not timing.median_ms:
        return None
    bytes_per_second = timing.work.bytes / (timing.median_ms / 1000.0)
    return bytes_per_second / run.bandwidth.read_bytes_per_second


def own_engines(run: Run) -> list[EngineRun]:
    """Return our engines that answered."""
    return [engine for engine in run.present if not engine.is_peer and engine.timings]


def medians_by_rows(runs: Iterable[Run], engine: str, query: str) -> dict[int, float]:
    """Return the warm medians by rising number of rows; of two equal numbers, the later run's."""
    medians: dict[int, float] = {}
    for run in sorted(runs, key=lambda run: (run.row_count, run.environment.started)):
        timing = run.timing(engine, query)
        if timing is not None and timing.median_ms:
            medians[run.row_count] = timing.median_ms
    return medians


def note(timing: Timing) -> str:
    """Return a note for the figure: a failure, a wrong answer, or an empty text."""
    if not timing.is_applicable:
        return "not covered"
    if timing.failure:
        return "failed"
    return "" if timing.agrees is not False else "differs"


def format_ms(milliseconds: float | None) -> str:
    """Return milliseconds with three significant digits."""
    if milliseconds is None:
        return "-"
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


def format_ratio(ratio: float | None) -> str:
    """Return a ratio with two decimals."""
    return "-" if ratio is None else f"{ratio:.2f}"


def format_bytes(count: float | None) -> str:
    """Return a byte count in decimal units."""
    if count is None:
        return "-"
    for unit in ("B", "kB", "MB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"
