"""Measure a delete of rows that are scattered over all segments, and the queries after it.

    python -m projseg.benchmarks.scattered_delete [--rows 2000000 20000000] [--output results.json]

For each size a table of generated edits in 30 segments, with the benchmark's projections, loses one
row of a hundred: the time and the bytes that this takes, beside writing every segment anew; then
the eight queries of the workload before, afterwards, and after a compaction: their sources, and
milliseconds with nothing cached and asked again. Answers after the compaction must be those before
it.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import projseg
from projseg.benchmarks.edit_queries import PROJECTIONS, QUERIES
from projseg.benchmarks.generator import SCHEMA, EditStream
from projseg.benchmarks.publish import publish
from projseg.benchmarks.question import Question
from projseg.benchmarks.turn import take_turn
from projseg.errors import InvalidInputError
from projseg.maintenance.row_changes.affected_segments import MAX_DELETED_RATIO
from projseg.memory.cache import KEPT
from projseg.spark_engine.warehouse import set_properties

ONE_IN_A_HUNDRED: Final = "unix_seconds(time) % 100 = 37"
WORKLOAD: Final = QUERIES[:8]
_TOLERANCE: Final = 1e-9  # of sums of doubles, whose order of addition a compaction changes


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000, 20_000_000])
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args(arguments)
    cases = {}
    for row_count in asked.rows:
        with tempfile.TemporaryDirectory() as folder:
            cases[f"{row_count:,} rows"] = measured(Path(folder), row_count)
    publish("python -m projseg.benchmarks.scattered_delete", cases, asked.output)


def measured(folder: Path, row_count: int) -> dict[str, Any]:
    """Load, delete, ask and compact."""
    table = projseg.Table.create(
        folder / "t",
        SCHEMA,
        time_column="time",
        segment_granularity="day",
        cluster_by=["channel"],
        projections=[
            projseg.Projection(one.name, list(one.group_by), list(one.aggregators))
            for one in PROJECTIONS
        ],
    )
    table.append(EditStream(row_count).reader())
    before = _asked(table)
    shutil.copytree(folder / "t", folder / "anew")
    anew = projseg.Table(str(folder / "anew"))
    set_properties(anew, {MAX_DELETED_RATIO: "0"})
    deletes = {"by vectors": _deleted(table), "by writing segments anew": _deleted(anew)}
    shutil.rmtree(folder / "anew")
    segments = len(table.snapshot.segments)
    after, answers = _asked(table), _answers(table)
    start = time.perf_counter()
    table.compact()
    compaction = time.perf_counter() - start
    _require_same(answers, _answers(table))
    return {
        "segments": segments,
        "bytes": table.snapshot.data_bytes,
        "delete": deletes,
        "compact seconds": round(compaction, 2),
        "queries before": before,
        "queries after": after,
        "queries after compaction": _asked(table),
    }


def _deleted(table: projseg.Table) -> dict[str, float]:
    """Delete, and return what it took."""
    KEPT.clear()
    bytes_before = _bytes_of(table)
    start, processor = time.perf_counter(), time.process_time()
    done = table.delete(ONE_IN_A_HUNDRED)
    return {
        "seconds": round(time.perf_counter() - start, 2),
        "processor_seconds": round(time.process_time() - processor, 2),
        "deleted_rows": done.deleted_rows,
        "masked_segments": done.masked_segments,
        "written_segments": done.added_segments,
        "written_bytes": _bytes_of(table) - bytes_before,
    }


def _bytes_of(table: projseg.Table) -> int:
    files = Path(table.location).rglob("*")
    return sum(path.stat().st_size for path in files if path.is_file())


def _query(question: Question) -> dict[str, Any]:
    return {
        "group_by": list(question.group_by),
        "aggregators": list(question.aggregators),
        "columns": list(question.outputs) if question.is_row_scan else [],
        "filter": question.filter,
        "order_by": list(question.order_by),
        "limit": question.limit,
    }


def _asked(table: projseg.Table) -> dict[str, dict[str, Any]]:
    """Return, for each query, its sources and milliseconds: nothing cached, and asked again."""
    found = {}
    for question in WORKLOAD:
        query = {name: part for name, part in _query(question).items() if part}
        ask = partial(table.query, **query)
        KEPT.clear()
        start = time.perf_counter()
        ask()
        cold = time.perf_counter() - start
        found[question.name] = {
            "sources": dict(table.explain(**query).sources),
            "cold": round(cold * 1000, 1),
            "warm": round(take_turn(ask).milliseconds, 1),
        }
    return found


def _answers(table: projseg.Table) -> dict[str, pa.Table]:
    found = {}
    for question in WORKLOAD:
        query = {name: part for name, part in _query(question).items() if part}
        answer = table.query(**query)
        found[question.name] = answer.sort_by([(name, "ascending") for name in answer.column_names])
    return found


def _require_same(wanted: dict[str, pa.Table], found: dict[str, pa.Table]) -> None:
    for name, answer in wanted.items():
        columns = zip(answer.columns, found[name].columns, strict=True)
        if len(answer) != len(found[name]) or not all(map(_are_same, *zip(*columns, strict=True))):
            raise InvalidInputError(
                "PROJSEG_INTERNAL", f"query '{name}' has another answer after the compaction"
            )


def _are_same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    if pa.types.is_floating(one.type):
        return bool(np.allclose(one.to_numpy(), other.to_numpy(), rtol=_TOLERANCE, equal_nan=True))
    return bool(one.equals(other))


if __name__ == "__main__":
    main()
