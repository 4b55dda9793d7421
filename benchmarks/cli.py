"""`projseg bench run|compare|report|table|profile|choices`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from projseg.benchmarks.choices import choices_of, load, measure_choices, random_choices
from projseg.benchmarks.comparison import SLOWER_BY_MORE_THAN, compare_runs
from projseg.benchmarks.dataset import EDITS
from projseg.benchmarks.environment import checkout
from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.harness import Plan, run_benchmark
from projseg.benchmarks.html_report import render_report
from projseg.benchmarks.lineitem import LineitemRows
from projseg.benchmarks.markdown import as_markdown
from projseg.benchmarks.peers.registry import select_engines
from projseg.benchmarks.profiling import profile_queries, profile_table
from projseg.benchmarks.records import Run, load_run, save_run
from projseg.benchmarks.staging import RowsToStage, stage
from projseg.benchmarks.standings import loss_tables, ratio_table
from projseg.benchmarks.tables import conditions, load_table, remarks
from projseg.benchmarks.terminal import print_comparison, print_run
from projseg.benchmarks.workload import Workload, workload_named
from projseg.extras import require

__all__ = ["app"]

EXIT_WORSE: Final = 3

_WorkloadName = Annotated[str, typer.Option("--workload", help="`edits` or `lineitem`.")]
_RowCount = Annotated[int, typer.Option(help="Edits to generate.")]
_Seed = Annotated[int, typer.Option(help="Seed of the generated edits.")]
_Scale = Annotated[
    float, typer.Option(help="TPC-H's scale factor: 1 is 6 million rows of lineitem.")
]

app: Final = typer.Typer(
    name="bench",
    help="Measure projseg beside its peers: the same rows, the same queries, the same run.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


@app.command()
def run(
    *,
    workload_name: _WorkloadName = "edits",
    rows: _RowCount = 2_000_000,
    scale: _Scale = 1.0,
    peers: Annotated[str, typer.Option(help="Engines, separated by commas; all by default.")] = "",
    queries: Annotated[
        str, typer.Option(help="Queries, separated by commas; all by default.")
    ] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Warm rounds that count.")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each engine.")] = 2,
    seed: _Seed = 2015,
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
    """Measure, print the tables and keep the results as JSON; exit with 3 if answers differ."""
    console, notices = _console(), Console(stderr=True)
    workload = workload_named(workload_name)
    engines = select_engines(_names(peers), workload.name)
    chosen = workload.select(_names(queries))
    with tempfile.TemporaryDirectory(prefix="projseg-bench-", dir=work_folder) as folder:
        place = Path(folder)
        with notices.status("making rows") as status:
            made = _rows(workload, place, rows, seed, scale)
            plan = Plan(workload, made, engines, chosen, rounds, threads, place, columns, wiki)
            result = run_benchmark(plan, status.update)
    path = output or _results_folder() / _file_name(result)
    save_run(result, path)
    print_run(result, console)
    notices.print(f"results: {path}")
    if result.has_wrong_answers:
        raise typer.Exit(EXIT_WORSE)


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
        raise typer.Exit(EXIT_WORSE)


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
def table(
    results: Annotated[Path, typer.Argument(help="Results of a run.")],
) -> None:
    """Print a run as Markdown: medians, our ratio to the best peer, where we lose, loading."""
    found = load_run(results)
    tables = (ratio_table(found), *loss_tables(found), load_table(found))
    parts = [conditions(found), *map(as_markdown, tables), *remarks(found)]
    sys.stdout.write("\n\n".join(parts) + "\n")


@app.command()
def profile(
    *,
    workload_name: _WorkloadName = "edits",
    rows: _RowCount = 2_000_000,
    scale: _Scale = 1.0,
    queries: Annotated[
        str, typer.Option(help="Queries, separated by commas; all by default.")
    ] = "",
    projections: Annotated[bool, typer.Option(help="Whether the table has projections.")] = True,
    functions: Annotated[int, typer.Option(min=1, help="Functions shown of each query.")] = 12,
    seed: _Seed = 2015,
    work_folder: Annotated[
        Path | None, typer.Option(help="Where the rows go meanwhile; temporary by default.")
    ] = None,
) -> None:
    """Print where projseg's own time goes, in one thread: processor time and dearest functions."""
    console, workload = _console(), workload_named(workload_name)
    chosen = workload.select(_names(queries))
    with tempfile.TemporaryDirectory(prefix="projseg-bench-", dir=work_folder) as folder:
        place = Path(folder)
        made = _rows(workload, place, rows, seed, scale)
        source = stage(made, place / "source", with_parquet=False)
        asked = profile_queries(workload, chosen, source, place, with_projections=projections)
        for found in asked:
            console.print(profile_table(found, functions))


@app.command()
def choices(
    *,
    workload_name: Annotated[
        str, typer.Option("--workload", help="`random`, `edits` or `lineitem`.")
    ] = "random",
    questions: Annotated[int, typer.Option(min=1, help="Random questions.")] = 100,
    rows: _RowCount = 2_000_000,
    scale: _Scale = 1.0,
    queries: Annotated[
        str, typer.Option(help="Queries of a workload, separated by commas; all by default.")
    ] = "",
    seed: _Seed = 2015,
    output: Annotated[Path | None, typer.Option(help="JSON file for the results.")] = None,
) -> None:
    """Answer queries from each source that can, and tell whether planning chose the quickest."""
    about = {"workload": workload_name, "seed": seed}
    with tempfile.TemporaryDirectory(prefix="projseg-bench-") as folder:
        place = Path(folder)
        if workload_name == "random":
            measure_choices(random_choices(place, seed, questions), about, output)
            return
        workload = workload_named(workload_name)
        made = _rows(workload, place, rows, seed, scale)
        found = choices_of(load(workload, made, place / "table"), workload.select(_names(queries)))
        measure_choices(found, {**about, "rows": made.row_count}, output)


def _rows(workload: Workload, folder: Path, rows: int, seed: int, scale: float) -> RowsToStage:
    if workload.name == EDITS.name:
        return EditStream(rows, seed)
    return LineitemRows.made(folder / "made", scale)


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
    prefix = "" if result.workload == EDITS.name else f"{result.workload}-"
    return f"{moment}-{prefix}{result.row_count}-rows.json"
