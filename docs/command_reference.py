"""Parts of docs/command-line.md: commands, their arguments and options, from the typer apps."""

import inspect
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import typer
from regions import cell, code, table, wrapped
from typer.models import ArgumentInfo, OptionInfo

from projseg import cli
from projseg.benchmarks.cli import app as bench_app
from projseg.cli.catalog_verbs import app as catalog_app
from projseg.cli.doctor import extension as extension_app

_HEAD = ("argument or option", "meaning")
_VALUES = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "PATH", bool: ""}
_SHARED_BY = 5
"""Arguments and options of so many commands are listed once for all."""
_LIKE = {"explain": "query"}
"""Commands that take all that another takes; their tables have only what they add."""


@dataclass(frozen=True)
class Parameter:
    """An argument or option of a command, as its row of the table says."""

    shown: str
    meaning: str
    is_argument: bool
    is_repeatable: bool

    @property
    def name(self) -> str:
        """The argument, or the option's long name."""
        return self.shown.partition(" ")[0].strip("`,").partition("/")[0]


@dataclass(frozen=True)
class Command:
    """A command of `projseg`: `query`, or `bench run`."""

    name: str
    function: Callable[..., Any]

    @property
    def help(self) -> list[str]:
        """The command's help, in paragraphs."""
        return (inspect.getdoc(self.function) or "").split("\n\n")

    @property
    def parameters(self) -> list[Parameter]:
        """Its arguments, then its options."""
        found = inspect.signature(self.function, eval_str=True).parameters.values()
        return sorted(map(_parameter, found), key=lambda one: not one.is_argument)

    @property
    def usage(self) -> str:
        """The call, as it is typed."""
        arguments = [
            one.shown + "..." * one.is_repeatable for one in self.parameters if one.is_argument
        ]
        return " ".join(["projseg", self.name, *arguments, "[OPTIONS]"])


def commands() -> dict[str, Command]:
    """Return all commands by name, those of `bench` last."""
    apps = {
        "": cli.app,
        "catalog ": catalog_app,
        "extension ": extension_app,
        "bench ": bench_app,
    }
    return {one.name: one for prefix, app in apps.items() for one in _of(app, prefix)}


def command_parts() -> dict[str, str]:
    """Return the parts of the page by name."""
    found = commands()
    counted = Counter(one for command in found.values() for one in command.parameters)
    shared = [one for one, count in counted.items() if count >= _SHARED_BY]
    listed = [(f"[`{name}`](#{_anchor(name)})", cell(found[name].help[0])) for name in found]
    return {
        "commands": table(("command", "what it does"), listed),
        "exit-codes": (cli.__doc__ or "").split("\n\n")[1],
        "shared": table(_HEAD, map(_row, shared)),
        **{name.replace(" ", "-"): _part(found[name], found, shared) for name in found},
    }


def _of(app: typer.Typer, prefix: str) -> Iterator[Command]:
    for registered in app.registered_commands:
        function = registered.callback
        if function is None:
            raise SystemExit(f"a command of '{prefix}' has no function")
        name = registered.name or function.__name__.replace("_", "-")
        if not registered.context_settings:  # with them, it hands all it is given to another app
            yield Command(prefix + name, function)


def _anchor(name: str) -> str:
    return f"projseg-{name}".replace(" ", "-")


def _part(command: Command, others: Mapping[str, Command], shared: Iterable[Parameter]) -> str:
    like = _LIKE.get(command.name)
    told = {} if like is None else dict.fromkeys(others[like].parameters)
    if not told.keys() <= set(command.parameters):
        raise SystemExit(f"'{command.name}' lacks options of '{like}'; see _LIKE")
    left = [one for one in command.parameters if one not in told]
    also = ", ".join(code(one.name) for one in left if one in shared)
    paragraphs = [wrapped(text) for text in command.help]
    paragraphs.append(f"```\n{command.usage}\n```")
    if like is not None:
        paragraphs.append(f"Arguments and options are those of [`{like}`](#{_anchor(like)}), and:")
    if own := [_row(one) for one in left if one not in shared]:
        paragraphs.append(table(_HEAD, own))
    if also:
        paragraphs.append(wrapped(f"[As everywhere](#shared-arguments-and-options): {also}."))
    return "\n\n".join(paragraphs)


def _row(one: Parameter) -> tuple[str, str]:
    return code(one.shown) if one.is_argument else one.shown, one.meaning


def _parameter(given: inspect.Parameter) -> Parameter:
    value, *notes = get_args(given.annotation)
    info = next((note for note in notes if isinstance(note, ArgumentInfo | OptionInfo)), None)
    if info is None or not info.help:
        raise SystemExit(f"parameter '{given.name}' of a command has no help text")
    types_given = [one for one in get_args(value) if one is not types.NoneType]
    is_union = get_origin(value) in (types.UnionType, Union)
    value = types_given[0] if is_union else value
    is_list = get_origin(value) is list
    value = get_args(value)[0] if is_list else value
    if isinstance(info, ArgumentInfo):
        return Parameter(given.name.upper(), cell(info.help), True, is_list)
    default = None if given.default is inspect.Parameter.empty else given.default
    names = ", ".join(f"`{name}`" for name in _option_names(given.name, info, value))
    shown = f"{names} {_value_text(value)}".strip()
    return Parameter(shown, cell(info.help) + _ending(default, info, is_list), False, is_list)


def _option_names(name: str, info: OptionInfo, value: Any) -> list[str]:
    # In an annotation, typer takes the first name for the default, and corrects it when it runs.
    named = [one for one in (info.default, *(info.param_decls or ())) if str(one).startswith("-")]
    if named:
        return sorted(named, key=len, reverse=True)
    long = f"--{name.replace('_', '-')}"
    return [long, f"--no-{long[2:]}"] if value is bool else [long]


def _value_text(value: Any) -> str:
    if get_origin(value) is Literal:
        return "\\|".join(f"`{one}`" for one in get_args(value))
    if isinstance(value, type) and issubclass(value, Enum):
        return "\\|".join(f"`{one.value}`" for one in value)
    return _VALUES[value]


def _ending(default: Any, info: OptionInfo, is_list: bool) -> str:
    """Return the facts that a declaration adds to the help text: repetition, minimum, default."""
    told = [" Repeatable."] if is_list and "epeatable" not in (info.help or "") else []
    if info.min is not None:
        told.append(f" At least {info.min}.")
    if default not in (None, "", False) or (default == 0 and default is not False):
        told.append(f" Default: {_default_text(default)}.")
    return "".join(told)


def _default_text(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:,}" if isinstance(default, int) and default >= 10_000 else str(default)
