"""`projseg bench run|compare|report|profile`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from projseg.benchmarks.comparison import SLOWER_BY_MORE_THAN, compare_runs
from projseg.benchmarks.environment import checkout
from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.harness import Plan, run_benchmark
from projseg.benchmarks.html_report import render_report
from projseg.benchmarks.peers.registry import select_engines
from projseg.benchmarks.profiling import profile_queries, profile_table
from projseg.benchmarks.queries import select_queries
from projseg.benchmarks.records import Run, load_run, save_run
from projseg.benchmarks.staging import stage
from projseg.benchmarks.terminal import print_comparison, print_run
from projseg.extras import require

__all__ = ["app"]

EXIT_REGRESSION: Final = 3

app: Final = typer.Typer(
    name="bench",
    help="Measure projseg beside its peers: the same rows, the same queries, the same run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def run(
    *,
    rows: Annotated[int, typer.Option(help="Rows to generate.")] = 2_000_000,
    peers: Annotated[str, typer.Option(help="Engines, separated by commas; all by default.")] = "",
    queries: Annotated[
        str, typer.Option(help="Queries, separated by commas; all by default.")
    ] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Warm rounds that count.")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each engine.")] = 2,
    seed: Annotated[int, typer.Option(help="Seed of the generated rows.")] = 2015,
    columns: Annotated[
        bool, typer.Option(help="Also measure each column's bytes and decoding speed.")
    ] = False,
    wiki: Annotated[
        Path | None, typer.Option(help="Wikipedia edits as gzipped JSON lines, for --columns.")
    ] = None,
    work_folder: Annotated[
        Path | None, typer.Option(help="Where the rows go meanwhile; temporary by default.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="JSON file for the results.")] = None,
) -> None:
    """Measure, print the tables and keep the results as JSON."""
    console, notices = _console(), Console(stderr=True)
    engines, chosen = select_engines(_names(peers)), select_queries(_names(queries))
    with tempfile.TemporaryDirectory(prefix="projseg-bench-", dir=work_folder) as folder:
        plan = Plan(
            EditStream(rows, seed), engines, chosen, rounds, threads, Path(folder), columns, wiki
        )
        with notices.status("starting") as status:
            result = run_benchmark(plan, status.update)
    path = output or _results_folder() / _file_name(result)
    save_run(result, path)
    print_run(result, console)
    notices.print(f"results: {path}")


@app.command()
def compare(
    earlier: Annotated[Path, typer.Argument(help="Results of the earlier run.")],
    later: Annotated[Path, typer.Argument(help="Results of the later run.")],
    tolerance: Annotated[
        float, typer.Option(help="Share by which a time may grow.")
    ] = SLOWER_BY_MORE_THAN,
) -> None:
    """Compare two runs over the same rows; exit with 3 if the later one is worse."""
    comparison = compare_runs(load_run(earlier), load_run(later), tolerance=tolerance)
    print_comparison(comparison, _console())
    if comparison.regressions:
        raise typer.Exit(EXIT_REGRESSION)


@app.command()
def report(
    results: Annotated[list[Path], typer.Argument(help="Results of one or more runs.")],
    output: Annotated[Path | None, typer.Option(help="HTML file to write.")] = None,
) -> None:
    """Write one self-contained HTML page with tables and plots."""
    require("matplotlib", "a benchmark report")
    path = output or results[0].with_suffix(".html")
    path.write_text(render_report([load_run(result) for result in results]), encoding="utf-8")
    Console(stderr=True).print(f"report: {path}")


@app.command()
def profile(
    *,
    rows: Annotated[int, typer.Option(help="Rows to generate.")] = 2_000_000,
    queries: Annotated[
        str, typer.Option(help="Queries, separated by commas; all by default.")
    ] = "",
    projections: Annotated[bool, typer.Option(help="Whether the table has projections.")] = True,
    functions: Annotated[int, typer.Option(min=1, help="Functions shown of each query.")] = 12,
    seed: Annotated[int, typer.Option(help="Seed of the generated rows.")] = 2015,
    work_folder: Annotated[
        Path | None, typer.Option(help="Where the rows go meanwhile; temporary by default.")
    ] = None,
) -> None:
    """Print where projseg's own time goes, in one thread: processor time and dearest functions."""
    console, chosen = _console(), select_queries(_names(queries))
    with tempfile.TemporaryDirectory(prefix="projseg-bench-", dir=work_folder) as folder:
        source = stage(EditStream(rows, seed), Path(folder) / "source", with_parquet=False)
        for found in profile_queries(chosen, source, Path(folder), with_projections=projections):
            console.print(profile_table(found, functions))


def _console() -> Console:
    """Return standard output; in a pipe or file, lines are as long as the tables are wide."""
    return Console() if sys.stdout.isatty() else Console(width=400)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _results_folder() -> Path:
    """Return the checkout's folder of results, else the current folder."""
    root = checkout()
    return root / "benchmarks" / "results" if root else Path.cwd()


def _file_name(result: Run) -> str:
    moment = result.environment.started[:16].replace(":", "").replace("-", "")
    return f"{moment}-{result.row_count}-rows.json"
