"""Whether the source that a query is answered from is the quickest of those that could.

Random questions are asked of random tables. Of a workload, a table has its projections and some
that tempt: they fit, but hold nearly as many rows as the table, or more columns than are asked for.
Every query is run as it is planned, and with each source forced that can answer it. Times are
processor time of one thread, so that a busy machine changes them little.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import projseg
from projseg.algebra.query.request import Query
from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.peers.projseg_engine import declared, query_arguments
from projseg.benchmarks.runner.scenario import Bench
from projseg.benchmarks.runner.staging import RowsToStage
from projseg.benchmarks.runner.turn import take_turn
from projseg.benchmarks.workloads.lineitem_rows import LineitemRows
from projseg.benchmarks.workloads.question import Question, Workload
from projseg.benchmarks.workloads.random_questions import random_questions, random_table
from projseg.benchmarks.workloads.written import EDITS, LINEITEM
from projseg.errors import ProjectionNotUsableError
from projseg.reader.plan.query_plan import plan_asked

_SLOWER_BY_AT_MOST: Final = 1.3
_ROUNDS_MIN: Final = 4
_ROUNDS_MAX: Final = 60
_SECONDS: Final = 0.6  # of the processor, after which no more than the least rounds are begun
_NANOSECONDS: Final = 1e6  # in a millisecond
_HOPELESS: Final = 4.0  # a source that takes so many times the least is not timed again
_QUESTIONS_A_TABLE: Final = 10


@dataclass(frozen=True)
class _Way:
    """The arguments of a query that is answered from one source."""

    table: projseg.Table
    source: str
    estimated_ms: float
    arguments: dict[str, Any]


_Choice: TypeAlias = tuple[Question, str, list[_Way]]  # with the chosen source, and all


def run(bench: Bench) -> None:
    """Time every source of each query."""
    if bench["workload"] == "random":
        found = _random_choices(bench.folder, bench["seed"], bench["questions"])
    else:
        found = _workload_choices(bench)
    ratios = {}
    for query, chosen, ways in found:
        bench.progress(query.name)
        least = _timed(ways)
        ratios[query.name] = least[chosen] / min(least.values())
        for way in sorted(ways, key=lambda way: least[way.source]):
            mark = "chosen" if way.source == chosen else ""
            values = {"cpu ms": least[way.source], "estimated ms": way.estimated_ms}
            bench.add("sources", query.name, way.source, values | {"choice": mark})
    for name, ratio in sorted(ratios.items(), key=lambda one: -one[1]):
        mark = "slow" if ratio > _SLOWER_BY_AT_MOST else ""
        bench.add("choices", name, "", {"chosen / quickest": ratio, "remark": mark})
    near = sum(ratio <= _SLOWER_BY_AT_MOST for ratio in ratios.values())
    case = f"within {_SLOWER_BY_AT_MOST} of the quickest"
    bench.add("all choices", case, "", {"questions": near, "of": len(ratios)})


def _random_choices(folder: Path, seed: int, count: int) -> Iterator[_Choice]:
    """Yield the choices of random questions that more than one source can answer."""
    left, number = count, seed
    while left > 0:
        table, projections = random_table(folder / str(number), number)
        questions = random_questions(projections, number, 2 * _QUESTIONS_A_TABLE)
        for choice in islice(_choices(table, questions), min(left, _QUESTIONS_A_TABLE)):
            left -= 1
            yield choice
        number += 1


def _workload_choices(bench: Bench) -> Iterator[_Choice]:
    rows: RowsToStage
    if bench["workload"] == EDITS.name:
        workload, rows = EDITS, EditStream(bench["rows"])
    else:
        workload, rows = LINEITEM, LineitemRows.made(bench.folder / "made", bench["scale"])
    table = load_tempting(workload, rows, bench.folder / "table")
    yield from _choices(table, workload.select(bench.names("queries")))


def load_tempting(workload: Workload, rows: RowsToStage, folder: Path) -> projseg.Table:
    """Return a table of the rows with the workload's projections and those that tempt."""
    table = projseg.Table.create(
        folder,
        workload.schema,
        time_column=workload.time_column,
        projections=declared(workload.projections + workload.tempting),
    )
    table.append(rows.batches())
    return table


def _choices(table: projseg.Table, queries: Iterable[Question]) -> Iterator[_Choice]:
    """Yield the chosen source and all ways of each query that has more than one."""
    names = table.projection_stats()["projection"].to_pylist()
    forced = [{"noProjections": True}]
    forced += [{"forceProjections": True, "useProjection": name} for name in names]
    for query in queries:
        if query.is_drained:
            continue
        ways: dict[str, _Way] = {}
        for context in (*forced, {}):
            way = _way(table, query, context)
            if way is not None:
                ways.setdefault(way.source, way)
                chosen = way.source  # that of the last context, which forces nothing
        if len(ways) > 1:
            yield query, chosen, list(ways.values())


def _way(table: projseg.Table, query: Question, context: dict[str, Any]) -> _Way | None:
    """Return the way that a context wants, None if the source cannot answer."""
    arguments = {**query_arguments(query), "context": {**context, "threads": 1}}
    try:
        segments = plan_asked(table.snapshot, Query(**arguments)).segments
    except ProjectionNotUsableError:
        return None
    plans = [plan for segment in segments for plan in segment.choice.plans]
    source = "+".join(sorted({plan.source_name or "base" for plan in plans}))
    return _Way(table, source, sum(plan.cost for plan in plans) / _NANOSECONDS, arguments)


def _timed(ways: Sequence[_Way]) -> dict[str, float]:
    """Ask all ways in turn, again and again, and return the least time of each."""
    for way in ways:
        way.table.query(**way.arguments)  # kernels that it needs may be compiled
    least = dict.fromkeys((way.source for way in ways), math.inf)
    begun = time.process_time()
    for turns in range(_ROUNDS_MAX):
        if turns >= _ROUNDS_MIN and time.process_time() - begun > _SECONDS:
            break
        hopeless = _HOPELESS * min(least.values())
        for way in ways:
            if turns > 1 and least[way.source] > hopeless:  # one turn may have been disturbed
                continue
            turn = take_turn(partial(way.table.query, **way.arguments))
            least[way.source] = min(least[way.source], turn.cpu_milliseconds)
    return least
