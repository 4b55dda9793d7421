"""What verbs show: rows as a table for a person or JSON for a program, and how far they are."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable
from rich.text import Text

from projseg.doors.plain_values import plain_mapping, plain_value

TABLE_ROWS_MAX: Final = 1000
_CELL_CHARACTERS_MAX: Final = 120
_PIPED_WIDTH: Final = 120  # characters of a table that goes to a pipe
_TEXT_WIDTH_MIN: Final = 12  # of a column of longer texts: narrower is hard to read
_BORDER_WIDTH: Final = 3  # of each column
_GROUPED_FROM: Final = 10_000  # smaller numbers, years among them, read better without commas


Found: TypeAlias = Mapping[str, Any] | pa.Table | Sequence[Mapping[str, Any]]


class OutputFormat(StrEnum):
    """How rows are printed; see `-o`."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


def chosen_format(asked: OutputFormat | None) -> OutputFormat:
    """Return the format asked for, else a table on a terminal and JSON lines in a pipe."""
    if asked is not None:
        return asked
    return OutputFormat.TABLE if sys.stdout.isatty() else OutputFormat.JSON


def terminal() -> Console:
    """Return standard output, as wide as the terminal or, in a pipe, as a printed page."""
    return Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH, highlight=False)


def print_rows(
    rows: pa.Table | Sequence[Mapping[str, Any]],
    asked: OutputFormat | None = None,
    title: str | None = None,
) -> None:
    """Print rows of any types to standard output, binary values in hexadecimal.

    Mappings all have the same keys. Without a format, whether standard output is a terminal
    decides; only a table has the title, in a line above it.
    """
    chosen = chosen_format(asked)
    if isinstance(rows, pa.Table):
        names, found = rows.column_names, rows.to_pylist(maps_as_pydicts="lossy")
    else:
        names, found = list(rows[0]) if rows else [], list(rows)
    if chosen is OutputFormat.TABLE:
        _print_table(names, found, title)
    elif chosen is OutputFormat.JSON:
        for row in found:
            sys.stdout.write(json.dumps(plain_mapping(row), ensure_ascii=False) + "\n")
    else:
        lines = [[_cell_text(plain_value(one), null="") for one in row.values()] for row in found]
        _print_lines([names, *lines], is_markdown=chosen is OutputFormat.MARKDOWN)


def print_fields(
    fields: Mapping[str, Any], asked: OutputFormat | None = None, title: str | None = None
) -> None:
    """Print one record: a field on each line of a table, or one JSON object."""
    plain = {name: plain_value(value) for name, value in fields.items()}
    chosen = chosen_format(asked)
    if chosen is OutputFormat.TABLE:
        lines = [{"field": name, "value": _shown_text(v)} for name, v in plain.items()]
        _print_table(["field", "value"], lines, title)
    elif chosen is OutputFormat.JSON:
        sys.stdout.write(json.dumps(plain, ensure_ascii=False) + "\n")
    else:
        texts = [[name, _cell_text(value, null="")] for name, value in plain.items()]
        _print_lines([["field", "value"], *texts], is_markdown=chosen is OutputFormat.MARKDOWN)


def _print_lines(lines: Sequence[Sequence[str]], *, is_markdown: bool) -> None:
    """Print names and rows of texts as CSV, or as a table of Markdown."""
    if sys.stdout.isatty():
        lines = [[_harmless(text, kept="\n\t") for text in line] for line in lines]
    if not is_markdown:
        csv.writer(sys.stdout, lineterminator="\n").writerows(lines)
        return
    names, *rows = lines
    for cells in (names, ["---"] * len(names), *rows):
        sys.stdout.write(f"| {' | '.join(map(_markdown_cell, cells))} |\n")


def _markdown_cell(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("|", "\\|")
    return "<br>".join(escaped.splitlines())


class Ended(NamedTuple):
    """What a verb prints, and the exit code of the command."""

    found: Found
    exit_code: int


def print_found(found: Found | Ended, asked: OutputFormat | None) -> None:
    """Print what a verb returns: one record, or rows."""
    if isinstance(found, Ended):
        print_found(found.found, asked)
        raise typer.Exit(found.exit_code)
    if isinstance(found, Mapping):
        print_fields(found, asked)
    else:
        print_rows(found, asked)


@contextmanager
def until_unread() -> Iterator[None]:
    """Print until the reader of standard output has gone (`| head`), which is no failure."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain when it flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None


def listed(found: pa.Table, none: str) -> pa.Table:
    """Return rows, and say on standard error if there are none."""
    if found.num_rows == 0:
        sys.stderr.write(f"{none}\n")
    return found


def in_zone(found: pa.Table, zone: str | None) -> pa.Table:
    """Return rows whose instants are shown in a zone; None means UTC."""
    if zone is None:
        return found
    return found.cast(pa.schema([(field.name, _zoned(field.type, zone)) for field in found.schema]))


def _zoned(kind: pa.DataType, zone: str) -> pa.DataType:
    """Return a type whose instants, also those within, are of a zone."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, zone)
    if pa.types.is_list(kind):
        return pa.list_(_zoned(kind.value_type, zone))
    if pa.types.is_map(kind):
        return pa.map_(_zoned(kind.key_type, zone), _zoned(kind.item_type, zone))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _zoned(field.type, zone)) for field in kind])
    return kind


