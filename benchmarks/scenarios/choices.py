"""Whether the source that a query is answered from is the quickest of those that could.

Random questions are asked of random tables. Of a workload, a table has its projections and some
that tempt: they fit, but hold nearly as many rows as the table, or more columns than are asked for.
Every query is run as it is planned, and with each source forced that can answer it. Times are
processor time of one thread, so that a busy machine changes them little.

A random table has keys of few and of many values, and projections of groups and of rows that are
drawn, too: some nearly as long as the table, some with states that are dear to merge. A question is
drawn from what one of them stores, so that planning has to choose. A seed gives the same ones.
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

import numpy as np
import pyarrow as pa

import projseg
from projseg import Projection
from projseg.algebra.query.request import Query
from projseg.benchmarks.bench import Bench
from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.measuring import take_turn
from projseg.benchmarks.peers.projseg_engine import declared, query_arguments
from projseg.benchmarks.workload import Question, RowsToStage, Workload
from projseg.benchmarks.written_workloads import EDITS, LINEITEM, LineitemRows
from projseg.errors import ProjectionNotUsableError
from projseg.reader.plan.query_plan import plan_asked

_DAYS: Final = 20
_START: Final = np.datetime64("2024-05-01", "us")
_VALUE_COUNTS: Final = (3, 40, 1_000, 30_000, 300_000)
_KEYS: Final = ("a", "b", "c", "n", "day", "date_trunc('HOUR', t)", "date_trunc('DAY', t)")
_STATES: Final = (
    "sum(x)",
    "sum(y)",
    "sum(z)",
    "sum(x * n)",
    "sum(z * (1 - z))",
    "count(y)",
    "min(z)",
    "max(t)",
    "var_samp(y)",
)
_SETS: Final = (
    "approx_count_distinct(u)",
    "theta_sketch_agg(u)",
    "kll_sketch_agg_double(y)",
    "count(DISTINCT u)",
)
_KEYS_COMPUTED: Final = {
    "a": ("upper(a)", "substr(a, 1, 2)"),
    "b": ("concat(b, '!')", "length(b)"),
    "c": ("substr(c, 1, 3)",),
    "n": ("n % 10", "n DIV 7", "CASE WHEN n > 9 THEN n ELSE 0 END"),
    "day": ("year(day)", "dayofweek(day)", "day + 1"),
    "date_trunc('HOUR', t)": ("date_trunc('DAY', t)", "hour(t)"),
    "date_trunc('DAY', t)": ("date_trunc('WEEK', t)",),
}
_CONDITIONS: Final = {
    "a": ("a = 'v1'", "a IN ('v1', 'v2', 'v10')", "a LIKE 'v1%'", "length(a) > 2"),
    "b": ("b <> 'v1'", "b >= 'v3'", "b LIKE '%7'", "upper(b) = 'V2'"),
    "c": ("c = 'v17'", "c < 'v2'", "substr(c, 2, 1) = '5'"),
    "n": ("n = 5", "n > 20", "n * 2 + 1 < 60", "n % 3 = 0 AND n > 2", "n BETWEEN 10 AND 12"),
    "day": ("day = DATE'2024-05-03'", "day < DATE'2024-05-08'", "dayofweek(day) = 2"),
    "date_trunc('HOUR', t)": ("hour(t) < 7", "to_date(t) > DATE'2024-05-12'"),
    "date_trunc('DAY', t)": ("dayofmonth(t) > 7",),
}
_WEIGHED: Final = ("sum(n)", "sum(n * 2 + 1)", "max(n)", "avg(n)")
_OF_STATES: Final = {"sum(x)": ("sum(2 * x + 1)", "avg(x)"), "sum(y)": ("sum(y)", "avg(y)")}

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
        workload, rows = LINEITEM, LineitemRows.in_folder(bench.folder / "made", bench["scale"])
    table = _load_tempting(workload, rows, bench.folder / "table")
    yield from _choices(table, workload.select(bench.names("queries")))


def _load_tempting(workload: Workload, rows: RowsToStage, folder: Path) -> projseg.Table:
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


def random_table(folder: Path, seed: int) -> tuple[projseg.Table, tuple[Projection, ...]]:
    """Return a table of 20,000, 60,000 or 200,000 rows, and its projections."""
    draw = np.random.default_rng([seed, 1])
    row_count = int(draw.choice([20_000, 60_000, 200_000]))
    projections = tuple(_projections(draw))
    rows = _rows(draw, row_count)
    table = projseg.Table.create(folder, rows.schema, time_column="t", projections=projections)
    table.append(rows)
    return table, projections


def random_questions(
    projections: Sequence[Projection], seed: int, count: int
) -> Iterator[Question]:
    """Yield questions that a projection of the table can probably answer."""
    draw = np.random.default_rng([seed, 2])
    for number in range(count):
        yield _question(draw, projections[int(draw.integers(len(projections)))], f"{seed}.{number}")


def _rows(draw: np.random.Generator, row_count: int) -> pa.Table:
    def texts() -> pa.Array:
        ranks = _ranks(draw, row_count)
        return pa.array(np.char.add("v", ranks.astype("U7")))

    times = np.sort(draw.integers(0, _DAYS * 86_400_000_000, row_count))
    prices = pa.array(draw.integers(0, 100_000, row_count), pa.int32()).cast(pa.decimal128(15, 2))
    return pa.table(
        {
            "t": pa.array(_START + times.astype("m8[us]"), pa.timestamp("us", "UTC")),
            **{name: texts() for name in ("a", "b", "c", "u")},
            "n": pa.array(_ranks(draw, row_count).astype(np.int64)),
            "day": pa.array(
                _START.astype("M8[D]") + draw.integers(0, 300, row_count).astype("m8[D]")
            ),
            "x": pa.array(draw.integers(0, 5_000, row_count).astype(np.int32)),
            "y": pa.array(draw.random(row_count).round(3), mask=draw.random(row_count) < 0.1),
            "z": prices,
        }
    )


def _ranks(draw: np.random.Generator, row_count: int) -> np.ndarray:
    """Return ranks of values by Zipf's law, or each as frequent as the others."""
    most = int(draw.choice(_VALUE_COUNTS))
    if draw.random() < 0.5:
        return draw.integers(0, most, row_count)
    return np.floor((most + 1.0) ** draw.random(row_count)).astype(np.int64) - 1


