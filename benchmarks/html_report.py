"""One or more runs as one self-contained HTML page: tables, SVG plots, no scripts, no links out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from projseg.benchmarks.plots import (
    plot_bandwidth,
    plot_growth,
    plot_loading,
    plot_ratios,
    plot_sizes,
    plot_times,
)
from projseg.benchmarks.records import Run
from projseg.benchmarks.standings import loss_tables
from projseg.benchmarks.tables import (
    Cell,
    TableOfFigures,
    column_table,
    conditions,
    goal_tables,
    growth_tables,
    load_table,
    overhead_table,
    remarks,
    time_table,
)

__all__ = ["render_report"]

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem;
       color: #1c1c1c; }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }
th, td { padding: 0.25rem 0.6rem; border-bottom: 1px solid #e2e2e2; text-align: right;
         vertical-align: top; white-space: pre-line; }
.text { text-align: left; } .wrong { color: #b00020; }
.best { font-weight: 600; } .best small { font-weight: 400; }
code { font-size: 12px; } small, p.small { color: #555; } p.small { font-size: 13px; }
svg { max-width: 100%; height: auto; } h4 { margin: 1.5rem 0 0.5rem; }
"""


def render_report(runs: Sequence[Run]) -> str:
    """Return the page: growth with the number of rows where it differs, then each run in turn."""
    by_workload: dict[str, list[Run]] = {}
    for run in runs:
        by_workload.setdefault(run.workload, []).append(run)
    parts = [
        _growth_section(workload, some)
        for workload, some in by_workload.items()
        if len({run.row_count for run in some}) > 1
    ]
    parts += [_run_section(run) for run in runs]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>projseg benchmark</title><style>{_STYLE}</style></head><body>"
        f"<h1>projseg benchmark</h1>{''.join(parts)}</body></html>\n"
    )


def _growth_section(workload: str, runs: Sequence[Run]) -> str:
    heading = f"<h2>Growth with the number of rows of {workload}</h2>"
    return f"{heading}{plot_growth(runs)}{_tables(growth_tables(runs))}"


def _run_section(run: Run) -> str:
    return "".join(
        (
            f"<h2>{run.row_count:,} rows of {run.workload}</h2>",
            f'<p class="small">{escape(conditions(run))}</p>',
            "<h3>Time</h3>",
            plot_times(run),
            _tables((time_table(run), overhead_table(run))),
            "<h3>Against the peers</h3>",
            plot_ratios(run),
            _tables((*loss_tables(run), *goal_tables(run))),
            "<h3>Share of memory bandwidth</h3>",
            plot_bandwidth(run),
            "<h3>Loading and size</h3>",
            plot_loading(run),
            plot_sizes(run),
            _tables((load_table(run), column_table(run))),
            "<h3>Answers</h3>",
            f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in remarks(run))}</ul>",
            _statements(run),
        )
    )


def _statements(run: Run) -> str:
    rows = "".join(
        f'<tr><td class="text">{escape(query.name)}</td>'
        f'<td class="text"><code>{escape(query.statement)}</code></td></tr>'
        for query in run.queries
    )
    return f"<details><summary>The queries</summary><table>{rows}</table></details>"


def _tables(tables: Iterable[TableOfFigures | None]) -> str:
    return "".join(_table(table) for table in tables if table is not None)


def _table(table: TableOfFigures) -> str:
    kinds = [" text" if table.is_text(index) else "" for index in range(len(table.headings))]
    heading = "".join(
        f'<th class="{kind}">{escape(name)}</th>'
        for kind, name in zip(kinds, table.headings, strict=True)
    )
    rows = "".join(f"<tr>{''.join(map(_cell, row, kinds))}</tr>" for row in table.rows)
    caption = "; ".join(filter(None, (table.caption, table.detail_caption)))
    return (
        f"<h4>{escape(table.title)}</h4><table><tr>{heading}</tr>{rows}</table>"
        f'<p class="small">{escape(caption)}</p>'
    )


def _cell(cell: Cell, kind: str) -> str:
    detail = f" <small>{escape(cell.detail)}</small>" if cell.detail else ""
    return f'<td class="{cell.mark}{kind}">{escape(cell.text)}{detail}</td>'
