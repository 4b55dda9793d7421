"""Whether the source that a query is answered from is the quickest of those that could.

    projseg bench choices --questions 100 --output choices.json
    projseg bench choices --workload lineitem --scale 1 --output choices.json

Random questions are asked of random tables (`random_questions`). Of a workload, a table has its
projections and some that tempt: they fit, but hold nearly as many rows as the table, or more
columns than are asked for. Every query is run as it is planned, and with each source forced that
can answer it. A line a query tells the chosen source, the quickest, and the ratio of their times;
then each source's estimated cost beside its time. The last line tells for how many queries the
chosen source takes at most 1.3 times as long as the quickest. Times are processor time of one
thread, so that a busy machine changes them little.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

import projseg
from projseg.algebra.query.request import Query
from projseg.benchmarks.figures import format_ms, format_ratio
from projseg.benchmarks.peers.projseg_engine import declared, query_arguments
from projseg.benchmarks.publish import publish
from projseg.benchmarks.question import Question, Rollup
from projseg.benchmarks.random_questions import random_questions, random_table
from projseg.benchmarks.staging import RowsToStage
from projseg.benchmarks.turn import take_turn
from projseg.benchmarks.workload import Workload
from projseg.errors import ProjectionNotUsableError
from projseg.reader.plan.query_plan import plan_asked

__all__ = [
    "TEMPTING",
    "MeasuredChoice",
    "TimedSource",
    "choices_of",
    "load",
    "measure_choices",
    "random_choices",
]

SLOWER_BY_AT_MOST: Final = 1.3
_ROUNDS: Final = 3
_NANOSECONDS: Final = 1e6  # in a millisecond
_HOPELESS: Final = 4.0
"""A source that takes so many times as long as the quickest is not timed again."""
_QUESTIONS_A_TABLE: Final = 10
_EDITS: Final = ("sum(added) AS total_added", "sum(deleted) AS total_deleted", "count(*) AS edits")
_LINES: Final = ("sum(l_quantity) AS quantity", "count(*) AS lines")
TEMPTING: Final[dict[str, tuple[Rollup, ...]]] = {
    "edits": (
        Rollup("by_user", ("user",), _EDITS),
        Rollup("by_hour_page", ("date_trunc('HOUR', time) AS hour", "page"), _EDITS),
        Rollup("by_minute_device", ("date_trunc('MINUTE', time) AS minute", "device"), _EDITS),
        Rollup("by_channel_country_device", ("channel", "country", "device"), _EDITS),
        Rollup("users_by_country_device", ("country", "device"), ("approx_count_distinct(user)",)),
    ),
    "lineitem": (
        Rollup(
            "daily_discounts",
            ("l_shipdate", "l_discount", "l_quantity"),
            ("sum(l_extendedprice * l_discount) AS discounts", "count(*) AS lines"),
        ),
        Rollup("by_order", ("l_orderkey",), _LINES),
        Rollup("by_part", ("l_partkey",), _LINES),
        Rollup("by_part_supplier", ("l_partkey", "l_suppkey"), _LINES),
        Rollup(
            "by_dates",
            ("l_shipmode", "l_shipdate", "l_commitdate", "l_receiptdate"),
            _LINES,
        ),
    ),
}


class TimedSource(msgspec.Struct, frozen=True):
    """One source that can answer a query."""

    source: str
    estimated_ms: float
    milliseconds: float


class MeasuredChoice(msgspec.Struct, frozen=True):
    """What was chosen among the offers, which come by rising time."""

    query: str
    chosen: str
    offers: tuple[TimedSource, ...]

    @property
    def ratio(self) -> float:
        """The chosen source's time over the quickest's."""
        own = next(offer for offer in self.offers if offer.source == self.chosen)
        return own.milliseconds / self.offers[0].milliseconds


def measure_choices(
    found: Iterable[MeasuredChoice], about: Mapping[str, Any], output: Path | None
) -> None:
    """Print a line for each choice, and what they come to; keep that as JSON."""
    choices = []
    for choice in found:
        sys.stdout.write(f"{_line(choice)}\n")
        choices.append(choice)
    near = sum(choice.ratio <= SLOWER_BY_AT_MOST for choice in choices)
    figures = {
        **about,
        "questions": len(choices),
        f"within {SLOWER_BY_AT_MOST} of the quickest": near,
        "worst ratio": max((choice.ratio for choice in choices), default=1.0),
        "choices": msgspec.to_builtins(choices),
    }
    publish("projseg bench choices", figures, output)
    sys.stdout.write(f"{near} of {len(choices)} within {SLOWER_BY_AT_MOST} of the quickest\n")


def random_choices(folder: Path, seed: int, count: int) -> Iterator[MeasuredChoice]:
    """Yield the choices of random questions that more than one source can answer."""
    left, number = count, seed
    while left > 0:
        table, projections = random_table(folder / str(number), number)
        questions = random_questions(projections, number, 2 * _QUESTIONS_A_TABLE)
        for choice in islice(choices_of(table, questions), min(left, _QUESTIONS_A_TABLE)):
            left -= 1
            yield choice
        number += 1


def load(workload: Workload, rows: RowsToStage, folder: Path) -> projseg.Table:
    """Return a table of the rows with the workload's projections and those that tempt."""
    dataset = workload.dataset
    wanted = workload.projections + TEMPTING[workload.name]
    table = projseg.Table.create(
        folder,
        dataset.schema,
        time_column=dataset.time_column,
        projections=declared(projseg, wanted),
    )
    table.append(rows.batches())
    return table


