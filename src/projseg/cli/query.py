"""Verbs that ask a table: query and explain."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import projseg
from projseg.cli import arguments as given
from projseg.cli.output import OutputFormat, chosen_format, print_rows, terminal


def query(
    location: given.Location,
    *,
    group_by: given.GroupBy = None,
    aggregators: given.Aggregators = None,
    filter_: given.Filter = None,
    interval: given.Interval = None,
    having: given.Having = None,
    order_by: given.OrderBy = None,
    limit: given.Limit = None,
    columns: given.Columns = None,
    use_projection: given.UseProjection = None,
    force_projections: given.ForceProjections = False,
    no_projections: given.NoProjections = False,
    exclude_projections: given.ExcludeProjections = None,
    timezone: given.Timezone = None,
    threads: given.Threads = None,
    version: given.Version = None,
    output: given.Output = None,
) -> None:
    """Answer a query; without --group-by and --agg, return rows."""
    context = given.query_context(
        use_projection=use_projection,
        force_projections=force_projections,
        no_projections=no_projections,
        exclude_projections=exclude_projections,
        timezone=timezone,
        threads=threads,
    )
    asked = _question(
        group_by=group_by,
        aggregators=aggregators,
        filter_=filter_,
        interval=interval,
        having=having,
        order_by=order_by,
        limit=limit,
        columns=columns,
    )
    print_rows(projseg.Table(location, version).query(**asked, context=context), output)


def explain(
    location: given.Location,
    *,
    group_by: given.GroupBy = None,
    aggregators: given.Aggregators = None,
    filter_: given.Filter = None,
    interval: given.Interval = None,
    having: given.Having = None,
    order_by: given.OrderBy = None,
    limit: given.Limit = None,
    columns: given.Columns = None,
    use_projection: given.UseProjection = None,
    force_projections: given.ForceProjections = False,
    no_projections: given.NoProjections = False,
    exclude_projections: given.ExcludeProjections = None,
    timezone: given.Timezone = None,
    threads: given.Threads = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run it too: rows, bytes and milliseconds.")
    ] = False,
    version: given.Version = None,
    output: given.Output = None,
) -> None:
    """Say how a query would be answered, segment by segment, and why."""
    context = given.query_context(
        use_projection=use_projection,
        force_projections=force_projections,
        no_projections=no_projections,
        exclude_projections=exclude_projections,
        timezone=timezone,
        threads=threads,
    )
    asked = _question(
        group_by=group_by,
        aggregators=aggregators,
        filter_=filter_,
        interval=interval,
        having=having,
        order_by=order_by,
        limit=limit,
        columns=columns,
    )
    table = projseg.Table(location, version)
    explained = table.explain(**asked, context=context, analyze=analyze)
    if chosen_format(output) is OutputFormat.TABLE:
        terminal().print(explained)
    else:
        print_rows(explained.named_segments(), output)


def _question(
    *,
    group_by: list[str] | None,
    aggregators: list[str] | None,
    filter_: str | None,
    interval: str | None,
    having: str | None,
    order_by: list[str] | None,
    limit: int | None,
    columns: list[str] | None,
) -> dict[str, Any]:
    return {
        "group_by": given.sql_list(group_by),
        "aggregators": given.sql_list(aggregators),
        "filter": filter_,
        "interval": interval,
        "having": having,
        "order_by": given.sql_list(order_by),
        "limit": limit,
        "columns": given.sql_list(columns) or None,
    }
