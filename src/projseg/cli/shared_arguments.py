"""Verbs as functions, and the arguments and options that several of them share.

`declared` makes a command of a function. A note of a parameter that is a text is its help: one that
may be given by position is an argument, any other an option of its name. An `OptionGroup` in place
of a text makes several options. What the function returns is printed as `--output` says. A verb
with a location takes `--storage-option` too, which `open_table` then uses.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, get_args

import typer

import projseg
from projseg.algebra.expressions.argument_texts import arguments_of_texts
from projseg.algebra.expressions.dialect import split_list
from projseg.algebra.query.context import STEERING, Steering
from projseg.algebra.query.query_parts import query_of
from projseg.algebra.query.request import Query
from projseg.cli.output import OutputFormat, print_found, until_unread
from projseg.errors import InvalidInputError, StorageError
from projseg.memory.door import through
from projseg.table_layer.commits.open_version import InstantLike

Location = Annotated[str, "Where the table is: a path or a URI."]
TablePlaces = Annotated[
    list[str],
    "A table, or NAME=TABLE; a folder of tables; the file or the address of a catalog.",
]
Output = Annotated[
    OutputFormat | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FORMAT",
        help="table, json, csv or markdown. Default: table on a terminal, json in a pipe.",
    ),
]
Args = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        help="A value for :NAME in SQL, NAME=VALUE or NAME:TYPE=VALUE; repeatable, a name given "
        "several times is a list.",
    ),
]
Filter = Annotated[str | None, "Rows for which this Spark SQL is true."]
SegmentInterval = Annotated[str | None, "Only segments with rows in START/END or START/PERIOD."]


class OptionGroup(NamedTuple):
    """Parameters of the command line that become one argument of a verb.

    `value` takes their values by name; `defaults` has those that are neither False nor None.
    """

    parameters: Mapping[str, Any]
    value: Callable[..., Any]
    defaults: Mapping[str, Any] = {}

    def declared(self) -> list[inspect.Parameter]:
        """Return them as parameters of a function."""
        return [
            _option(name, annotation, self.defaults.get(name))
            for name, annotation in self.parameters.items()
        ]


def _option(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    if default is None and get_args(annotation)[0] is bool:
        default = False
    kind = inspect.Parameter.KEYWORD_ONLY
    return _typed(inspect.Parameter(name, kind, default=default, annotation=annotation))


def _typed(one: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter of a verb as typer takes it."""
    value, note = get_args(one.annotation)
    if isinstance(note, str):
        is_option = one.kind is one.KEYWORD_ONLY
        name = f"--{one.name.replace('_', '-')}"
        note = typer.Option(name, help=note) if is_option else typer.Argument(help=note)
    return one.replace(kind=one.KEYWORD_ONLY, annotation=Annotated[value, note])


def _is_preview(*, yes: bool, dry_run: bool) -> bool:
    if yes and dry_run:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", "--yes and --dry-run are given together; give one"
        )
    return not yes


def _condition(*, args: list[str] | None, timezone: str, **others: Any) -> dict[str, Any]:
    return {**others, "args": arguments_of_texts(args or (), timezone), "timezone": timezone}


def _as_given(**values: Any) -> dict[str, Any]:
    return values


_VERSIONS: Final = {
    "version": Annotated[int | None, "Read this table version; default: the newest."],
    "timestamp": Annotated[str | None, "Read the newest version committed at or before this time."],
    "tag": Annotated[str | None, "Read the version that has this tag."],
}
_PREVIEW: Final = {
    "yes": Annotated[bool, "Do it; without this, only say what it would do."],
    "dry_run": Annotated[bool, "Only say what it would do, as without --yes."],
}
_CONDITION: Final = {
    "interval": Annotated[str | None, "Rows of this range of the time column."],
    "args": Args,
    "timezone": Annotated[str, "Of times without a zone."],
}
_SCOPE: Final = {
    "materialize": Annotated[bool, "Also build it for the segments that are there."],
    "build": Annotated[str, "immediate; or deferred: only materializing and compact build it."],
    "interval": Annotated[str | None, "Segments with no row in it go without."],
    "retain": Annotated[str | None, "Segments with older rows only go without: '90 days'."],
    "max_bytes_ratio": Annotated[float | None, "The most bytes, as a share of the base table's."],
}
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
    "having": Annotated[str | None, "A condition on the answer's columns."],
    "order_by": Annotated[list[str] | None, "Columns of the answer, with ASC or DESC."],
    "limit": Annotated[int | None, typer.Option("--limit", "-n", min=0, help="Rows at most.")],
    "columns": Annotated[
        list[str] | None,
        typer.Option("--columns", "-c", help="Columns of a row scan; default: all."),
    ],
}


def _steering_flag(name: str, steering: Steering) -> Any:
    """Return how the shell reads a steering option."""
    help_ = steering.meaning
    match steering.form.takes:
        case "flag":
            return Annotated[bool, help_]
        case "list":
            return Annotated[list[str] | None, help_]
        case "integer":
            return Annotated[int | None, typer.Option(f"--{name}", min=1, help=help_)]
        case _:
            return Annotated[str | None, help_]


