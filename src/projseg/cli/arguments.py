"""Arguments and options that several verbs share, and how their texts are read."""

from __future__ import annotations

from typing import Annotated

import typer

from projseg.algebra.expressions.bind import split_list
from projseg.cli.output import OutputFormat
from projseg.errors import InvalidInputError

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

Args = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        help="A value for :NAME in SQL, NAME=VALUE or NAME:TYPE=VALUE; repeatable, a name given "
        "several times is a list.",
    ),
]

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only say what it would do, as without --yes.")
]


def is_preview(*, yes: bool, dry_run: bool) -> bool:
    """Whether a verb that changes or removes only says what it would do.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_ARGUMENT if it is told both.
    """
    if yes and dry_run:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", "--yes and --dry-run are given together; give one"
        )
    return not yes


def sql_list(texts: list[str] | None) -> tuple[str, ...]:
    """Return the SQL texts of a repeatable option, each of which may hold several."""
    return tuple(part for text in texts or () for part in split_list(text))