def previewed(would: Mapping[str, Any], location: str, condition: str = "") -> dict[str, Any]:
    """Return the preview of a verb, and how to let it run."""
    return {**would, "location": location, "to_do_it": f"repeat with --yes{condition}"}


def _print_table(names: list[str], rows: list[Any], title: str | None) -> None:
    """Print a table, or each row as a list of fields where its columns would be too narrow."""
    console = terminal()
    shown = [[plain_value(value) for value in row.values()] for row in rows[:TABLE_ROWS_MAX]]
    texts = [[_shown_text(value) for value in row] for row in shown]
    are_numbers = [_are_numbers(column) for column in zip(*shown, strict=True)]
    are_numbers = are_numbers or [False] * len(names)
    widths = [max(map(cell_len, column)) for column in zip(names, *texts, strict=True)]
    widths_min = [
        width if is_number else min(width, _TEXT_WIDTH_MIN)
        for width, is_number in zip(widths, are_numbers, strict=True)
    ]
    if sum(widths_min) + _BORDER_WIDTH * len(names) < console.width:
        table = RichTable(title=title, title_justify="left", header_style="bold")
        for name, is_number, width in zip(names, are_numbers, widths_min, strict=True):
            table.add_column(
                Text(_harmless(name)),
                justify="right" if is_number else "left",
                overflow="fold",
                # rich narrows columns that may wrap; a column of numbers must keep its width.
                no_wrap=is_number,
                min_width=width,
            )
        for row in texts:
            table.add_row(*map(Text, row))
        console.print(table)
    else:
        _print_records(console, names, texts, title)
    if len(rows) > TABLE_ROWS_MAX:
        console.print(f"{len(rows) - TABLE_ROWS_MAX:,} more rows; use -o json to see all")


def _print_records(
    console: Console, names: list[str], rows: list[list[str]], title: str | None
) -> None:
    """Print each row under a title of its own, a field on each line."""
    if title is not None:
        console.print(Text(title, style="italic"))
    for number, row in enumerate(rows, start=1):
        record = RichTable(
            title=f"row {number:,}",
            title_justify="left",
            title_style="bold",
            show_header=False,
            box=box.SIMPLE,
        )
        record.add_column(max_width=console.width // 2, overflow="fold")
        record.add_column(overflow="fold")
        for name, text in zip(names, row, strict=True):
            record.add_row(Text(_harmless(name)), Text(text))
        console.print(record)


def _are_numbers(values: Iterable[Any]) -> bool:
    """Whether a column holds numbers, which are set to the right and never broken."""
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in known
    )


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
    shown = _harmless(text)
    limit = _CELL_CHARACTERS_MAX
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _harmless(text: str, kept: str = "") -> str:
    # Stored text must not steer the terminal: control characters are shown, not sent.
    return "".join(c if c.isprintable() or c in kept else f"\\x{ord(c):02x}" for c in text)


_MEASURED: Final = (
    SpinnerColumn(),
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
    TimeRemainingColumn(),
)


@contextmanager
def shown_progress(*columns: ProgressColumn) -> Iterator[Progress]:
    """Yield a display of progress; it prints nothing where standard error is no terminal.

    Without columns, a task's line shows what rich shows.
    """
    console = Console(stderr=True)
    progress = Progress(*columns, console=console, disable=not console.is_terminal)
    # Before release 14.3 rich ends a line that it has not begun.
    with progress if console.is_terminal else nullcontext():
        yield progress


@contextmanager
def segments_shown() -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with the number of segments done, and of all."""
    with shown_progress(*_MEASURED) as progress:
        task = progress.add_task("segments", total=None)

        def show(done: int, count: int) -> None:
            progress.update(task, completed=done, total=count)

        yield show


def size_text(byte_count: float) -> str:
    """Return bytes as a person reads them."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if byte_count >= size / 10:
            return f"{byte_count / size:.1f} {unit}"
    return f"{byte_count / 1000:.1f} kB"
