"""The command line: `projseg VERB LOCATION`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | an error, printed as one line on standard error; `demo` or `doctor` found a fault |
| 2 | the command was not understood |
| 3 | a verification failed, an erasure left something, a benchmark found a fault |
| 130 | interrupted from the keyboard |
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from enum import Enum
from typing import Annotated, Final

import typer

from projseg import __version__
from projseg.cli import (
    change,
    columns,
    compact,
    demo,
    describe,
    doctor,
    erase,
    extension,
    inspect,
    load,
    query,
    rows,
    verify,
    versions,
)
from projseg.cli.stores import reaching_stores
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


app.command("demo")(demo.demo)
app.command("import")(reaching_stores(load.load))
app.command("query")(reaching_stores(query.query))
app.command("sql")(reaching_stores(query.sql))
app.command("explain")(reaching_stores(query.explain))
app.command("describe")(reaching_stores(describe.describe))
app.command("schema")(reaching_stores(describe.schema))
app.command("segments")(reaching_stores(describe.segments))
app.command("projections")(reaching_stores(describe.projections))
app.command("history")(reaching_stores(describe.history))
app.command("inspect")(inspect.inspect)
app.command("add-projection")(reaching_stores(change.add_projection))
app.command("materialize-projection")(reaching_stores(change.materialize_projection))
app.command("drop-projection")(reaching_stores(change.drop_projection))
app.command("add-column")(reaching_stores(columns.add_column))
app.command("rename-column")(reaching_stores(columns.rename_column))
app.command("drop-column")(reaching_stores(columns.drop_column))
app.command("widen-column")(reaching_stores(columns.widen_column))
app.command("restore")(reaching_stores(versions.restore))
app.command("compact")(reaching_stores(compact.compact))
app.command("tag")(reaching_stores(versions.tag))
app.command("drop-tag")(reaching_stores(versions.drop_tag))
app.command("tags")(reaching_stores(versions.tags))
app.command("vacuum")(reaching_stores(versions.vacuum))
app.command("delete")(reaching_stores(rows.delete))
app.command("truncate")(reaching_stores(rows.truncate))
app.command("update")(reaching_stores(rows.update))
app.command("merge")(reaching_stores(rows.merge))
app.command("erase")(reaching_stores(erase.erase))
app.command("verify")(reaching_stores(verify.verify))
app.command("doctor")(doctor.doctor)
app.add_typer(extension.app, name="extension")


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
