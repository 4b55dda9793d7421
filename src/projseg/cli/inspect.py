"""The verb `inspect`: one segment file, part by part."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from projseg.cli import segment_report
from projseg.cli.arguments import Output
from projseg.cli.output import OutputFormat, chosen_format, print_fields, print_rows

_WIDE_FIELDS: Final = frozenset({"kind", "role", "nulls", "raw_bytes", "definition"})


def inspect(
    file: Annotated[str, typer.Argument(help="A segment file (.pseg).")],
    output: Output = None,
) -> None:
    """Show a segment's tables, columns, encodings, dictionaries and what each takes.

    As JSON, each line says in `part` what it describes; as CSV, only the columns are printed.
    """
    segment = segment_report.describe_file(file)
    parts: dict[str, list[dict[str, Any]]] = {
        "tables": segment_report.table_rows(segment),
        "columns": segment_report.column_rows(segment),
        "dictionaries": segment_report.dictionary_rows(segment),
    }
    chosen = chosen_format(output)
    if chosen is OutputFormat.CSV:
        print_rows(parts["columns"], chosen)
        return
    totals = segment_report.summary(segment)
    is_json = chosen is OutputFormat.JSON
    print_fields({"part": "segment", **totals} if is_json else totals, chosen)
    for part, rows in parts.items():
        if rows:
            shown = [{"part": part, **row} for row in rows] if is_json else _narrowed(rows)
            print_rows(shown, chosen, title=part)


def _narrowed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without fields that are too wide for a terminal, or empty in every row."""
    silent = {name for name in rows[0] if all(row[name] is None for row in rows)}
    return [
        {name: value for name, value in row.items() if name not in _WIDE_FIELDS | silent}
        for row in rows
    ]
