"""Tables of figures as Markdown, to be read in a repository."""

from __future__ import annotations

from typing import Final

from projseg.benchmarks.tables import Cell, TableOfFigures

__all__ = ["as_markdown"]

_MARKS: Final = {"": "{}", "best": "{}", "wrong": "**{}**"}


def as_markdown(table: TableOfFigures) -> str:
    """Return the title, the table and its caption; what is marked as wrong or lost is bold."""
    aligned = ("---" if table.is_text(index) else "---:" for index in range(len(table.headings)))
    lines = [table.headings, tuple(aligned), *(tuple(map(_text, row)) for row in table.rows)]
    drawn = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table.title}:\n\n{drawn}\n\n{table.caption}\n"


def _text(cell: Cell) -> str:
    escaped = cell.text.replace("*", r"\*").replace("|", r"\|").replace("\n", " ")
    return _MARKS[cell.mark].format(escaped)
