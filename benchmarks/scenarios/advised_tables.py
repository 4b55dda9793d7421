"""What advice from a log is worth: beside projections made by hand, in the same bytes."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import projseg
from projseg.advisor.known_shapes import expected_milliseconds, fixed_milliseconds
from projseg.advisor.workload import gather
from projseg.algebra.query.request import Query
from projseg.benchmarks.bench import Bench, same_answer
from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.measuring import take_turn
from projseg.benchmarks.peers.projseg_engine import declared, query_arguments
from projseg.benchmarks.workload import Question
from projseg.benchmarks.written_workloads import EDITS
from projseg.reader.query_log.log_files import SETTING, flush_query_logs
from projseg.reader.query_log.read_log import LogReader
from projseg.table.table_version import reader_of

_ASKED: Final = 12  # times that each question is in the log


def run(bench: Bench) -> None:
    """Log a workload, apply the advice, and measure it beside nothing and beside one's own hand."""
    queries = EDITS.select(bench["queries"].split(",") if bench["queries"] else ())
    stream = EditStream(bench["rows"], bench["seed"])
    tables = {
        way: projseg.Table.create(
            bench.folder / way,
            stream.schema,
            time_column="time",
            segment_granularity=EDITS.granularity or "all",
            projections=specs,
            data=EditStream(bench["rows"], bench["seed"]).reader(),
        )
        for way, specs in (("none", []), ("by hand", declared(EDITS.projections)))
    }
    bench.progress("logging")
    log = _logged(tables["none"], queries, bench.folder / "log")
    shape_ids = _shape_ids(log, tables["none"], queries)
    by_hand = _bytes(tables["by hand"])
    bench.progress("advising")
    processor_before = os.times()
    advice = projseg.advise(
        tables["none"], log, budget=str(by_hand), seconds=bench["seconds"], kinds=["projection"]
    )
    took = os.times()
    bench.progress("applying")
    tables["advised"] = projseg.Table.create(
        bench.folder / "advised",
        stream.schema,
        time_column="time",
        segment_granularity=EDITS.granularity or "all",
        data=EditStream(bench["rows"], bench["seed"]).reader(),
    )
    advice.apply(tables["advised"])
    bench.require("bytes within the budget", _bytes(tables["advised"]) <= 1.15 * by_hand, True)
    times = {query.name: _times(bench, query, tables) for query in queries}
    _add_sizes(bench, advice, tables["advised"])
    _add_savings(bench, queries, times)
    fixed = {query.name: _fixed(tables["none"], query) for query in queries}
    _add_estimates(bench, advice, queries, shape_ids, times, fixed)
    seconds = (took.user - processor_before.user) + (took.system - processor_before.system)
    bench.add("advice", "of the log", "advised", {
        "cpu s": seconds, "projections": len(advice.items), "shapes": len(advice.shapes),
        "bytes": _bytes(tables["advised"]), "bytes by hand": by_hand,
    })  # fmt: skip


def _logged(table: projseg.Table, queries: tuple[Question, ...], folder: Path) -> Path:
    before = os.environ.get(SETTING)
    os.environ[SETTING] = str(folder)
    try:
        for query in queries:
            for _ in range(_ASKED):
                table.query(**query_arguments(query))
        flush_query_logs()
    finally:
        if before is None:
            del os.environ[SETTING]
        else:
            os.environ[SETTING] = before
    return folder


def _shape_ids(log: Path, table: projseg.Table, queries: tuple[Question, ...]) -> dict[str, str]:
    """Return the shape of each question, which stand in the log one after the other."""
    records = sorted(LogReader(log, None), key=lambda one: one.time)
    found = {}
    for number, query in enumerate(queries):
        own = records[number * _ASKED : (number + 1) * _ASKED]
        (shape,) = gather(own, table.properties.table_id).shapes
        found[query.name] = shape.id
    return found


