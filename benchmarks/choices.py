"""Whether the source that a query is answered from is the quickest of those that could.

    python -m projseg.benchmarks.choices --workload lineitem --scale 1 --output choices.json

A table has the workload's projections and some that tempt: they fit, but hold nearly as many rows
as the table, or more columns than are asked for. Every query is run as it is planned, and with each
source forced that can answer it. A line a query tells the chosen source, the quickest, and the
ratio of their times; then each source's estimated cost beside its time. Times are processor time of
one thread, so that a busy machine changes them little.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

import projseg
from projseg.benchmarks.figures import format_ms, format_ratio
from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.lineitem import LineitemRows
from projseg.benchmarks.peers.projseg_engine import declared, query_arguments
from projseg.benchmarks.publish import publish
from projseg.benchmarks.question import Question, Rollup
from projseg.benchmarks.staging import RowsToStage
from projseg.benchmarks.turn import take_turn
from projseg.benchmarks.workload import WORKLOADS, Workload, workload_named
from projseg.errors import ProjectionNotUsableError

__all__ = ["TEMPTING", "MeasuredChoice", "TimedSource", "choices_of", "load", "main"]

SLOWER_BY_AT_MOST: Final = 1.2
_ROUNDS: Final = 3
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=list(WORKLOADS), default="lineitem")
    parser.add_argument("--rows", type=int, default=2_000_000, help="edits")
    parser.add_argument("--scale", type=float, default=1.0, help="of lineitem")
    parser.add_argument("--queries", default="", help="separated by commas")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args(arguments)
    workload = workload_named(asked.workload)
    names = [name for name in asked.queries.split(",") if name]
    with tempfile.TemporaryDirectory() as folder:
        rows = _rows(asked, Path(folder))
        table = load(workload, rows, Path(folder) / "table")
        found = list(choices_of(table, workload.select(names)))
        row_count = rows.row_count
    for choice in found:
        sys.stdout.write(f"{_line(choice)}\n")
    figures = {
        "workload": workload.name,
        "rows": row_count,
        "slower by more than a fifth": [
            one.query for one in found if one.ratio > SLOWER_BY_AT_MOST
        ],
        "choices": msgspec.to_builtins(found),
    }
    publish("python -m projseg.benchmarks.choices", figures, asked.output)


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


def choices_of(table: projseg.Table, queries: Sequence[Question]) -> Iterator[MeasuredChoice]:
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
        reads = table.explain(**arguments, analyze=True).segments
    except ProjectionNotUsableError:
        return None
    source = "+".join(sorted({name or "base" for name in reads["source"].to_pylist()}))
    return _Way(source, sum(reads["estimated_milliseconds"].to_pylist()), arguments)


def _timed(table: projseg.Table, ways: Sequence[_Way]) -> tuple[TimedSource, ...]:
    """Ask all ways in turn, again and again, and keep the least time of each."""
    least = dict.fromkeys((way.source for way in ways), float("inf"))
    for _ in range(_ROUNDS):
        for way in ways:
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


def _rows(asked: argparse.Namespace, folder: Path) -> RowsToStage:
    if asked.workload == "edits":
        return EditStream(asked.rows)
    return LineitemRows.made(folder / "made", asked.scale)


if __name__ == "__main__":
    main()
