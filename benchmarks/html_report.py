"""One or more runs as one self-contained HTML page: tables, SVG plots, no scripts, no links out."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from projseg.benchmarks.figures import (
    bandwidth_share,
    cpu_ratio,
    format_bytes,
    format_ms,
    format_ratio,
    goals,
    note,
)
from projseg.benchmarks.plots import (
    plot_bandwidth,
    plot_growth,
    plot_loading,
    plot_ratios,
    plot_sizes,
    plot_times,
)
from projseg.benchmarks.records import EngineRun, QueryText, Run, Timing

__all__ = ["render_report"]

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem;
       color: #1c1c1c; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; display: block;
        overflow-x: auto; }
th, td { padding: 0.25rem 0.6rem; border-bottom: 1px solid #e2e2e2; text-align: right; }
th:first-child, td:first-child { text-align: left; }
td.best { font-weight: 600; } .wrong { color: #b00020; } code { font-size: 12px; }
svg { max-width: 100%; height: auto; } p.small { color: #555; font-size: 13px; }
"""


def render_report(runs: Sequence[Run]) -> str:
    """Return the page: each run in turn, and growth with the number of rows if they differ."""
    parts = [_run_section(run) for run in runs]
    if len({run.row_count for run in runs}) > 1:
        parts.append(_growth_section(runs))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>projseg benchmark</title><style>{_STYLE}</style></head><body>"
        f"<h1>projseg benchmark</h1>{''.join(parts)}</body></html>\n"
    )


def _run_section(run: Run) -> str:
    return "".join(
        (
            f"<h2>{run.row_count:,} rows</h2>",
            _environment(run),
            "<h3>Time</h3>",
            plot_times(run),
            _time_table(run),
            "<h3>Against the peers</h3>",
            plot_ratios(run),
            _goal_tables(run),
            "<h3>Share of memory bandwidth</h3>",
            plot_bandwidth(run),
            "<h3>Loading and size</h3>",
            plot_loading(run),
            plot_sizes(run),
            _load_table(run),
            _column_section(run),
            _answers(run),
            _statements(run),
        )
    )


def _environment(run: Run) -> str:
    machine = run.environment
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    changed = " with local changes" if machine.has_local_changes else ""
    return (
        f'<p class="small">{escape(machine.started)}; {escape(machine.cpu)},'
        f" {machine.cpu_count} processors, {format_bytes(machine.memory_bytes)};"
        f" {escape(machine.system)}, Python {escape(machine.python)}; {escape(versions)};"
        f" commit {escape(machine.commit or 'unknown')}{changed}. {run.thread_count} threads,"
        f" seed {run.seed}, {run.rounds} interleaved rounds. Memory bandwidth: read"
        f" {format_bytes(run.bandwidth.read_bytes_per_second)}/s, copy"
        f" {format_bytes(run.bandwidth.copy_bytes_per_second)}/s.</p>"
    )


def _time_table(run: Run) -> str:
    rows = []
    for query in run.queries:
        medians = [_median(engine, query.name) for engine in run.present]
        best = min((median for median in medians if median is not None), default=None)
        rows.append(
            _row(
                query.name + (" *" if query.covered_by else ""),
                *(_time_cell(engine.timings.get(query.name), best) for engine in run.present),
            )
        )
    heading = _heading("query", *(engine.title for engine in run.present))
    return (
        f"<table>{heading}{''.join(rows)}</table>"
        '<p class="small">Milliseconds, warm median (minimum; cold). * a projection covers it.</p>'
    )


def _time_cell(timing: Timing | None, best: float | None) -> str:
    if timing is None or timing.median_ms is None:
        return (
            f'<td class="wrong">{note(timing)}</td>' if timing and timing.failure else "<td>-</td>"
        )
    kind = "wrong" if note(timing) else "best" if timing.median_ms == best else ""
    detail = f"({format_ms(timing.minimum_ms)}; {format_ms(timing.cold_ms)})"
    return f'<td class="{kind}">{format_ms(timing.median_ms)} <small>{detail}</small></td>'


def _goal_tables(run: Run) -> str:
    """Return a table for each of our engines: targets, processor time, and what was read."""
    parts = []
    for engine in run.present:
        if engine.is_peer or not engine.timings:
            continue
        rows = "".join(
            _goal_row(run, engine, query) for query in run.queries if query.name in engine.timings
        )
        heading = _heading(
            "query", "ms", "ratio to peer", "cpu ratio", "answered from", "rows read",
            "bytes read", "memory",
        )  # fmt: skip
        parts.append(f"<h4>{escape(engine.title)}</h4><table>{heading}{rows}</table>")
    return "".join(parts)


