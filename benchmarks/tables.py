"""The tables of a run, made once: `terminal` prints them, `html_report` puts them on a page."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from projseg.benchmarks.figures import (
    bandwidth_share,
    cpu_ratio,
    format_bytes,
    format_ms,
    format_ratio,
    goals,
    medians_by_rows,
    note,
    own_engines,
)
from projseg.benchmarks.records import ColumnStorage, EngineRun, QueryText, Run, Timing

__all__ = [
    "Cell",
    "TableOfFigures",
    "column_table",
    "conditions",
    "goal_tables",
    "growth_tables",
    "load_table",
    "overhead_table",
    "remarks",
    "time_table",
]

_TINY_ROWS_MAX: Final = 10_000  # where an engine's time is not spent on rows
_TEXTS: Final = frozenset({"column", "peer", "answered from", "encodings"})


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure; `detail` is for where there is room."""

    text: str
    detail: str = ""
    mark: Literal["", "best", "wrong"] = ""


@dataclass(frozen=True, slots=True)
class TableOfFigures:
    """Rows of as many cells as there are headings; the first names the row."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    detail_caption: str = ""  # what the cells' details are

    def is_text(self, column_index: int) -> bool:
        """Whether a column holds words rather than figures."""
        return column_index == 0 or self.headings[column_index] in _TEXTS


def conditions(run: Run) -> str:
    """Return under what conditions the run measured, in one paragraph."""
    machine = run.environment
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    changed = " with local changes" if machine.has_local_changes else ""
    turn = f"up to {run.answers_per_turn} answers" if run.answers_per_turn > 1 else "one answer"
    return (
        f"{run.row_count:,} rows of {run.workload}, seed {run.seed}, {run.thread_count} threads,"
        f" {run.rounds} rounds with {turn} a turn; {machine.started}; {machine.cpu},"
        f" {machine.cpu_count} processors, {format_bytes(machine.memory_bytes)}; memory read"
        f" {format_bytes(run.bandwidth.read_bytes_per_second)}/s, copied"
        f" {format_bytes(run.bandwidth.copy_bytes_per_second)}/s; {machine.system}, Python"
        f" {machine.python}; {versions}; commit {(machine.commit or 'unknown')[:10]}{changed}"
    )


def time_table(run: Run) -> TableOfFigures:
    """Return the medians of every query and engine, the best of each query marked."""
    rows = []
    for query in run.queries:
        timings = [engine.timings.get(query.name) for engine in run.present]
        medians = [timing.median_ms for timing in timings if timing and timing.median_ms]
        name = f"{query.name} *" if query.covered_by else query.name
        rows.append((Cell(name), *(_time(timing, min(medians, default=0)) for timing in timings)))
    return TableOfFigures(
        "Milliseconds, warm median",
        ("query", *(engine.title for engine in run.present)),
        tuple(rows),
        "* a projection covers it; differs: not the reference's answer",
        "in brackets: minimum; first time, cold",
    )


def goal_tables(run: Run) -> list[TableOfFigures]:
    """Return, for each of our engines, what its targets name, and what was read."""
    headings = (
        "query", "ms", "peer", "ratio", "target", "cpu ratio", "first ms", "rows read",
        "bytes read", "memory", "answered from",
    )  # fmt: skip
    return [
        TableOfFigures(
            f"{engine.title}, against its targets",
            headings,
            tuple(
                _goals(run, engine, query, timing)
                for query in run.queries
                if (timing := engine.timings.get(query.name)) is not None
            ),
            "cpu ratio: processor time over the best peer's; memory: bytes read for each second,"
            " over the bandwidth measured in this run; answered from: segments by source",
        )
        for engine in own_engines(run)
    ]


def load_table(run: Run) -> TableOfFigures:
    """Return loading, sizes and memory of every engine."""
    return TableOfFigures(
        "Loading and size",
        (
            "engine", "seconds", "rows/s", "settling s", "peak memory", "base", "projections",
            "open ms", "peak memory of queries",
        ),
        tuple(
            _cells(
                engine.title,
                f"{ingest.seconds:.1f}",
                f"{run.row_count / ingest.seconds:,.0f}",
                f"{ingest.settle_seconds:.1f}",
                format_bytes(ingest.peak_bytes),
                format_bytes(ingest.base_bytes),
                format_bytes(ingest.projection_bytes),
                format_ms(engine.start_ms),
                format_bytes(engine.query_peak_bytes),
            )
            for engine in run.present
            if (ingest := engine.ingest) is not None
        ),
        "peak memory: of the process and its children, without mapped files",
    )  # fmt: skip


def overhead_table(run: Run) -> TableOfFigures | None:
    """Return the fixed cost of queries, from a run of few rows; None for other runs."""
    if run.row_count > _TINY_ROWS_MAX:
        return None
    rows = []
    for engine in run.present:
        timings = [timing for timing in engine.timings.values() if timing.median_ms]
        medians = [timing.median_ms for timing in timings if timing.median_ms]
        if not medians:
            continue
        colds = [timing.cold_ms for timing in timings if timing.cold_ms]
        figures = (min(medians), statistics.median(medians), max(medians))
        first = statistics.median(colds) if colds else None
        times = map(format_ms, (*figures, first, engine.start_ms))
        rows.append(_cells(engine.title, str(len(medians)), *times))
    return TableOfFigures(
        f"Overhead: milliseconds a query over {run.row_count:,} rows",
        ("engine", "queries", "fastest", "median", "slowest", "median of first", "open ms"),
        tuple(rows),
        "over the queries that the engine answered; first: cold, once a process",
    )


def column_table(run: Run) -> TableOfFigures | None:
    """Return each column's bytes and decoding speed; None where they were not measured."""
    if not run.columns:
        return None
    return TableOfFigures(
        "Columns: bytes stored and GB/s decoded to Arrow",
        (
            "rows", "column", "Arrow", "Parquet", "segment", "ratio", "Parquet GB/s",
            "segment GB/s", "encodings",
        ),
        tuple(_column(column) for column in run.columns),
    )  # fmt: skip


