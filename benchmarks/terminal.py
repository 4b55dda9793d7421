"""A run and a comparison as tables on a terminal."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from projseg.benchmarks.comparison import Comparison
from projseg.benchmarks.records import Run
from projseg.benchmarks.standings import loss_tables
from projseg.benchmarks.tables import (
    TableOfFigures,
    column_table,
    conditions,
    goal_tables,
    load_table,
    overhead_table,
    remarks,
    time_table,
)

__all__ = ["print_comparison", "print_run"]

_STYLES: Final = {"": "", "best": "bold", "wrong": "red"}


def print_run(run: Run, console: Console) -> None:
    """Print medians, ratios to the best peer, loading, sizes, columns and what went wrong."""
    _print_lines([conditions(run)], console)
    tables = (
        time_table(run),
        overhead_table(run),
        *goal_tables(run),
        *loss_tables(run),
        load_table(run),
        column_table(run),
    )
    for table in tables:
        if table is not None:
            console.print(_drawn(table))
    _print_lines(remarks(run), console)


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print every ratio, and the regressions after them."""
    table = Table("engine", "query", "later / earlier", title="Change, drift removed")
    for (engine, query), ratio in sorted(comparison.ratios.items()):
        table.add_row(engine, query, f"{ratio:.2f}")
    console.print(table)
    console.print(f"the machine was {comparison.drift:.2f} times as slow, by the peers")
    found = [
        f"regression: {regression.engine}: {regression.subject}: {regression.problem}"
        for regression in comparison.regressions
    ]
    _print_lines(found or ["no regression"], console)


def _drawn(figures: TableOfFigures) -> Table:
    table = Table(title=figures.title, caption=figures.caption)
    for index, heading in enumerate(figures.headings):
        table.add_column(heading, justify="left" if figures.is_text(index) else "right")
    for row in figures.rows:
        table.add_row(*(Text(cell.text, _STYLES[cell.mark]) for cell in row))
    return table


def _print_lines(lines: list[str], console: Console) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False)
