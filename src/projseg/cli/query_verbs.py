"""Verbs that read a table, or what it says of itself."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa

from projseg.algebra.expressions.argument_texts import arguments_of_texts
from projseg.cli.output import (
    Found,
    OutputFormat,
    chosen_format,
    print_fields,
    print_rows,
    terminal,
)
from projseg.cli.shared_arguments import (
    Args,
    At,
    GivenContext,
    GivenQuery,
    Location,
    OtherTables,
    Output,
    content_of,
    open_table,
    tables_named,
)
from projseg.explain import Explain
from projseg.segment_format.logical_types import type_name


def query(location: Location, *, query: GivenQuery, at: At) -> Found:
    """Answer a query; without --group-by and --agg, return rows."""
    return open_table(location, **at).query(query)


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
    """Answer a SELECT over the table, which every name after FROM means but those of --table."""
    fact = open_table(location, **at)
    tables = tables_named(table)
    text = content_of(statement, "the statement")
    values = arguments_of_texts(args or (), context["timezone"] or "UTC")
    if explain:
        explained = fact.sql(text, context=context, args=values, tables=tables, explain=True)
        _print_explain(explained, output)
    else:
        print_rows(fact.sql(text, context=context, args=values, tables=tables), output)


def explain(
    location: Location,
    *,
    query: GivenQuery,
    analyze: Annotated[bool, "Run it too: rows, bytes and milliseconds."] = False,
    at: At,
    output: Output = None,
) -> None:
    """Say how a query would be answered, segment by segment, and why."""
    table = open_table(location, **at)
    _print_explain(table.explain(query, analyze=analyze), output)


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


def segments(location: Location, *, at: At) -> Found:
    """List a table's segments: file, interval, rows, bytes."""
    return open_table(location, **at).segments()


def projections(location: Location, *, at: At) -> Found:
    """List a table's projections and how many segments hold each."""
    return open_table(location, **at).projections()


def indexes(location: Location, *, at: At) -> Found:
    """List a table's indexes and how many segments each covers."""
    return open_table(location, **at).indexes()


def history(location: Location) -> Found:
    """List the commits of a table, newest first."""
    return open_table(location).history()
