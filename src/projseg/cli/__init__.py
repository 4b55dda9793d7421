"""The command line: `projseg VERB LOCATION`.

| exit code | meaning |
|---|---|
| 0 | done, or the reader of the output wanted no more |
| 1 | an error, printed as one line on standard error; `demo` or `doctor` found a fault |
| 2 | the command was not understood |
| 3 | a check failed, an erasure left something, a benchmark found a fault |
| 130 | interrupted from the keyboard |
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Final, cast

import typer

from projseg import __version__
from projseg.cli import (
    advisor_verbs,
    catalog_verbs,
    declaration_verbs,
    demo,
    doctor,
    maintenance_verbs,
    query_verbs,
    row_verbs,
    segment_report,
    shell,
    source_verbs,
    try_files,
    view_verbs,
)
from projseg.cli.shared_arguments import declared
from projseg.errors import (
    InvalidInputError,
    ProjsegError,
    StorageError,
    UnsupportedFeatureError,
)
from projseg.table_layer.metadata_tables import offered_by

__all__ = ["app", "main"]

app: Final = typer.Typer(
    name="projseg",
    help="Segments with embedded projections: make, describe, query and check tables of them.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


class _ErrorForm(Enum):
    """The form in which an error is printed."""

    TEXT = "text"
    JSON = "json"


# typer brings the classes of click, from its own package or from click's by release.
_CommandLineError: Final = cast("type[Exception]", typer.BadParameter.__mro__[2])


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"projseg {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    errors: Annotated[
        _ErrorForm, typer.Option("--errors", help="Print an error as a line of text or of JSON.")
    ] = _ErrorForm.TEXT,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the release."
        ),
    ] = False,
) -> None:
    pass  # they are used by then


# By the panels of `projseg --help`; the first has what is used every day.
_VERBS: Final[dict[str, dict[str, Callable[..., object]]]] = {
    "Every day": {
        "import": row_verbs.load,
        "sql": query_verbs.sql,
        "explain": query_verbs.explain,
        "describe": query_verbs.describe,
        "add-projection": declaration_verbs.add_projection,
        "compact": maintenance_verbs.compact,
    },
    "Ask": {
        "query": query_verbs.query,
        "shell": shell.shell,
        "ui": query_verbs.ui,
        "schema": query_verbs.schema,
        **{name: query_verbs.metadata_verb(name) for name in offered_by("shell")},
        "inspect": segment_report.inspect,
        "demo": demo.demo,
        "try": try_files.try_files,
    },
    "Load and hand out": {
        "export": query_verbs.export,
        "attach": source_verbs.attach,
        "sync": source_verbs.sync,
    },
    "Projections": {
        "advise": advisor_verbs.advise,
        "materialize-projection": declaration_verbs.materialize_projection,
        "drop-projection": declaration_verbs.drop_projection,
    },
    "Views": {
        "views": view_verbs.views,
        "create-view": view_verbs.create_view,
        "refresh-view": view_verbs.refresh_view,
        "alter-view": view_verbs.alter_view,
        "drop-view": view_verbs.drop_view,
        "explain-view": view_verbs.explain_view,
    },
    "Indexes": {
        "add-index": declaration_verbs.add_index,
        "materialize-index": declaration_verbs.materialize_index,
        "drop-index": declaration_verbs.drop_index,
    },
    "Change": {
        "delete": row_verbs.delete,
        "truncate": row_verbs.truncate,
        "update": row_verbs.update,
        "merge": row_verbs.merge,
        "erase": row_verbs.erase,
        "add-column": declaration_verbs.add_column,
        "rename-column": declaration_verbs.rename_column,
        "drop-column": declaration_verbs.drop_column,
        "widen-column": declaration_verbs.widen_column,
    },
    "Versions": {
        "restore": maintenance_verbs.restore,
        "tag": maintenance_verbs.tag,
        "drop-tag": maintenance_verbs.drop_tag,
        "tags": maintenance_verbs.tags,
        "vacuum": maintenance_verbs.vacuum,
    },
    "Check": {
        "verify": maintenance_verbs.verify,
        "doctor": doctor.doctor,
    },
}
_MACHINE: Final = "Catalog, Spark, benchmarks"
for _panel, _verbs in _VERBS.items():
    for _name, _verb in _verbs.items():
        app.command(_name, rich_help_panel=_panel)(declared(_verb))
app.add_typer(catalog_verbs.app, name="catalog", rich_help_panel=_MACHINE)
app.add_typer(doctor.extension, name="extension", rich_help_panel=_MACHINE)


@app.command(
    "bench",
    rich_help_panel=_MACHINE,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench(context: typer.Context) -> None:
    """Run, compare and report benchmarks; `projseg bench --help` lists the commands."""
    # Imported here: the harness needs DuckDB and psutil, which only the extra [bench] installs.
    from projseg.benchmarks.cli import app as bench_app

    bench_app(args=context.args, prog_name="projseg bench")


def main() -> None:
    """Run the command line and exit; a deliberate error is one line on standard error."""
    args = _arguments(sys.argv[1:])
    is_json = args[:2] == ["--errors", "json"]
    try:
        raise SystemExit(app(args, prog_name="projseg", standalone_mode=not is_json))
    except ProjsegError as error:
        _fail(error, is_json=is_json)
    except _CommandLineError as error:
        said = getattr(error, "format_message", error.__str__)()
        _fail(InvalidInputError("PROJSEG_BAD_ARGUMENT", said), exit_code=2, is_json=is_json)
    except OSError as error:
        _fail(StorageError("PROJSEG_STORAGE_FAILED", str(error), error.errno), is_json=is_json)
    except ModuleNotFoundError as error:
        _fail(UnsupportedFeatureError("PROJSEG_MISSING_PACKAGE", str(error)), is_json=is_json)


def _arguments(given: list[str]) -> list[str]:
    """Return the arguments with `--errors` first, wherever it stands, and `help` as an option."""
    args, chosen = list(given), []
    for place, word in enumerate(args):
        if word == "--":
            break
        if word == "--errors" or word.startswith("--errors="):
            count = 1 if "=" in word else 2
            chosen = word.split("=", 1) if "=" in word else args[place : place + 2]
            del args[place : place + count]
            break
    if args[:1] == ["help"]:
        args = [*args[1:], "--help"]
    return chosen + args


def _fail(error: ProjsegError, *, is_json: bool, exit_code: int = 1) -> None:
    sys.stderr.write((error.to_json() if is_json else str(error)) + "\n")
    raise SystemExit(exit_code)