def _some(draw: np.random.Generator, values: Sequence[str], least: int, most: int) -> list[str]:
    count = min(int(draw.integers(least, most + 1)), len(values))
    return [values[place] for place in draw.choice(len(values), count, replace=False)]


def _projections(draw: np.random.Generator) -> Iterator[Projection]:
    for number in range(4):
        states = ["count(*)", *_some(draw, _STATES, 1, 4), *_some(draw, _SETS, 0, 1)]
        yield Projection(f"groups{number}", _some(draw, _KEYS, 1, 3), states)
    for number in range(2):
        columns = ["t", "x", "n", *_some(draw, ["a", "b", "c", "u", "day", "y", "z"], 3, 6)]
        order = _some(draw, [name for name in columns if name not in "tx"], 1, 2)
        yield Projection(f"rows{number}", columns=columns, order_by=order)


def _question(draw: np.random.Generator, stored: Projection, name: str) -> Question:
    keys = list(stored.group_by) or [one for one in stored.order_by if one in _CONDITIONS]
    others = [one for one in stored.columns if one in _CONDITIONS]
    asked = [
        str(draw.choice([key, *_KEYS_COMPUTED[key]])) for key in _some(draw, keys or others, 0, 2)
    ]
    conditions = [
        str(draw.choice(_CONDITIONS[key]))
        for key in _some(draw, keys if stored.group_by else keys + others, 0, 2)
    ]
    if stored.columns:
        numbers = [one for one in stored.columns if one in ("x", "y", "z", "n")]
        states = [f"sum({one})" for one in numbers] + ["count(*)", "sum(x * n)"]
    else:
        states = [str(draw.choice([one, *_OF_STATES.get(one, ())])) for one in stored.aggregators]
        states += _some(draw, _WEIGHED, 0, 2) if "n" in keys else []
    interval = None
    if draw.random() < 0.25:
        first, days = int(draw.integers(1, 10)), int(draw.integers(1, 10))
        interval = (f"2024-05-{first:02} 00:00:00", f"2024-05-{first + days:02} 00:00:00")
    return Question(
        name,
        tuple(dict.fromkeys(asked)),
        tuple(dict.fromkeys(_some(draw, states, 1, 3))),
        filter=" AND ".join(dict.fromkeys(conditions)) or None,
        interval=interval,
        table="random",
    )
