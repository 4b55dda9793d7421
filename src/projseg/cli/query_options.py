"""The options of a query, which several verbs take alike and get as one `Query`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from projseg.algebra.expressions.argument_texts import arguments_of_texts
from projseg.algebra.query.request import Query, query_of
from projseg.cli.arguments import Args, sql_list
from projseg.errors import InvalidInputError, StorageError

_PARTS: Final[dict[str, Any]] = {
    "group_by": Annotated[
        list[str] | None,
        typer.Option("--group-by", "-g", help="SQL expressions, separated by commas."),
    ],
    "aggregators": Annotated[
        list[str] | None,
        typer.Option("--agg", "-a", help="Aggregates as SQL, such as 'sum(added) AS added'."),
    ],
    "filter": Annotated[str | None, typer.Option("--filter", "-f", help="A condition as SQL.")],
    "interval": Annotated[
        str | None, typer.Option("--interval", "-i", help="start/end in ISO 8601; end excluded.")
    ],
    "having": Annotated[
        str | None, typer.Option("--having", help="A condition on the answer's columns.")
    ],
    "order_by": Annotated[
        list[str] | None,
        typer.Option("--order-by", help="Columns of the answer, with ASC or DESC."),
    ],
    "limit": Annotated[int | None, typer.Option("--limit", "-n", min=0, help="Rows at most.")],
    "columns": Annotated[
        list[str] | None,
        typer.Option("--columns", "-c", help="Columns of a row scan; default: all."),
    ],
}
_CONTEXT: Final[dict[str, Any]] = {
    "use_projection": Annotated[
        str | None, typer.Option("--use-projection", help="Answer only from this projection.")
    ],
    "force_projections": Annotated[
        bool, typer.Option("--force-projections", help="Fail where a segment has no matching one.")
    ],
    "no_projections": Annotated[
        bool, typer.Option("--no-projections", help="Answer from base rows alone.")
    ],
    "exclude_projections": Annotated[
        list[str] | None, typer.Option("--exclude-projections", help="Names not to be used.")
    ],
    "timezone": Annotated[
        str | None, typer.Option("--timezone", help="Session time zone; default UTC.")
    ],
    "threads": Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads to work with.")
    ],
}
_WHOLE: Final = Annotated[
    str | None,
    typer.Option("--query", help="The whole query as JSON, or @FILE that holds it."),
]
_OPTIONS: Final[dict[str, Any]] = {**_PARTS, "args": Args, **_CONTEXT, "whole": _WHOLE}
_TEXT_LISTS: Final = ("group_by", "aggregators", "order_by", "columns", "exclude_projections")


def takes_query(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a query, after its arguments.

    Parameters
    ----------
    command : callable
        Takes `query: Query` by keyword; the options take its place on the command line.
    """
    signature = inspect.signature(command, eval_str=True)

    @wraps(command)
    def run(*arguments: Any, **given: Any) -> None:
        asked = {name: given.pop(name) for name in _OPTIONS}
        command(*arguments, query=_query(asked), **given)

    own = [one for one in signature.parameters.values() if one.name != "query"]
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if annotation.__origin__ is bool else None,
            annotation=annotation,
        )
        for name, annotation in _OPTIONS.items()
    ]
    first = [one for one in own if one.kind != inspect.Parameter.KEYWORD_ONLY]
    parameters = [*first, *options, *own[len(first) :]]
    vars(run)["__signature__"] = signature.replace(parameters=parameters)
    run.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": None}
    return run


def _query(asked: dict[str, Any]) -> Query:
    whole = asked.pop("whole")
    args = arguments_of_texts(asked.pop("args") or (), asked["timezone"] or "UTC")
    if whole is not None:
        given = [name for name, value in asked.items() if value]
        if given:
            raise InvalidInputError(
                "PROJSEG_BAD_QUERY",
                f"{given[0]} is given beside --query; put it into the query's JSON",
            )
        return query_of(Query.from_json(content_of(whole, f"--query {whole}")), args=args)
    asked |= {name: sql_list(asked[name]) or None for name in _TEXT_LISTS}
    context = {_context_key(name): asked[name] or None for name in _CONTEXT}
    parts = {name: asked[name] for name in _PARTS if asked[name] is not None}
    return Query(**parts, context=context, args=args)


def content_of(text: str, what: str) -> str:
    """Return a text, or of `@FILE` the file's.

    Raises
    ------
    StorageError
        PROJSEG_STORAGE_FAILED if the file cannot be read.
    """
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text("utf-8")
    except OSError as error:
        raise StorageError(
            "PROJSEG_STORAGE_FAILED", f"{what} cannot be read: {error.strerror}", error.errno
        ) from error


def _context_key(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
