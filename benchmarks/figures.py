"""Figures derived from a run, shared by the terminal tables and the HTML report."""

from __future__ import annotations

from projseg.benchmarks.records import EngineRun, Run, Timing

__all__ = [
    "bandwidth_share",
    "format_bytes",
    "format_ms",
    "note",
    "peer_ratio",
]


def peer_ratio(run: Run, engine: EngineRun, query: str) -> float | None:
    """Return an engine's median over the best peer's; below 1 is faster than every peer."""
    best = run.best_peer(query)
    timing = engine.timings.get(query)
    if best is None or timing is None or timing.median_ms is None:
        return None
    return timing.median_ms / best[1]


def bandwidth_share(run: Run, timing: Timing) -> float | None:
    """Return the share of the measured read bandwidth that the bytes read would need."""
    if timing.work is None or not timing.median_ms:
        return None
    bytes_per_second = timing.work.bytes / (timing.median_ms / 1000.0)
    return bytes_per_second / run.bandwidth.read_bytes_per_second


def note(timing: Timing) -> str:
    """Return what must stand beside the figure: a failure, another answer, or nothing."""
    if not timing.is_applicable:
        return "not covered"
    if timing.failure:
        return "failed"
    return "" if timing.agrees is not False else "differs"


def format_ms(milliseconds: float | None) -> str:
    """Return milliseconds with three figures that mean something."""
    if milliseconds is None:
        return "-"
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


def format_bytes(count: float | None) -> str:
    """Return a byte count in decimal units."""
    if count is None:
        return "-"
    for unit in ("B", "kB", "MB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"
