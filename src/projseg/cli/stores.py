"""`--storage-option`, which every verb takes that has a location."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Annotated, Any, Final

import typer

import projseg
from projseg.errors import InvalidInputError
from projseg.table_layer.as_of import InstantLike

_OPTION: Final = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        help="KEY=VALUE of an object store, such as region=eu-west-1; secrets better go into the "
        "environment.",
    ),
]
_NAME: Final = "storage_option"
_given: Final = ContextVar[dict[str, str]]("storage options")


def reaching_stores(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option, which `open_table` then uses."""
    signature = inspect.signature(command, eval_str=True)

    @wraps(command)
    def run(*arguments: Any, **given: Any) -> None:
        _given.set(_parsed(given.pop(_NAME) or []))
        command(*arguments, **given)

    option = inspect.Parameter(
        _NAME, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_OPTION
    )
    parameters = [*signature.parameters.values(), option]
    vars(run)["__signature__"] = signature.replace(parameters=parameters)
    run.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": None}
    return run


def given_options() -> dict[str, str] | None:
    """Return the storage options of the command that runs, or None."""
    return _given.get({}) or None


def open_table(
    location: str,
    version: int | None = None,
    timestamp: InstantLike | None = None,
    tag: str | None = None,
) -> projseg.Table:
    """Return a table, reached by the storage options that were given."""
    return projseg.Table(location, version, timestamp, tag, given_options())


def _parsed(texts: list[str]) -> dict[str, str]:
    options = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if not mark or not key:
            raise InvalidInputError(
                "PROJSEG_BAD_STORAGE_OPTION",
                f"--storage-option '{key[:40]}' has no value; write KEY=VALUE",
            )
        options[key] = value
    return options
