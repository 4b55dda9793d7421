"""How long a new process takes from its start to its first answer.

    python -m projseg.benchmarks.first_answer results.json

writes a small table, asks it in new processes and prints the medians in seconds, which it also
writes to the file: of a question that a projection covers, of one that reads base rows, and of
`import pyarrow` alone, which no question goes without.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import projseg

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
    record: dict[str, Any] = {
        "command": "python -m projseg.benchmarks.first_answer",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": ROW_COUNT,
        "runs": _RUNS,
        "seconds": seconds,
    }
    text = json.dumps(record, indent=1)
    sys.stdout.write(text + "\n")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")


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


def _median_seconds(code: str) -> float:
    """Run a program until its compiled modules and kernels are kept, then measure it."""
    taken = []
    # Where bytecode must not be kept, a process would first compile all that it imports.
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(_RUNS + 1):
        start = time.perf_counter()
        command = [sys.executable, "-c", code]
        subprocess.run(  # noqa: S603 - our own program
            command, check=True, capture_output=True, env=settings
        )
        taken.append(time.perf_counter() - start)
    return round(statistics.median(taken[1:]), 3)


if __name__ == "__main__":
    main()
