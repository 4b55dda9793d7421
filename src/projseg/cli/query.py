"""Verbs that ask a table: query and explain."""

from __future__ import annotations

from typing import Annotated

import typer

from projseg.algebra.query.request import Query
from projseg.cli import arguments as given
from projseg.cli.output import OutputFormat, chosen_format, print_rows, terminal
from projseg.cli.query_options import takes_query
from projseg.cli.stores import open_table


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
    explained = open_table(location, version, timestamp, tag).explain(query, analyze=analyze)
    if chosen_format(output) is OutputFormat.TABLE:
        terminal().print(explained)
    else:
        print_rows(explained.named_segments(), output)
