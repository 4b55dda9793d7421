"""`projseg bench run|list|compare|report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from projseg.benchmarks.bench import run_scenario
from projseg.benchmarks.measuring import checkout
from projseg.benchmarks.results import (
    SLOWER_BY_MORE_THAN,
    ScenarioResults,
    compare_results,
    load_results,
    render_results,
    save_results,
)
from projseg.benchmarks.scenarios import SCENARIOS, scenario_named

EXIT_WORSE: Final = 3

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
    scenario_name: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="One that `bench list` names.")
    ] = "edits",
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Its arguments that are not the defaults."),
    ] = None,
    *,
    work_folder: Annotated[
        Path | None, typer.Option(help="Where the rows go meanwhile; temporary by default.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="JSON file for the results.")] = None,
) -> None:
    """Measure, print the figures and keep them as JSON; exit with 3 if answers differ."""
    scenario = scenario_named(scenario_name)
    given = scenario.with_arguments(arguments or [])
    notices = Console(stderr=True)
    with notices.status("starting") as status:
        found = run_scenario(scenario, given, status.update, work_folder)
    path = output or _results_folder() / _file_name(found)
    save_results(found, path)
    sys.stdout.write(render_results(found))
    notices.print(f"results: {path}")
    if found.has_wrong_answers:
        raise typer.Exit(EXIT_WORSE)


@app.command(name="list")
def list_scenarios() -> None:
    """Print what can be measured, and the arguments of each."""
    for one in SCENARIOS.values():
        words = " ".join(f"{name}={value}" for name, value in one.arguments.items())
        sys.stdout.write(f"{one.name}: {one.measures}\n    {words}\n")


@app.command()
def compare(
    earlier: Annotated[Path, typer.Argument(help="Results of the earlier run.")],
    later: Annotated[Path, typer.Argument(help="Results of the later run.")],
    tolerance: Annotated[
        float, typer.Option(help="Share by which a time may grow.")
    ] = SLOWER_BY_MORE_THAN,
) -> None:
    """Compare two runs over the same rows; exit with 3 if the later one is worse."""
    found = compare_results(load_results(earlier), load_results(later), tolerance=tolerance)
    lines = [
        f"{' '.join(filter(None, (way, table, case)))}: {ratio:.2f}"
        for (table, case, way), ratio in found.ratios.items()
    ]
    lines.append(f"the machine was {found.drift:.2f} times as slow, by the peers")
    lines += [f"regression: {one}" for one in found.regressions] or ["no regression"]
    sys.stdout.write("\n".join(lines) + "\n")
    if found.regressions:
        raise typer.Exit(EXIT_WORSE)


@app.command()
def report(
    results: Annotated[list[Path], typer.Argument(help="Results of one or more runs.")],
) -> None:
    """Print runs as Markdown: figures, our ratios to the best peer, what went wrong."""
    sys.stdout.write("\n".join(render_results(load_results(path)) for path in results))


def _results_folder() -> Path:
    """Return the checkout's folder of results, else the current folder."""
    root = checkout()
    return root / "benchmarks" / "results" if root else Path.cwd()


def _file_name(found: ScenarioResults) -> str:
    moment = found.machine["started"][:16].replace(":", "").replace("-", "")
    return f"{moment}-{found.scenario}.json"
