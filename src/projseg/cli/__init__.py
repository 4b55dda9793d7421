"""The command line: `projseg VERB LOCATION`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | an error, printed as one line on standard error; `demo` or `doctor` found a fault |
| 2 | the command was not understood |
| 3 | a check failed, an erasure left something, a benchmark found a fault |
| 130 | interrupted from the keyboard |
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from enum import Enum
from typing import Annotated, Final

import typer

from projseg import __version__
from projseg.cli import (
    correcting,
    declaring,
    demo,
    doctor,
    hosting,
    keeping,
    load,
    reading,
    segment_report,
    viewing,
)
from projseg.cli.shared_arguments import declared
from projseg.errors import ProjsegError, one_line

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


_error_form: Final = ContextVar("error_form", default=_ErrorForm.TEXT)


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
    _error_form.set(errors)


_VERBS: Final[dict[str, Callable[..., object]]] = {
    "demo": demo.demo,
    "import": load.load,
    "query": reading.query,
    "sql": reading.sql,
    "explain": reading.explain,
    "describe": reading.describe,
    "schema": reading.schema,
    "segments": reading.segments,
    "projections": reading.projections,
    "history": reading.history,
    "inspect": segment_report.inspect,
    "add-projection": declaring.add_projection,
    "materialize-projection": declaring.materialize_projection,
    "drop-projection": declaring.drop_projection,
    "indexes": reading.indexes,
    "add-index": declaring.add_index,
    "materialize-index": declaring.materialize_index,
    "drop-index": declaring.drop_index,
    "views": viewing.views,
    "create-view": viewing.create_view,
    "refresh-view": viewing.refresh_view,
    "alter-view": viewing.alter_view,
    "drop-view": viewing.drop_view,
    "explain-view": viewing.explain_view,
    "add-column": declaring.add_column,
    "rename-column": declaring.rename_column,
    "drop-column": declaring.drop_column,
    "widen-column": declaring.widen_column,
    "restore": keeping.restore,
    "compact": keeping.compact,
    "tag": keeping.tag,
    "drop-tag": keeping.drop_tag,
    "tags": keeping.tags,
    "vacuum": keeping.vacuum,
    "delete": correcting.delete,
    "truncate": correcting.truncate,
    "update": correcting.update,
    "merge": correcting.merge,
    "erase": correcting.erase,
    "verify": keeping.verify,
    "doctor": doctor.doctor,
}
for _name, _verb in _VERBS.items():
    app.command(_name)(declared(_verb))
app.add_typer(hosting.app, name="catalog")
app.add_typer(doctor.extension, name="extension")


@app.command(
    "bench",
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
    try:
        app(prog_name="projseg")
    except ProjsegError as error:
        _fail(error.to_json() if _error_form.get() is _ErrorForm.JSON else str(error))
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): stop quietly, and keep Python from
        # complaining again when it flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except (OSError, ModuleNotFoundError) as error:
        _fail(f"{type(error).__name__}: {error}")
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _fail(message: str) -> None:
    sys.stderr.write(one_line(" ".join(message.splitlines())) + "\n")
    raise SystemExit(1)
