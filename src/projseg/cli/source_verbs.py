"""Verbs of foreign tables: attach and sync."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

import projseg
from projseg.cli.declaration_verbs import parse_declarations
from projseg.cli.output import Found
from projseg.cli.shared_arguments import Location, given_options, parsed_options
from projseg.errors import InvalidInputError
from projseg.table_layer.metadata.table_properties import TARGET_SEGMENT_ROWS

_SourceOption = Annotated[
    list[str] | None,
    "KEY=VALUE of the files' store, or of the catalog; never kept: each command needs it.",
]


def attach(
    location: Location,
    source: Annotated[
        str, "parquet:/data/edits/**/*.parquet, delta:/data/edits or iceberg:sales.edits."
    ],
    *,
    time_column: Annotated[str | None, "The column that intervals go by."] = None,
    projection: Annotated[
        list[str] | None,
        typer.Option(
            "--projection", "-p", help="JSON, or NAME=SELECT columns, aggregates GROUP BY ALL."
        ),
    ] = None,
    columns: Annotated[
        str | None, "JSON of the columns to take and their types; default: all of the files."
    ] = None,
    target_segment_rows: Annotated[
        int, "Rows of a file that have a companion of their own."
    ] = TARGET_SEGMENT_ROWS,
    source_option: _SourceOption = None,
) -> Found:
    """Make a table over existing files, which stay where they are and are never written."""
    table = projseg.Table.attach(
        location,
        source,
        time_column=time_column,
        projections=parse_declarations(projection),
        columns=None if columns is None else _columns(columns),
        source_options=parsed_options(source_option or [], "--source-option") or None,
        storage_options=given_options(),
        target_segment_rows=target_segment_rows,
    )
    found = table.source
    assert found is not None, "the table was made over it"
    counts = {"files": found.files, "rows": table.snapshot.row_count}
    return {"location": location, "version": table.version, **counts}


def sync(
    location: Location,
    *,
    dry_run: Annotated[bool, "Only say what it would do."] = False,
    verify: Annotated[bool, "Also read the footers of files that seem to be the same."] = False,
    source_option: _SourceOption = None,
) -> Found:
    """Make companions for new files of a table's source, and drop those of removed files."""
    options = parsed_options(source_option or [], "--source-option") or None
    table = projseg.Table(location, storage_options=given_options(), source_options=options)
    return {"location": location, **asdict(table.sync(dry_run, verify))}


def _columns(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            "PROJSEG_BAD_SCHEMA",
            f"--columns is no JSON: {error}; write names and types as an object",
        ) from None
    if not isinstance(found, dict):
        raise InvalidInputError(
            "PROJSEG_BAD_SCHEMA", "--columns is a JSON object of column names and types"
        )
    return found