def _fixed(table: projseg.Table, query: Question) -> float:
    """Return the milliseconds of a question that no source spares it, as the advisor has them."""
    arguments = query_arguments(query)
    bound = reader_of(table).bound(Query(**arguments))
    return fixed_milliseconds(bound, float(len(table.query(**arguments))))


def _bytes(table: projseg.Table) -> int:
    return sum(one.byte_count for entry in table.snapshot.segments for one in entry.projections)


def _times(bench: Bench, query: Question, tables: Mapping[str, projseg.Table]) -> dict[str, float]:
    """Return the milliseconds of processor time of a question of each table, asked in turns."""
    bench.progress(query.name)
    asked = {way: partial(table.query, **query_arguments(query)) for way, table in tables.items()}
    answers = {way: ask() for way, ask in asked.items()}
    plain = {way: answer.replace_schema_metadata(None) for way, answer in answers.items()}
    if not query.limit and not query.approximate_outputs:
        for way in ("by hand", "advised"):
            bench.require(f"{query.name}: {way}", same_answer(plain["none"], plain[way]), True)
    taken: dict[str, list[tuple[float, float]]] = {way: [] for way in asked}
    for _ in range(bench["rounds"]):
        for way, ask in asked.items():
            taken[way].append(take_turn(ask))
    found = {}
    for way, several in taken.items():
        clock, processor = (statistics.median(column) for column in zip(*several, strict=True))
        sources = tables[way].explain(**query_arguments(query)).sources
        figures: dict[str, Any] = {"ms": clock, "cpu ms": processor}
        figures["base"] = int("base" in sources)
        bench.add("queries", query.title, way, figures)
        found[way] = processor
    return found


def _add_sizes(bench: Bench, advice: projseg.Advice, table: projseg.Table) -> None:
    """Add rows and bytes of what was built beside their estimates."""
    stored = {row["projection"]: row for row in table.projection_stats().to_pylist()}
    for item in advice.items:
        built = stored[item.name]
        bench.add("sizes", item.name, "advised", {
            "rows": built["rows"], "rows estimated": item.rows,
            "bytes": built["bytes"], "bytes estimated": item.bytes,
        })  # fmt: skip


def _add_savings(
    bench: Bench, queries: tuple[Question, ...], times: Mapping[str, Mapping[str, float]]
) -> None:
    """Add the processor time that each way saves, of what hands cover and of all."""
    covered = [query.name for query in queries if query.covered_by]
    for case, names in (("covered by hand", covered), ("all", [query.name for query in queries])):
        for way in ("by hand", "advised"):
            saved = sum(times[name]["none"] - times[name][way] for name in names)
            whole = sum(times[name]["none"] for name in names)
            bench.add("saved", case, way, {"cpu ms": saved, "share": saved / max(whole, 1e-9)})


def _add_estimates(
    bench: Bench,
    advice: projseg.Advice,
    queries: tuple[Question, ...],
    shape_ids: Mapping[str, str],
    times: Mapping[str, Mapping[str, float]],
    fixed: Mapping[str, float],
) -> None:
    """Add the expected time of each question that is answered otherwise than before.

    The expectation is made of its processor time without projections, as of that of a log.
    """
    shapes = {shape.id: shape for shape in advice.shapes}
    factors = []
    for query in queries:
        shape = shapes[shape_ids[query.name]]
        if shape.source_then == shape.source_now:
            continue
        share = shape.planned_then / max(shape.planned_now, 1e-9)
        found = times[query.name]["advised"]
        expected = expected_milliseconds(times[query.name]["none"], share, fixed[query.name])
        factor = max(expected / found, found / expected) if min(expected, found) else 0.0
        factors.append(factor)
        bench.add("estimates", query.title, "advised", {
            "cpu ms": found, "cpu ms estimated": expected, "factor": factor,
        })  # fmt: skip
    within = sum(factor <= 2 for factor in factors)
    bench.add("estimates", "all", "advised", {
        "shapes": len(factors), "within 2": within, "share": within / max(len(factors), 1),
    })  # fmt: skip
