"""Small HTML for notebooks; every text is escaped, as stored names are anybody's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

_SHOWN_MAX: Final = 20  # names in a list, and rows of a table


def titled(title: str, *parts: str) -> str:
    """Return a block under a title; the parts are HTML already."""
    return f"<div><strong>{escape(title)}</strong>{''.join(parts)}</div>"


def line(text: str) -> str:
    """Return a line of plain text."""
    return f"<div>{escape(text)}</div>"


def fields(named: Iterable[tuple[str, str]]) -> str:
    """Return one line for each name and its text."""
    return _table(f"<th>{escape(name)}</th><td>{escape(text)}</td>" for name, text in named)


def rows(header: Sequence[str], texts: Sequence[Sequence[str]]) -> str:
    """Return a table of texts, cut after its first rows."""
    lines = [_cells("th", header), *(_cells("td", row) for row in texts[:_SHOWN_MAX])]
    left = len(texts) - _SHOWN_MAX
    return _table(lines) + (line(f"... {left:,} more") if left > 0 else "")


def listed(names: Sequence[str]) -> str:
    """Return names in one line, cut after the first; plain text, not HTML."""
    left = len(names) - _SHOWN_MAX
    return ", ".join(names[:_SHOWN_MAX]) + (f" ... {left:,} more" if left > 0 else "")


def _cells(kind: str, texts: Iterable[str]) -> str:
    return "".join(f"<{kind}>{escape(text)}</{kind}>" for text in texts)


def _table(lines: Iterable[str]) -> str:
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
