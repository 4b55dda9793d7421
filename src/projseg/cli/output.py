"""Prints rows: a table for a person, JSON lines for a program."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

TABLE_ROWS_MAX: Final = 1000
_CELL_CHARACTERS_MAX: Final = 120
_PIPED_WIDTH: Final = 120
_GROUPED_FROM: Final = 10_000  # smaller numbers, years among them, read better without commas


class OutputFormat(StrEnum):
    """How rows are printed; see `-o`."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def chosen_format(asked: OutputFormat | None) -> OutputFormat:
    """Return the format asked for, else a table on a terminal and JSON lines in a pipe."""
    if asked is not None:
        return asked
    return OutputFormat.TABLE if sys.stdout.isatty() else OutputFormat.JSON


def print_rows(rows: pa.Table, asked: OutputFormat | None = None, title: str | None = None) -> None:
    """Print a table's rows to standard output.

    Parameters
    ----------
    rows : Table
        Any types; binary values are printed in hexadecimal.
    asked : OutputFormat or None
        None: by whether standard output is a terminal.
    title : str or None
        A line above a table; other formats leave it out.
    """
    chosen = chosen_format(asked)
    if chosen is OutputFormat.TABLE:
        _print_table(rows, title)
    elif chosen is OutputFormat.JSON:
        for row in _plain_rows(rows):
            sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(rows.column_names)
        for row in _plain_rows(rows):
            writer.writerow([_cell_text(value, null="") for value in row.values()])


def print_fields(
    fields: Mapping[str, Any], asked: OutputFormat | None = None, title: str | None = None
) -> None:
    """Print one record: a field on each line of a table, or one JSON object."""
    plain = {name: plain_value(value) for name, value in fields.items()}
    chosen = chosen_format(asked)
    if chosen is OutputFormat.TABLE:
        lines = {"field": list(plain), "value": [_shown_text(v) for v in plain.values()]}
        _print_table(pa.table(lines), title)
    elif chosen is OutputFormat.JSON:
        sys.stdout.write(json.dumps(plain, ensure_ascii=False) + "\n")
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["field", "value"])
        writer.writerows((name, _cell_text(value, null="")) for name, value in plain.items())


def plain_value(value: Any) -> Any:
    """Return a value as JSON knows it: times in ISO 8601, decimals and bytes as text."""
    return next((plain(value) for kind, plain in _PLAIN if isinstance(value, kind)), value)


def _plain_float(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _plain_mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): plain_value(item) for key, item in value.items()}


def _plain_list(value: Iterable[Any]) -> list[Any]:
    return [plain_value(item) for item in value]


_PLAIN: Final[tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...]] = (
    (datetime, lambda value: value.isoformat().replace("+00:00", "Z")),
    (date, date.isoformat),
    (Decimal, str),
    (bytes, bytes.hex),
    (float, _plain_float),
    (Mapping, _plain_mapping),
    ((list, tuple), _plain_list),
)


def _plain_rows(rows: pa.Table) -> list[dict[str, Any]]:
    return [
        {name: plain_value(value) for name, value in row.items()}
        for row in rows.to_pylist(maps_as_pydicts="lossy")
    ]


def _print_table(rows: pa.Table, title: str | None) -> None:
    shown = rows.slice(0, TABLE_ROWS_MAX)
    table = RichTable(title=title, title_justify="left", header_style="bold")
    for field in rows.schema:
        is_number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        table.add_column(
            Text(field.name), justify="right" if is_number else "left", overflow="fold"
        )
    for row in _plain_rows(shown):
        table.add_row(*(Text(_shown_text(value)) for value in row.values()))
    console = Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH)
    console.print(table)
    if rows.num_rows > TABLE_ROWS_MAX:
        console.print(f"{rows.num_rows - TABLE_ROWS_MAX:,} more rows; use -o json to see all")


def _cell_text(value: Any, null: str = "NULL") -> str:
    if value is None:
        return null
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _shown_text(value: Any) -> str:
    if isinstance(value, int) and abs(value) >= _GROUPED_FROM:
        return f"{value:,}"
    return _shortened(_cell_text(value))


def _shortened(text: str) -> str:
    # Stored text must not steer the terminal: control characters are shown, not sent.
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    limit = _CELL_CHARACTERS_MAX
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
