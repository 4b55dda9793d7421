"""Arguments and options that several verbs share, and how their texts are read."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from projseg.algebra.expressions.bind import split_list
from projseg.cli.output import OutputFormat

Location = Annotated[str, typer.Argument(help="Where the table is: a path or a file: URI.")]
Output = Annotated[
    OutputFormat | None,
    typer.Option("-o", "--output", help="Default: table on a terminal, json in a pipe."),
]
Version = Annotated[
    int | None, typer.Option("--version", help="Read this table version; default: the newest.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it; without this, only say what it would do.")]
GroupBy = Annotated[
    list[str] | None,
    typer.Option("--group-by", "-g", help="SQL expressions, separated by commas."),
]
Aggregators = Annotated[
    list[str] | None,
    typer.Option("--agg", "-a", help="Aggregates as SQL, such as 'sum(added) AS added'."),
]
Filter = Annotated[str | None, typer.Option("--filter", "-f", help="A condition as SQL.")]
Interval = Annotated[
    str | None, typer.Option("--interval", "-i", help="start/end in ISO 8601; end excluded.")
]
Having = Annotated[
    str | None, typer.Option("--having", help="A condition on the answer's columns.")
]
OrderBy = Annotated[
    list[str] | None, typer.Option("--order-by", help="Columns of the answer, with ASC or DESC.")
]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=0, help="Rows at most.")]
Columns = Annotated[
    list[str] | None, typer.Option("--columns", "-c", help="Columns of a row scan; default: all.")
]
UseProjection = Annotated[
    str | None, typer.Option("--use-projection", help="Answer only from this projection.")
]
ForceProjections = Annotated[
    bool, typer.Option("--force-projections", help="Fail where a segment has no matching one.")
]
NoProjections = Annotated[
    bool, typer.Option("--no-projections", help="Answer from base rows alone.")
]
ExcludeProjections = Annotated[
    list[str] | None, typer.Option("--exclude-projections", help="Names not to be used.")
]
Timezone = Annotated[str | None, typer.Option("--timezone", help="Session time zone; default UTC.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads to work with.")]


def sql_list(texts: list[str] | None) -> tuple[str, ...]:
    """Return the SQL texts of a repeatable option, each of which may hold several."""
    return tuple(part for text in texts or () for part in split_list(text))


def query_context(
    *,
    use_projection: str | None,
    force_projections: bool,
    no_projections: bool,
    exclude_projections: list[str] | None,
    timezone: str | None,
    threads: int | None,
) -> dict[str, Any]:
    """Return the context of `Table.query` with only what was given."""
    given = {
        "useProjection": use_projection,
        "forceProjections": force_projections or None,
        "noProjections": no_projections or None,
        "excludeProjections": sql_list(exclude_projections) or None,
        "timezone": timezone,
        "threads": threads,
    }
    return {name: value for name, value in given.items() if value is not None}
