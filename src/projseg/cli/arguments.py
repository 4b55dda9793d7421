"""Arguments and options that several verbs share, and how their texts are read."""

from __future__ import annotations

from typing import Annotated

import typer

from projseg.algebra.expressions.bind import split_list
from projseg.cli.output import OutputFormat

Location = Annotated[str, typer.Argument(help="Where the table is: a path or a URI.")]
Output = Annotated[
    OutputFormat | None,
    typer.Option("-o", "--output", help="Default: table on a terminal, json in a pipe."),
]
Version = Annotated[
    int | None, typer.Option("--version", help="Read this table version; default: the newest.")
]
Timestamp = Annotated[
    str | None,
    typer.Option("--timestamp", help="Read the newest version committed at or before this time."),
]
Tag = Annotated[str | None, typer.Option("--tag", help="Read the version that has this tag.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it; without this, only say what it would do.")]


def sql_list(texts: list[str] | None) -> tuple[str, ...]:
    """Return the SQL texts of a repeatable option, each of which may hold several."""
    return tuple(part for text in texts or () for part in split_list(text))