def choices_of(table: projseg.Table, queries: Iterable[Question]) -> Iterator[MeasuredChoice]:
    """Yield the choice among the sources of each query that has more than one."""
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
            yield MeasuredChoice(query.name, chosen, _timed(table, list(ways.values())))


class _Way(msgspec.Struct, frozen=True):
    """The arguments of a query that is answered from one source."""

    source: str
    estimated_ms: float
    arguments: dict[str, Any]


def _way(table: projseg.Table, query: Question, context: dict[str, Any]) -> _Way | None:
    """Return the way that a context wants, None if the source cannot answer."""
    arguments = {**query_arguments(query), "context": {**context, "threads": 1}}
    try:
        segments = plan_asked(table.snapshot, Query(**arguments)).segments
    except ProjectionNotUsableError:
        return None
    plans = [plan for segment in segments for plan in segment.choice.plans]
    source = "+".join(sorted({plan.source_name or "base" for plan in plans}))
    return _Way(source, sum(plan.cost for plan in plans) / _NANOSECONDS, arguments)


def _timed(table: projseg.Table, ways: Sequence[_Way]) -> tuple[TimedSource, ...]:
    """Ask all ways in turn, again and again, and keep the least time of each."""
    least = dict.fromkeys((way.source for way in ways), math.inf)
    for turns in range(_ROUNDS):
        hopeless = _HOPELESS * min(least.values())
        for way in ways:
            if turns and least[way.source] > hopeless:
                continue
            turn = take_turn(partial(table.query, **way.arguments))
            least[way.source] = min(least[way.source], turn.cpu_milliseconds)
    offers = (TimedSource(way.source, way.estimated_ms, least[way.source]) for way in ways)
    return tuple(sorted(offers, key=lambda offer: offer.milliseconds))


def _line(choice: MeasuredChoice) -> str:
    mark = "!" if choice.ratio > SLOWER_BY_AT_MOST else " "
    offers = (
        f"{one.source} {format_ms(one.milliseconds)} (estimated {format_ms(one.estimated_ms)})"
        for one in choice.offers
    )
    ratio = format_ratio(choice.ratio)
    return f"{mark} {choice.query:28} {choice.chosen:32} {ratio:>6}   {'; '.join(offers)}"
