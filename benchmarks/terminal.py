"""A run and a comparison as tables on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from projseg.benchmarks.comparison import Comparison
from projseg.benchmarks.figures import (
    bandwidth_share,
    cpu_ratio,
    format_bytes,
    format_ms,
    format_ratio,
    goals,
    note,
)
from projseg.benchmarks.records import EngineRun, Run

__all__ = ["print_comparison", "print_run"]


def print_run(run: Run, console: Console) -> None:
    """Print medians, ratios to the best peer, ingest, sizes, columns and what went wrong."""
    environment = run.environment
    console.print(
        f"{run.row_count:,} rows, {run.thread_count} threads, median of {run.rounds} rounds;"
        f" {environment.cpu}, {environment.cpu_count} processors,"
        f" {format_bytes(environment.memory_bytes)};"
        f" memory {format_bytes(run.bandwidth.read_bytes_per_second)}/s;"
        f" commit {(environment.commit or 'unknown')[:10]}"
        f"{' with local changes' if environment.has_local_changes else ''}"
    )
    console.print(_query_table(run))
    for engine in run.present:
        if not engine.is_peer and engine.timings:
            console.print(_own_table(run, engine))
    console.print(_load_table(run))
    if run.columns:
        console.print(_column_table(run))
    for line in _remarks(run):
        console.print(line, markup=False, highlight=False)


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print every ratio, and the regressions after them."""
    table = Table("engine", "query", "later / earlier", title="Change, drift removed")
    for (engine, query), ratio in sorted(comparison.ratios.items()):
        table.add_row(engine, query, f"{ratio:.2f}")
    console.print(table)
    console.print(f"the machine was {comparison.drift:.2f} times as slow, by the peers")
    for regression in comparison.regressions:
        console.print(
            f"regression: {regression.engine}: {regression.subject}: {regression.problem}",
            markup=False,
            highlight=False,
        )
    if not comparison.regressions:
        console.print("no regression")


def _query_table(run: Run) -> Table:
    table = Table("query", title="Milliseconds, warm median")
    for engine in run.present:
        table.add_column(engine.title, justify="right")
    for query in run.queries:
        name = f"{query.name} *" if query.covered_by else query.name
        table.add_row(name, *(_cell(engine, query.name) for engine in run.present))
    table.caption = "* a projection covers it; differs: not the reference's answer"
    return table


def _cell(engine: EngineRun, query: str) -> str:
    timing = engine.timings.get(query)
    if timing is None:
        return "-"
    return " ".join(filter(None, (format_ms(timing.median_ms), note(timing))))


def _own_table(run: Run, engine: EngineRun) -> Table:
    """Return one of our engines against the peers that its targets name."""
    table = Table("query", "ms", title=f"{engine.title}, against its targets")
    headings = ("cpu ratio", "first ms", "rows read", "bytes read", "memory")
    for heading in ("peer", "ratio", "target", *headings):
        table.add_column(heading, justify="right")
    for query in run.queries:
        timing = engine.timings.get(query.name)
        if timing is None:
            continue
        aims = goals(run, engine, query)
        share = bandwidth_share(run, timing)
        table.add_row(
            query.name,
            format_ms(timing.median_ms),
            "\n".join(goal.peer for goal in aims),
            "\n".join(format_ratio(goal.ratio) for goal in aims),
            "\n".join(goal.verdict for goal in aims),
            format_ratio(cpu_ratio(run, engine, query.name)),
            format_ms(timing.cold_ms),
            f"{timing.work.rows:,}" if timing.work else "-",
            format_bytes(timing.work.bytes if timing.work else None),
            "-" if share is None else f"{share:.0%}",
        )
    table.caption = (
        "cpu ratio: processor time over the best peer's; memory: bytes read for each second, over"
        " the bandwidth measured in this run"
    )
    return table


def _load_table(run: Run) -> Table:
    table = Table("engine", title="Loading and size")
    headings = ("seconds", "rows/s", "settling", "memory", "base", "projections", "open ms")
    for heading in (*headings, "queries' memory"):
        table.add_column(heading, justify="right")
    for engine in run.present:
        ingest = engine.ingest
        if ingest is None:
            continue
        table.add_row(
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
    table.caption = "memory: at its peak, of the process and its children, without mapped files"
    return table


def _column_table(run: Run) -> Table:
    table = Table("rows", "column", title="Columns: bytes stored and GB/s decoded to Arrow")
    for heading in ("Arrow", "Parquet", "segment", "ratio", "Parquet GB/s", "segment GB/s"):
        table.add_column(heading, justify="right")
    table.add_column("encodings")
    for column in run.columns:
        stored, speed = column.segment_bytes, column.segment_decode_bytes_per_second
        table.add_row(
            column.rows_of,
            column.column,
            format_bytes(column.arrow_bytes),
            format_bytes(column.parquet_bytes),
            format_bytes(stored),
            "-" if stored is None else f"{stored / column.parquet_bytes:.2f}",
            f"{column.parquet_decode_bytes_per_second / 1e9:.2f}",
            "-" if speed is None else f"{speed / 1e9:.2f}",
            column.encodings,
        )
    return table


def _remarks(run: Run) -> list[str]:
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
    return [*lines, "every answer agrees with the reference engine's"] if is_right else lines
