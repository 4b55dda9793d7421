"""Verbs that read a table or its metadata; and the page, where a browser shows that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

import projseg
from projseg.algebra.expressions.argument_texts import arguments_of_texts
from projseg.algebra.query.request import Query
from projseg.cli.output import (
    Found,
    OutputFormat,
    chosen_format,
    in_zone,
    listed,
    print_fields,
    print_rows,
    terminal,
)
from projseg.cli.shared_arguments import (
    Args,
    At,
    Condition,
    Filter,
    GivenContext,
    GivenQuery,
    Location,
    OtherTables,
    Output,
    TablePlaces,
    content_of,
    given_options,
    open_table,
    sql_list,
    tables_named,
)
from projseg.doors.exported_files import STANDARD_OUTPUT, FileFormat, format_of, write_rows
from projseg.errors import InvalidInputError
from projseg.explain import Explain
from projseg.segment_format.logical_types import type_name
from projseg.table_layer.metadata_tables import METADATA_TABLES


def query(location: Location, *, query: GivenQuery, at: At) -> Found:
    """Answer a query; without --group-by and --agg, return rows."""
    zone = (query.context or {}).get("timezone")
    return in_zone(open_table(location, **at).query(query), zone)


def sql(
    location: Location,
    statement: Annotated[str, "One SELECT in Spark's SQL, or @FILE that holds it."],
    *,
    args: Args = None,
    table: OtherTables = None,
    explain: Annotated[bool, "Say how it would be answered instead."] = False,
    context: GivenContext,
    at: At,
    output: Output = None,
) -> None:
    """Answer a SELECT over the table; names after FROM mean it, except those of --table."""
    fact = open_table(location, **at)
    tables = tables_named(table)
    text = content_of(statement, "the statement")
    values = arguments_of_texts(args or (), context["timezone"] or "UTC")
    if explain:
        explained = fact.sql(text, context=context, args=values, tables=tables, explain=True)
        _print_explain(explained, output)
    else:
        found = fact.sql(text, context=context, args=values, tables=tables)
        print_rows(in_zone(found, context["timezone"]), output)


def export(
    location: Location,
    file: Annotated[str, "The file to write; - is standard output."] = STANDARD_OUTPUT,
    *,
    statement: Annotated[
        str | None, typer.Option("--sql", help="A SELECT whose rows are written, or @FILE.")
    ] = None,
    columns: Annotated[
        list[str] | None, "Columns or expressions to write; default: all columns."
    ] = None,
    filter: Filter = None,
    format: Annotated[
        FileFormat | None, "parquet, arrow, csv or jsonl; default: by FILE's name."
    ] = None,
    condition: Condition,
    at: At,
) -> None:
    """Write rows into a Parquet, Arrow, CSV or JSON lines file, all of them or none."""
    kind = format_of(file, format)
    table = open_table(location, **at)
    args, context = condition["args"], {"timezone": condition["timezone"]}
    if statement is None:
        wanted, interval = sql_list(columns) or None, condition["interval"]
        rows = table.scan(wanted, filter, interval, context=context, args=args)
    elif columns or filter or condition["interval"]:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            "--sql says all of a question; put --columns, --filter and --interval into it",
        )
    else:
        text = content_of(statement, "the statement")
        rows = table.sql(text, context=context, args=args).to_reader()
    count = write_rows(rows, file, kind)
    if file != STANDARD_OUTPUT:
        size = Path(file).stat().st_size
        print_fields({"file": file, "format": kind, "rows": count, "bytes": size})


def explain(
    location: Location,
    statement: Annotated[str | None, "One SELECT, as in `sql`; or the options of a query."] = None,
    *,
    query: GivenQuery,
    analyze: Annotated[bool, "Run it too: rows, bytes and milliseconds."] = False,
    what_if: Annotated[
        list[str] | None, "As if there were this projection: 'NAME=SELECT ...'; repeatable."
    ] = None,
    without: Annotated[list[str] | None, "As if this projection were dropped; repeatable."] = None,
    at: At,
    output: Output = None,
) -> None:
    """Say how a query would be answered, segment by segment, and why."""
    table = open_table(location, **at)
    if_not: dict[str, Any] = {"what_if": _projections(what_if), "without": without or ()}
    if statement is None:
        _print_explain(table.explain(query, analyze=analyze, **if_not), output)
        return
    if analyze or query != Query(context=query.context, args=query.args):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            "a statement stands beside options of a query or --analyze; give one of them",
        )
    text = content_of(statement, "the statement")
    explained = table.explain(text, context=query.context, args=query.args, **if_not)
    _print_explain(explained, output)


def _projections(texts: list[str] | None) -> list[dict[str, str]]:
    """Return the projections of texts `NAME=SELECT ...`."""
    found = []
    for text in texts or ():
        name, is_there, sql = text.partition("=")
        if not is_there or not name.strip():
            raise InvalidInputError(
                "PROJSEG_BAD_OPTION", f"--what-if is {text!r}; write NAME=SELECT ... GROUP BY ..."
            )
        found.append({"name": name.strip(), "sql": sql.strip()})
    return found


def _print_explain(explained: Explain, output: OutputFormat | None) -> None:
    if chosen_format(output) is OutputFormat.TABLE:
        terminal().print(explained)
    else:
        print_rows(explained.named_segments(), output)


def describe(location: Location, *, at: At, output: Output = None) -> None:
    """Say what a table holds: version, rows, segments, bytes, properties, projections."""
    print_fields(open_table(location, **at).detail(), output, title=location)


def schema(location: Location, *, at: At) -> Found:
    """List a table's columns and their types."""
    stored = open_table(location, **at).schema
    names = pa.array(stored.names, pa.string())
    types = pa.array([type_name(field.type) for field in stored], pa.string())
    return pa.table({"column": names, "type": types})


def metadata_verb(name: str) -> Callable[..., Found]:
    """Return the verb that lists a metadata table."""
    table = METADATA_TABLES[name]

    def of_newest(location: Location) -> Found:
        found = table.rows(open_table(location).snapshot)
        return listed(found, f"{location} has no {name}")

    def of_version(location: Location, *, at: At) -> Found:
        found = table.rows(open_table(location, **at).snapshot)
        return listed(found, f"{location} has no {name}")

    verb = of_newest if table.is_of_versions else of_version
    verb.__name__, verb.__doc__ = name, f"List {table.meaning}"
    return verb


def ui(
    places: TablePlaces,
    *,
    port: Annotated[int, "The first of ten ports that are tried; 0: any."] = 8642,
    host: Annotated[str, "Where it listens."] = "127.0.0.1",
    allow_remote: Annotated[bool, "Other machines may reach --host; nothing is encrypted."] = False,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the address in this machine's browser.")
    ] = False,
    timeout: Annotated[float, "Most seconds of a query."] = 30,
    max_rows: Annotated[int, "Most rows of an answer that can be downloaded."] = 100_000,
    allow_changes: Annotated[
        bool, "The page may build, add and drop projections, and the like; never rows."
    ] = False,
    log: Annotated[
        str | None, "A query log whose queries are shown; default: PROJSEG_QUERY_LOG."
    ] = None,
    token_file: Annotated[
        str | None, "A file of mode 0600 with the token; default: a new token at each start."
    ] = None,
) -> None:
    """Serve tables to a browser of this machine until interrupted, and print the address."""
    projseg.serve_page(
        places,
        host=host,
        port=port,
        allow_remote=allow_remote,
        token_file=token_file,
        open_browser=open_browser,
        timeout=timeout,
        max_rows=max_rows,
        log=log,
        allow_changes=allow_changes,
        storage_options=given_options(),
    )