_CONTEXT: Final[dict[str, Any]] = {
    name: _steering_flag(name, one) for name, one in STEERING.items() if one.is_option
}
_WHOLE: Final = Annotated[
    str | None, typer.Option("--query", help="The whole query as JSON, or @FILE that holds it.")
]
_TEXT_LISTS: Final = (
    "group_by",
    "aggregators",
    "order_by",
    "columns",
)


def _query(**given: Any) -> Query:
    whole = given.pop("whole")
    args = arguments_of_texts(given.pop("args") or (), given["timezone"] or "UTC")
    if whole is not None:
        beside = [name for name, value in given.items() if value]
        if beside:
            raise InvalidInputError(
                "PROJSEG_BAD_QUERY",
                f"{beside[0]} is given beside --query; put it into the query's JSON",
            )
        return query_of(Query.from_json(content_of(whole, f"--query {whole}")), args=args)
    given |= {name: sql_list(given[name]) or None for name in _TEXT_LISTS}
    context = _context(**{name: given[name] for name in _CONTEXT})
    parts = {name: given[name] for name in _PARTS if given[name] is not None}
    return Query(**parts, context=context, args=args)


def _context(**given: Any) -> dict[str, Any]:
    lists = {name: sql_list(value) for name, value in given.items() if isinstance(value, list)}
    return {STEERING[name].key: value or None for name, value in (given | lists).items()}


At = Annotated[dict[str, Any], OptionGroup(_VERSIONS, _as_given)]
"""Which version of the table is read."""
IsPreview = Annotated[bool, OptionGroup(_PREVIEW, _is_preview)]
"""Whether a verb that changes or removes only says what it would do."""
Condition = Annotated[dict[str, Any], OptionGroup(_CONDITION, _condition, {"timezone": "UTC"})]
"""What else than a filter says which rows are changed, as methods of `Table` take it."""
Scope = Annotated[dict[str, Any], OptionGroup(_SCOPE, _as_given, {"build": "immediate"})]
"""Which segments a projection or an index is built for, and when."""
GivenContext = Annotated[dict[str, Any], OptionGroup(_CONTEXT, _context)]
"""The context of a statement."""
GivenQuery = Annotated[
    Query, OptionGroup({**_PARTS, "args": Args, **_CONTEXT, "whole": _WHOLE}, _query)
]

OtherTables = Annotated[
    list[str] | None, "NAME=PATH: another table, which FROM joins by that name."
]

_STORAGE_OPTION: Final = Annotated[
    list[str] | None,
    "KEY=VALUE of an object store, such as region=eu-west-1; secrets better go into the "
    "environment.",
]
_given: Final = ContextVar[dict[str, str]]("storage options")


def declared(verb: Callable[..., Any]) -> Callable[..., None]:
    """Return a verb as typer takes it, with all parameters that its groups stand for."""
    signature = inspect.signature(verb, eval_str=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, OptionGroup] = {}
    for one in signature.parameters.values():
        _, note = get_args(one.annotation)
        if isinstance(note, OptionGroup):
            groups[one.name] = note
            parameters += note.declared()
        else:
            parameters.append(_typed(one))
    returns = signature.return_annotation is not None
    reaches_tables = any(
        one.annotation in (Location, TablePlaces) for one in signature.parameters.values()
    )
    if returns:
        parameters.append(_option("output", Output))
    if reaches_tables:
        parameters.append(_option("storage_option", _STORAGE_OPTION))

    @wraps(verb)
    def run(**given: Any) -> None:
        output = given.pop("output") if returns else None
        if reaches_tables:
            _given.set(parsed_options(given.pop("storage_option") or []))
        for name, group in groups.items():
            given[name] = group.value(**{part: given.pop(part) for part in group.parameters})
        with until_unread(), through("shell"):
            found = verb(**given)
            if returns:
                print_found(found, output)

    vars(run)["__signature__"] = signature.replace(parameters=parameters, return_annotation=None)
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


def tables_named(texts: list[str] | None) -> dict[str, projseg.Table] | None:
    """Return the tables of `--table` by their names, or None, or raise PROJSEG_BAD_OPTION."""
    found = {}
    for text in texts or ():
        name, sign, location = text.partition("=")
        if not (name and sign and location):
            raise InvalidInputError(
                "PROJSEG_BAD_OPTION", f"--table takes NAME=PATH, found '{text}'"
            )
        found[name] = open_table(location)
    return found or None


def parsed_options(texts: list[str], option: str = "--storage-option") -> dict[str, str]:
    """Return the options of an object store that a repeatable option gives.

    Raises InvalidInputError (PROJSEG_BAD_STORAGE_OPTION).
    """
    options = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if not mark or not key:
            raise InvalidInputError(
                "PROJSEG_BAD_STORAGE_OPTION",
                f"{option} '{key[:40]}' has no value; write KEY=VALUE",
            )
        options[key] = value
    return options


def sql_list(texts: list[str] | None) -> tuple[str, ...]:
    """Return the SQL texts of a repeatable option, each of which may hold several."""
    return tuple(part for text in texts or () for part in split_list(text))


def content_of(text: str, what: str) -> str:
    """Return a text, or of `@FILE` the file's, or raise PROJSEG_STORAGE_FAILED."""
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text("utf-8")
    except OSError as error:
        raise StorageError(
            "PROJSEG_STORAGE_FAILED",
            f"{what} cannot be read: {text[1:]}: {error.strerror}; give the path of a file after "
            "@, or the text itself",
            error.errno,
        ) from error
