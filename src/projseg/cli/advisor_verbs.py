"""Verbs of the advisor: what a table should store for its logged queries."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import projseg
from projseg.cli.output import OutputFormat, chosen_format, print_rows, shown_progress, terminal
from projseg.cli.shared_arguments import IsPreview, Location, Output, open_table
from projseg.errors import InvalidInputError

# Other verbs start without the advisor.
if TYPE_CHECKING:
    from projseg.advisor.advice import Advice
    from projseg.advisor.log_records import LogLike

_DIFFERENT_ANSWERS = 3


def advise(
    location: Location,
    *,
    log: Annotated[str | None, "The folder of a query log, as PROJSEG_QUERY_LOG named it."] = None,
    queries: Annotated[
        str | None, "Instead: a file of SELECTs that end with ;, each of which is asked."
    ] = None,
    budget: Annotated[
        str, "What projections and indexes may take: a share of the rows' bytes, or 500M."
    ] = "10%",
    since: Annotated[str, "How old the oldest query may be."] = "30 days",
    kinds: Annotated[
        str, "What may be advised, with commas."
    ] = "projection,rows,index,view,drop,compact",
    seconds: Annotated[float, "After which the best that was found is said."] = 60,
    measure: Annotated[
        bool, "Also try it on a copy of some segments; exit code 3 if an answer differs."
    ] = False,
    apply: Annotated[bool, "Do it, with --yes."] = False,
    drop: Annotated[bool, "With --apply: also drop what nobody needs."] = False,
    no_build: Annotated[bool, "With --apply: build nothing in segments that are there."] = False,
    is_preview: IsPreview,
    report: Annotated[bool, "Compare what was applied with its estimate instead."] = False,
    output: Output = None,
) -> None:
    """Say what the table should store for its logged queries, and what it stores unused."""
    table = open_table(location)
    place = _place(log, queries)
    if report:
        print_rows(projseg.advice_report(table, place), output)
        return
    wanted = [kind.strip() for kind in kinds.split(",") if kind.strip()]
    advice = projseg.advise(
        table, place, budget=budget, since=since, kinds=wanted, seconds=seconds, measure=measure
    )
    _print(advice, output)
    if any(shape.is_same_answer is False for shape in advice.shapes):
        sys.stderr.write("answers differ with the advice: report this as a fault of projseg\n")
        raise SystemExit(_DIFFERENT_ANSWERS)
    if not apply:
        return
    if is_preview:
        sys.stderr.write("nothing was changed; add --yes to apply it\n")
        return
    _apply(table, advice, drop=drop, materialize=not no_build)


def _place(log: str | None, queries: str | None) -> LogLike:
    if (log is None) == (queries is None):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", "give --log FOLDER or --queries FILE, one of them"
        )
    if queries is None:
        assert log is not None, "one of them is given"
        return log
    from projseg.advisor.measured_workload import read_statements

    return read_statements(Path(queries))


def _print(advice: Advice, output: OutputFormat | None) -> None:
    chosen = chosen_format(output)
    if chosen is OutputFormat.JSON:
        sys.stdout.write(advice.to_json() + "\n")
    elif chosen is OutputFormat.TABLE:
        terminal().print(str(advice), markup=False, soft_wrap=True)
    else:
        items = json.loads(advice.to_json())["items"]
        plain = [
            {name: value for name, value in item.items() if not isinstance(value, list | dict)}
            for item in items
        ]
        print_rows(plain, output)


def _apply(table: projseg.Table, advice: Advice, *, drop: bool, materialize: bool) -> None:
    with shown_progress() as progress:
        task = progress.add_task("building projections", total=None)
        commits = advice.apply(
            table,
            drop=drop,
            materialize=materialize,
            on_progress=lambda done, count: progress.update(task, completed=done, total=count),
        )
    if not commits:
        sys.stderr.write("the table has it all already\n")
        return
    measured = {row["projection"]: row for row in table.projection_stats().to_pylist()}
    for item in advice.items:
        found = measured.get(item.name)
        if item.kind != "drop" and found is not None:
            sys.stderr.write(
                f"{item.name}: {found['rows']:,} rows, {found['bytes']:,} bytes; "
                f"estimated {item.rows:,} and {item.bytes:,}\n"
            )
    sys.stderr.write(f"version {commits[-1].version}\n")
