"""Verbs that ask a table: query, sql and explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from projseg.algebra.expressions.argument_texts import arguments_of_texts
from projseg.algebra.query.request import Query
from projseg.cli import arguments as given
from projseg.cli.output import OutputFormat, chosen_format, print_rows, terminal
from projseg.cli.query_options import content_of, takes_query
from projseg.cli.stores import open_table

if TYPE_CHECKING:
    from projseg.explain import Explain


@takes_query
def query(
    location: given.Location,
    *,
    query: Query,
    version: given.Version = None,
    timestamp: given.Timestamp = None,
    tag: given.Tag = None,
    output: given.Output = None,
) -> None:
    """Answer a query; without --group-by and --agg, return rows."""
    print_rows(open_table(location, version, timestamp, tag).query(query), output)


def sql(
    location: given.Location,
    statement: Annotated[
        str, typer.Argument(help="One SELECT in Spark's SQL, or @FILE that holds it.")
    ],
    *,
    args: given.Args = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say how it would be answered instead.")
    ] = False,
    timezone: Annotated[
        str | None, typer.Option("--timezone", help="Session time zone; default UTC.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads to work with.")
    ] = None,
    version: given.Version = None,
    timestamp: given.Timestamp = None,
    tag: given.Tag = None,
    output: given.Output = None,
) -> None:
    """Answer a SELECT over the table, whatever name stands after FROM."""
    table = open_table(location, version, timestamp, tag)
    context = {"timezone": timezone, "threads": threads}
    text = content_of(statement, "the statement")
    values = arguments_of_texts(args or (), timezone or "UTC")
    if explain:
        _print_explain(table.sql(text, context=context, args=values, explain=True), output)
    else:
        print_rows(table.sql(text, context=context, args=values), output)


@takes_query
def explain(
    location: given.Location,
    *,
    query: Query,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run it too: rows, bytes and milliseconds.")
    ] = False,
    version: given.Version = None,
    timestamp: given.Timestamp = None,
    tag: given.Tag = None,
    output: given.Output = None,
) -> None:
    """Say how a query would be answered, segment by segment, and why."""
    table = open_table(location, version, timestamp, tag)
    _print_explain(table.explain(query, analyze=analyze), output)


def _print_explain(explained: Explain, output: OutputFormat | None) -> None:
    if chosen_format(output) is OutputFormat.TABLE:
        terminal().print(explained)
    else:
        print_rows(explained.named_segments(), output)
