"""Verbs that change what a table declares: its projections, indexes and columns."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

import projseg
from projseg.cli.output import Found, previewed, segments_shown
from projseg.cli.shared_arguments import IsPreview, Location, Scope, SegmentInterval, open_table
from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.indexes.index_kinds import KINDS
from projseg.segment_format.logical_types import type_name
from projseg.table_layer.metadata.index_declaration import find_index

_Column = Annotated[str, "The column."]
_KINDS: Final = "What it finds: " + "; ".join(f"{k.name}, {k.finds}" for k in KINDS.values()) + "."


def add_projection(
    location: Location,
    declaration: Annotated[str, "JSON, or NAME=SELECT columns, aggregates GROUP BY ALL."],
    *,
    max_row_ratio: Annotated[
        float | None, "The most rows, as a share of a segment's base rows."
    ] = None,
    scope: Scope,
) -> Found:
    """Declare a projection; segments written from now on embed it."""
    table = open_table(location)
    for one in parse_declaration(declaration):
        table.add_projection(one, **scope, max_row_ratio=max_row_ratio)
    return _projections(location)


def materialize_projection(
    location: Location,
    name: Annotated[str | None, "The projection; default: all that are declared."] = None,
    *,
    interval: SegmentInterval = None,
) -> Found:
    """Build declared projections in the segments that lack them; base rows are copied as stored."""
    table = open_table(location)
    with segments_shown() as show:
        made = table.materialize_projection(name, interval, on_progress=show)
    fields = {"location": location, "version": made.version, "segments": made.segments}
    return {**fields, "rows": made.rows}


def drop_projection(
    location: Location,
    name: Annotated[str, "The projection's name."],
    *,
    is_preview: IsPreview,
) -> Found:
    """Drop a projection; segments that embed it keep its bytes until they are rewritten."""
    table = open_table(location)
    known = table.projections()["name"].to_pylist()
    if name not in known:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_PROJECTION",
            f"projection '{name}' is not declared on {location}{did_you_mean(name, known)}; its "
            f"projections are {', '.join(known) or 'none'}",
        )
    if is_preview:
        return previewed({"would_drop": name}, location)
    table.drop_projection(name)
    return _projections(location)


def _projections(location: str) -> Found:
    table = open_table(location)
    names = table.projections()["name"].to_pylist()
    return {"location": location, "version": table.version, "projections": names}


def add_index(
    location: Location,
    name: Annotated[str, "The index's name."],
    *,
    column: Annotated[list[str], "A column; repeat it for more, one by one."],
    kind: Annotated[str, _KINDS] = "bloom",
    fpp: Annotated[float, "Share of segments that may be read without need."] = 0.001,
    postings: Annotated[
        bool | None,
        typer.Option(
            "--postings/--no-postings",
            help="Whether segments say which values hold a word or a part, for token and ngram.",
        ),
    ] = None,
    scope: Scope,
) -> Found:
    """Declare an index; commits of segments written from now on have filters for it."""
    table = open_table(location)
    index = projseg.Index(name, column, kind=kind, fpp=fpp, postings=postings)
    table.add_index(index, **scope)
    return _indexes(location)


def materialize_index(
    location: Location,
    name: Annotated[str | None, "The index; default: all that are declared."] = None,
    *,
    interval: SegmentInterval = None,
) -> Found:
    """Build declared indexes for the segments that lack them."""
    table = open_table(location)
    with segments_shown() as show:
        made = table.materialize_index(name, interval, on_progress=show)
    found = table.indexes().to_pylist()
    covered = {f"{row['name']}.{row['column']}": row["covered"] for row in found}
    return {"location": location, "version": made.version, "covered": covered}


def drop_index(
    location: Location,
    name: Annotated[str, "The index's name."],
    *,
    is_preview: IsPreview,
) -> Found:
    """Drop an index; vacuum removes its files."""
    table = open_table(location)
    if is_preview:
        found = find_index(table.properties.declared_indexes, name)
        return previewed({"would_drop": found.name}, location)
    table.drop_index(name)
    return _indexes(location)


def _indexes(location: str) -> Found:
    table = open_table(location)
    names = [index.name for index in table.properties.declared_indexes]
    return {"location": location, "version": table.version, "indexes": names}


def add_column(
    location: Location,
    name: _Column,
    type: Annotated[str, "As in Spark SQL: bigint, decimal(10,2)."],
) -> Found:
    """Add a column, which is null in existing rows."""
    table = open_table(location)
    table.add_column(name, type)
    return _columns(location, table)


def rename_column(
    location: Location,
    old: Annotated[str, "The column's present name."],
    new: Annotated[str, "Its new name."],
) -> Found:
    """Give a column another name, also where projections mention it; no segment is written."""
    table = open_table(location)
    table.rename_column(old, new)
    return _columns(location, table)


def drop_column(location: Location, name: _Column, *, is_preview: IsPreview) -> Found:
    """Drop a column of a table; compaction removes its values from the files."""
    from projseg.table.declaration_commits import dropping
    from projseg.table_layer.column_changes import with_changes

    table = open_table(location)
    if is_preview:
        with_changes(table.properties, dropping(table.properties, [name]))
        return previewed({"would_drop": name}, location)
    table.drop_column(name)
    return _columns(location, table)


def widen_column(
    location: Location,
    name: _Column,
    type: Annotated[str, "A type that holds every value: int to bigint."],
) -> Found:
    """Give a column a wider type, in which existing segments are read."""
    table = open_table(location)
    table.widen_column(name, type)
    return _columns(location, table)


def _columns(location: str, table: projseg.Table) -> Found:
    columns = {field.name: type_name(field.type) for field in table.schema}
    return {"location": location, "version": table.version, "columns": columns}


def parse_declarations(texts: list[str] | None) -> list[dict[str, Any]]:
    """Return the declarations of a repeatable option, as `Table.create` takes them."""
    return [declared for text in texts or () for declared in parse_declaration(text)]


def parse_declaration(text: str) -> list[dict[str, Any]]:
    """Read one text: a JSON object, a JSON array of them, or `NAME=SELECT ... GROUP BY ...`.

    Raises InvalidInputError (PROJSEG_BAD_PROJECTION) if the text is none of these.
    """
    stripped = text.strip()
    if stripped.startswith(("{", "[")):
        try:
            declared = json.loads(stripped)
        except (ValueError, RecursionError) as error:
            raise _bad_declaration(text, f"it is not JSON ({error})") from None
        many = declared if isinstance(declared, list) else [declared]
        if not all(isinstance(one, dict) for one in many):
            raise _bad_declaration(text, "a JSON declaration is an object")
        return many
    name, mark, sql = stripped.partition("=")
    if not mark or not sql.strip().lower().startswith("select"):
        raise _bad_declaration(text, "give JSON, or NAME=SELECT columns, aggregates GROUP BY ALL")
    return [{"name": name.strip(), "sql": sql.strip()}]


def _bad_declaration(text: str, why: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_BAD_PROJECTION", f"projection '{text}': {why}")
