"""Verbs about the extension of Spark's optimizer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from projseg.cli.arguments import Output
from projseg.cli.output import print_rows
from projseg.extras import require_spark

app = typer.Typer(help="The extension that makes plain Spark SQL use projections.")


@app.callback()
def _group() -> None:
    pass


@app.command()
def build(
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where to put the jar; default: the cache.")
    ] = None,
    output: Output = None,
) -> None:
    """Compile it for the Spark that is installed, and print the settings that use it."""
    require_spark("projseg extension")
    # Imported here: the verb is listed where PySpark is not installed.
    from projseg.spark_datasource.extension import extension_jar, settings

    found = settings(extension_jar(folder))
    print_rows([{"setting": name, "value": value} for name, value in found.items()], output)