def _goal_row(run: Run, engine: EngineRun, query: QueryText) -> str:
    timing = engine.timings[query.name]
    aims = "<br>".join(
        f'<span class="{"" if goal.is_met else "wrong"}">{goal.ratio:.2f} {escape(goal.peer)}'
        f" {goal.verdict}</span>"
        for goal in goals(run, engine, query)
    )
    work, share = timing.work, bandwidth_share(run, timing)
    sources = ", ".join(f"{name} ({count})" for name, count in work.sources.items()) if work else ""
    cells = (
        format_ms(timing.median_ms),
        aims,
        format_ratio(cpu_ratio(run, engine, query.name)),
        escape(sources),
        f"{work.rows:,}" if work else "-",
        format_bytes(work.bytes if work else None),
        "-" if share is None else f"{share:.0%}",
    )
    return _row(query.name, *(f"<td>{cell}</td>" for cell in cells))


def _load_table(run: Run) -> str:
    rows = [
        _row(
            engine.title,
            *(
                f"<td>{value}</td>"
                for value in (
                    f"{ingest.seconds:.1f}",
                    f"{run.row_count / ingest.seconds:,.0f}",
                    f"{ingest.settle_seconds:.1f}",
                    format_bytes(ingest.peak_bytes),
                    format_bytes(ingest.base_bytes),
                    format_bytes(ingest.projection_bytes),
                    format_ms(engine.start_ms),
                    format_bytes(engine.query_peak_bytes),
                )
            ),
        )
        for engine in run.present
        if (ingest := engine.ingest) is not None
    ]
    heading = _heading(
        "engine",
        "seconds",
        "rows/s",
        "settling s",
        "peak memory",
        "base",
        "projections",
        "open ms",
        "peak memory of queries",
    )
    return f"<table>{heading}{''.join(rows)}</table>"


def _column_section(run: Run) -> str:
    if not run.columns:
        return ""
    rows = []
    for column in run.columns:
        stored, speed = column.segment_bytes, column.segment_decode_bytes_per_second
        values = (
            column.column,
            format_bytes(column.arrow_bytes),
            format_bytes(column.parquet_bytes),
            format_bytes(stored),
            "-" if stored is None else f"{stored / column.parquet_bytes:.2f}",
            f"{column.parquet_decode_bytes_per_second / 1e9:.2f}",
            "-" if speed is None else f"{speed / 1e9:.2f}",
            column.encodings,
        )
        rows.append(_row(column.rows_of, *(f"<td>{escape(value)}</td>" for value in values)))
    heading = _heading(
        "rows", "column", "Arrow", "Parquet", "segment", "ratio", "Parquet GB/s", "segment GB/s",
        "encodings",
    )  # fmt: skip
    return f"<h3>Columns</h3><table>{heading}{''.join(rows)}</table>"


def _answers(run: Run) -> str:
    """Return what did not go well, line by line."""
    lines = [
        f"{engine.title}: missing: {engine.missing}" for engine in run.engines if engine.missing
    ]
    for engine in run.present:
        for name, timing in engine.timings.items():
            if timing.failure:
                lines.append(f"{engine.title}: {name}: failed: {timing.failure}")
            elif timing.agrees is False:
                error = timing.approximation_error
                lines.append(
                    f"{engine.title}: {name}: {timing.difference or f'relative error {error:.3f}'}"
                )
    text = "".join(f"<li>{escape(line)}</li>" for line in lines)
    verdict = f"<ul>{text}</ul>" if lines else "<p>Every answer agrees.</p>"
    return f"<h3>Answers, compared with {escape(run.reference or 'nothing')}</h3>{verdict}"


def _statements(run: Run) -> str:
    rows = (
        _row(query.name, f'<td style="text-align:left"><code>{escape(query.statement)}</code></td>')
        for query in run.queries
    )
    return f"<details><summary>The queries</summary><table>{''.join(rows)}</table></details>"


def _growth_section(runs: Sequence[Run]) -> str:
    names = dict.fromkeys(
        (engine.name, engine.title) for run in runs for engine in run.present if engine.timings
    )
    plots = (
        f"<h3>{escape(title)}</h3>{plot_growth(runs, name)}"
        for name, title in names
        if sum(run.engine(name) is not None for run in runs) > 1
    )
    return f"<h2>Growth with the number of rows</h2>{''.join(plots)}"


def _median(engine: EngineRun, query: str) -> float | None:
    timing = engine.timings.get(query)
    return timing.median_ms if timing else None


def _heading(*names: str) -> str:
    return f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in names)}</tr>"


def _row(first: str, *cells: str) -> str:
    return f"<tr><td>{escape(first)}</td>{''.join(cells)}</tr>"
