"""Verbs that change rows which are in a table: delete, truncate, update, merge and erase."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Annotated, Final, Literal

import pyarrow as pa
import typer

from projseg.catalog.external.input_columns import BadLines
from projseg.catalog.external.input_files import Sources
from projseg.catalog.external.text_files import TextForm
from projseg.cli.output import Ended, Found, previewed
from projseg.cli.shared_arguments import Condition, Filter, IsPreview, Location, open_table
from projseg.errors import InvalidInputError
from projseg.maintenance.row_changes.delete_and_update import Corrected

EXIT_STILL_STORED: Final = 3

WhenMatched = Literal["update", "delete", "ignore"]
WhenNotMatched = Literal["insert", "ignore"]


def delete(
    location: Location,
    *,
    filter: Filter = None,
    condition: Condition,
    is_preview: IsPreview,
) -> Found:
    """Remove rows; without --yes, only count them."""
    if filter is None and condition["interval"] is None:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"nothing says which rows of {location} to delete; give --filter or --interval, or "
            "use truncate",
        )
    done = open_table(location).delete(filter, **condition, dry_run=is_preview)
    return _done(location, done, "delete", is_preview=is_preview)


def truncate(location: Location, *, is_preview: IsPreview) -> Found:
    """Remove all rows; earlier versions keep them."""
    done = open_table(location).truncate(dry_run=is_preview)
    return _done(location, done, "delete", is_preview=is_preview)


def update(
    location: Location,
    *,
    values: Annotated[
        list[str], typer.Option("--set", help="COLUMN=EXPRESSION in Spark SQL; repeatable.")
    ],
    filter: Filter = None,
    condition: Condition,
    is_preview: IsPreview,
) -> Found:
    """Set columns of rows; without --yes, only count them."""
    assigned = {}
    for text in values:
        name, mark, expression = text.partition("=")
        if not mark:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"--set '{text}' is not of the form COLUMN=EXPRESSION"
            )
        assigned[name.strip()] = expression
    done = open_table(location).update(assigned, filter, **condition, dry_run=is_preview)
    return _done(location, done, "update", is_preview=is_preview)


def merge(
    location: Location,
    file: Annotated[str, "Rows to merge: Parquet, CSV or JSON lines."],
    *,
    on: Annotated[list[str], "A key column; repeatable."],
    when_matched: Annotated[WhenMatched, "For rows whose key is in the file."] = "update",
    when_not_matched: Annotated[WhenNotMatched, "For keys of the file alone."] = "insert",
    is_preview: IsPreview,
) -> Found:
    """Update or delete rows by the keys of a file, and insert its other rows."""
    table = open_table(location)
    source = Sources([file], None, TextForm())
    given = pa.schema([field for field in table.schema if field.name in source.schema.names])
    bad = BadLines(advice="nothing was merged: mend it")
    rows = pa.Table.from_batches(source.rows(given, bad, lambda _: None), given)
    done = table.merge(rows, on, when_matched, when_not_matched, dry_run=is_preview)
    return _done(location, done, "merge", is_preview=is_preview)


def _done(location: str, done: Corrected, verb: str, *, is_preview: bool) -> Found:
    if not is_preview:
        return {"location": location, **asdict(done)}
    counts = {
        "delete": done.deleted_rows,
        "update": done.updated_rows,
        "insert": done.inserted_rows,
    }
    if verb == "merge":
        would = {f"would_{what}_rows": count for what, count in counts.items()}
        would = {"would_merge_rows": sum(counts.values()), **would}
    else:
        would = {f"would_{verb}_rows": counts[verb]}
    return previewed(would, location)


def erase(
    location: Location,
    *,
    filter: Annotated[str, "Rows for which this Spark SQL is true."],
    condition: Condition,
    retention_hours: Annotated[float, "Keep versions that were current since then."] = 0,
    is_preview: IsPreview,
) -> Found | Ended:
    """Delete rows for good; exit with 3 if their values are still found."""
    table = open_table(location)
    if is_preview:
        counted = table.delete(filter, **condition, dry_run=True)
        kept = table.tags()["tag"].to_pylist()
        would = {"would_erase_rows": counted.deleted_rows, "tags_that_are_kept": kept}
        return previewed(would, location, ", while nothing else uses the table")
    done = table.erase(filter, **condition, retention_hours=retention_hours)
    found = done.found.to_pylist()
    counts = {one.name: getattr(done, one.name) for one in fields(done)}
    shown = {"location": location, **counts, "found": found}
    return Ended(shown, EXIT_STILL_STORED if found else 0)