def growth_tables(runs: Sequence[Run]) -> list[TableOfFigures]:
    """Return our medians by number of rows, and how much they and the best peer's grew."""
    counts = sorted({run.row_count for run in runs})
    names = dict.fromkeys((one.name, one.title) for run in runs for one in own_engines(run))
    tables = []
    for name, title in names:
        rows = []
        for query in dict.fromkeys(query.name for run in runs for query in run.queries):
            medians = medians_by_rows(runs, name, query)
            if len(medians) > 1:
                times = (format_ms(medians.get(count)) for count in counts)
                growth = (_growth(medians), _growth(_best_peers(runs, query)))
                rows.append(_cells(query, *times, *growth))
        if rows:
            headings = (*(f"{count:,} rows" for count in counts), "growth", "best peer's growth")
            caption = (
                f"growth: the last time over the first; rows grew {counts[-1] / counts[0]:g}-fold"
            )
            tables.append(TableOfFigures(title, ("query", *headings), tuple(rows), caption))
    return tables


def remarks(run: Run) -> list[str]:
    """Return one line for each engine that is missing and each answer that is not right."""
    lines = [
        f"missing: {engine.title}: {engine.missing}" for engine in run.engines if engine.missing
    ]
    for engine in run.present:
        for name, timing in engine.timings.items():
            if timing.failure:
                lines.append(f"failed: {engine.title}: {name}: {timing.failure}")
            elif timing.agrees is False:
                problem = timing.difference or f"relative error {timing.approximation_error:.3f}"
                lines.append(f"differs: {engine.title}: {name}: {problem}")
    is_right = not any(line.startswith(("failed", "differs")) for line in lines)
    verdict = f"every answer agrees with that of the reference, {run.reference or 'nothing'}"
    return [*lines, verdict] if is_right else lines


def _cells(*texts: str) -> tuple[Cell, ...]:
    return tuple(map(Cell, texts))


def _time(timing: Timing | None, best: float) -> Cell:
    if timing is None:
        return Cell("-")
    remark = note(timing)
    mark: Literal["wrong", ""] = "wrong" if timing.failure or timing.agrees is False else ""
    if timing.median_ms is None:
        return Cell(remark or "-", mark=mark)
    return Cell(
        f"{format_ms(timing.median_ms)} {remark}".rstrip(),
        f"({format_ms(timing.minimum_ms)}; {format_ms(timing.cold_ms)})",
        mark or ("best" if timing.median_ms == best else ""),
    )


def _goals(run: Run, engine: EngineRun, query: QueryText, timing: Timing) -> tuple[Cell, ...]:
    aims, work = goals(run, engine, query), timing.work
    share = bandwidth_share(run, timing)
    is_missed = not all(goal.is_met for goal in aims)
    sources = (f"{name} ({count})" for name, count in (work.sources if work else {}).items())
    return (
        *_cells(query.name, format_ms(timing.median_ms)),
        Cell("\n".join(goal.peer for goal in aims)),
        Cell("\n".join(format_ratio(goal.ratio) for goal in aims)),
        Cell("\n".join(goal.verdict for goal in aims), mark="wrong" if is_missed else ""),
        *_cells(
            format_ratio(cpu_ratio(run, engine, query.name)),
            format_ms(timing.cold_ms),
            f"{work.rows:,}" if work else "-",
            format_bytes(work.bytes if work else None),
            "-" if share is None else f"{share:.0%}",
            ", ".join(sources),
        ),
    )


def _column(column: ColumnStorage) -> tuple[Cell, ...]:
    stored, speed = column.segment_bytes, column.segment_decode_bytes_per_second
    return _cells(
        column.rows_of,
        column.column,
        format_bytes(column.arrow_bytes),
        format_bytes(column.parquet_bytes),
        format_bytes(stored),
        format_ratio(None if stored is None else stored / column.parquet_bytes),
        f"{column.parquet_decode_bytes_per_second / 1e9:.2f}",
        "-" if speed is None else f"{speed / 1e9:.2f}",
        column.encodings,
    )


def _best_peers(runs: Sequence[Run], query: str) -> dict[int, float]:
    found = {run.row_count: run.best_peer(query) for run in runs}
    return {count: best[1] for count, best in sorted(found.items()) if best is not None}


def _growth(medians: dict[int, float]) -> str:
    """Return the median at most rows over that at least rows."""
    times = list(medians.values())
    return format_ratio(times[-1] / times[0] if len(times) > 1 else None)
