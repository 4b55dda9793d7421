"""Measure the first query of a process over many rows, beside DuckDB on disk.

    python -m projseg.benchmarks.cold_queries 5000000 [results.json]

loads the generator's edits, with the benchmark's projections, and the same rows into a file of
DuckDB. Then each question is asked by new processes, which have imported the engine and opened the
table: the files are in the page cache, and nothing else is warm. The figures are medians in
milliseconds, of the clock and of the processor, which alone says what a question costs on a machine
that does other work as well.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

import projseg
from projseg.benchmarks.edit_queries import PROJECTIONS, QUERIES
from projseg.benchmarks.generator import SCHEMA, EditStream
from projseg.benchmarks.peers.statements import statement
from projseg.benchmarks.publish import publish
from projseg.benchmarks.question import Question

_RUNS: Final = 3
_THREADS: Final = 2
_NAMES: Final = (
    "by_channel",
    "by_day_channel_of_country",
    "by_hour_channel",
    "rows_of_page",
    "filter_point",
    "four_sums",
    "prices_by_country",
    "by_user",
)
_TIMED: Final = """
import json, sys, time
import pyarrow
{opened}
clock, processor = time.perf_counter(), time.process_time()
rows = {asked}
done = [time.perf_counter() - clock, time.process_time() - processor, rows.num_rows]
print(json.dumps([*done, "numba" in sys.modules]))
"""
_OURS: Final = _TIMED.format(
    opened="import projseg; table = projseg.Table(sys.argv[1]); table.version",
    asked="table.query(**json.loads(sys.argv[2]))",
)
_DUCKDB: Final = _TIMED.format(
    opened=(
        "import duckdb; database = duckdb.connect(sys.argv[1], read_only=True)\n"
        f"database.execute('SET threads = {_THREADS}; SET enable_progress_bar = false')"
    ),
    asked="database.sql(sys.argv[2]).to_arrow_table()",
)


def main() -> None:
    """Measure, print and write what was measured."""
    row_count = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        figures = run(Path(folder), row_count)
    path = sys.argv[2] if len(sys.argv) > 2 else None
    publish(f"python -m projseg.benchmarks.cold_queries {row_count}", figures, path)


def run(folder: Path, row_count: int) -> dict[str, Any]:
    """Load both engines and measure.

    Parameters
    ----------
    folder : Path
        Where both keep their rows.
    row_count : int
        Edits.

    Returns
    -------
    dict
        `milliseconds` by question and engine: `clock`, `processor`, the answer's `rows`, and
        whether the process imported Numba.
    """
    rows = EditStream(row_count).table()
    location, database = str(folder / "edits"), str(folder / "edits.duckdb")
    _load(rows, location, database)
    by_name = {question.name: question for question in QUERIES}
    figures = {}
    for name in _NAMES:
        question = by_name[name]
        figures[name] = {
            "projseg": _median([_OURS, location, json.dumps(_arguments(question))]),
            "duckdb": _median([_DUCKDB, database, statement(question, "duckdb")]),
        }
    return {"rows": row_count, "runs": _RUNS, "threads": _THREADS, "milliseconds": figures}


def _load(rows: pa.Table, location: str, database: str) -> None:
    projections = [
        projseg.Projection(one.name, list(one.group_by), list(one.aggregators))
        for one in PROJECTIONS
    ]
    table = projseg.Table.create(location, SCHEMA, time_column="time", projections=projections)
    table.append(rows)
    with duckdb.connect(database) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("arriving", rows)
        # Plain timestamps: zoned ones are slower there.
        connection.execute(
            "CREATE TABLE edits AS SELECT * REPLACE (time AT TIME ZONE 'UTC' AS time) FROM arriving"
        )


def _arguments(question: Question) -> dict[str, Any]:
    """Return a question as arguments of `Table.query`."""
    return {
        "group_by": list(question.group_by) or None,
        "aggregators": list(question.aggregators) or None,
        "filter": question.filter,
        "context": {"threads": _THREADS},
    }


def _median(words: list[str]) -> dict[str, Any]:
    """Ask once so that kernels and modules are kept, and then as often as counts."""
    taken = []
    for _ in range(_RUNS + 1):
        command = [sys.executable, "-c", *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - ours
        taken.append(json.loads(done.stdout.strip().splitlines()[-1]))
    clock, processor = (
        round(1000 * statistics.median(seconds), 1)
        for seconds in list(zip(*taken[1:], strict=True))[:2]
    )
    _, _, rows, has_numba = taken[-1]
    return {"clock": clock, "processor": processor, "rows": rows, "imports_numba": has_numba}


if __name__ == "__main__":
    main()
