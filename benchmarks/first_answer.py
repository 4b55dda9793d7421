"""Measure how long a new process takes from its start to its first answer.

    python -m projseg.benchmarks.first_answer results.json

writes a small table, asks it in new processes and prints the medians in seconds, of the clock and
of the processor, which it also writes to the file: of a question that a projection covers, of one
that reads base rows, and of `import pyarrow` alone, which no question goes without. On a machine
that does other work as well, only the processor's time says what a question costs.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import projseg
from projseg.benchmarks.publish import publish

ROW_COUNT: Final = 50_000
_RUNS: Final = 11
_ASK: Final = "import projseg; projseg.Table({location!r}).query({question})"
_QUESTIONS: Final = {
    "covered": "group_by='channel', aggregators='sum(added) AS added, count(*) AS edits'",
    "base rows": "group_by='user', aggregators='count(*) AS edits'",
}


def main() -> None:
    """Measure, print and write what was measured."""
    with tempfile.TemporaryDirectory() as folder:
        location = str(Path(folder) / "edits")
        _write_table(location)
        codes = {
            name: _ASK.format(location=location, question=question)
            for name, question in _QUESTIONS.items()
        }
        codes["import pyarrow"] = "import pyarrow"
        seconds = {name: _median_seconds(code) for name, code in codes.items()}
    figures = {
        "rows": ROW_COUNT,
        "runs": _RUNS,
        "seconds": {name: clock for name, (clock, _) in seconds.items()},
        "processor_seconds": {name: processor for name, (_, processor) in seconds.items()},
    }
    path = sys.argv[1] if len(sys.argv) > 1 else None
    publish("python -m projseg.benchmarks.first_answer", figures, path)


def _write_table(location: str) -> None:
    numbers = np.arange(ROW_COUNT)
    rows = pa.table(
        {
            "time": pa.array(numbers * 7_000_000).cast(pa.timestamp("us", "UTC")),
            "channel": pa.array([f"#{number % 3}.wikipedia" for number in range(ROW_COUNT)]),
            "user": pa.array([f"user{number % 977}" for number in range(ROW_COUNT)]),
            "added": pa.array(numbers % 100),
        }
    )
    hourly = projseg.Projection(
        "hourly", ["date_trunc('HOUR', time)", "channel"], ["sum(added)", "count(*)"]
    )
    table = projseg.Table.create(
        location, rows.schema, time_column="time", segment_granularity="day", projections=[hourly]
    )
    table.append(rows)


def _median_seconds(code: str) -> tuple[float, float]:
    """Run a program until its compiled modules and kernels are kept, then measure it.

    Returns
    -------
    (float, float)
        Seconds of the clock, and of the processor.
    """
    taken = []
    # With this setting a process would compile everything that it imports before it answers.
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(_RUNS + 1):
        start = _seconds()
        command = [sys.executable, "-c", code]
        subprocess.run(command, check=True, capture_output=True, env=settings)  # noqa: S603 - ours
        taken.append([after - before for before, after in zip(start, _seconds(), strict=True)])
    clock, processor = (round(statistics.median(kind), 3) for kind in zip(*taken[1:], strict=True))
    return clock, processor


def _seconds() -> tuple[float, float]:
    """Return the clock, and what child processes have taken of the processor until now."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
