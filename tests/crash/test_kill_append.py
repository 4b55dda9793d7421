"""kill -9 at any moment of a real append leaves every row of the versions before, and no other."""

import os
import random
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pytest
from scale import IS_NIGHTLY

import projseg

KILLS = 100 if IS_NIGHTLY else 6
ROWS = 20_000
SCHEMA = pa.schema(
    [("time", pa.timestamp("us", "UTC")), ("channel", pa.string()), ("added", pa.int64())]
)
APPENDER = """
import sys
import pyarrow as pa
import projseg

table = projseg.Table(sys.argv[1])
rows = int(sys.argv[2])
data = pa.table(
    {
        "time": pa.array(range(0, rows * 1_000_000, 1_000_000), pa.timestamp("us", "UTC")),
        "channel": [f"#{n % 7}" for n in range(rows)],
        "added": range(rows),
    },
    schema=table.schema,
)
print("ready", flush=True)
while True:
    print(table.append(data).version, flush=True)
"""


def append_until_killed(location, seconds, *, after_first):
    """Return the newest version that the appender acknowledged before it was killed.

    `after_first`: the clock starts when the first append is acknowledged, which comes after the
    imports; otherwise before it, so that first appends are killed as well.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", APPENDER, str(location), str(ROWS)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    first = process.stdout.readline() if after_first else ""
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    acknowledged, _ = process.communicate()
    lines = [line for line in (first + acknowledged).split("\n")[:-1] if line.isdigit()]
    return int(lines[-1]) if lines else 0


def test_a_killed_append_leaves_whole_versions(tmp_path):
    location = tmp_path / "table"
    projseg.Table.create(
        location,
        SCHEMA,
        time_column="time",
        segment_granularity="hour",
        projections=[projseg.Projection("by_channel", ["channel"], ["sum(added)", "count(*)"])],
    )
    generator = random.Random(os.getpid())
    for kill in range(KILLS):
        seconds = generator.uniform(0.0, 0.6)
        acknowledged = append_until_killed(location, seconds, after_first=kill % 2 == 1)
        table = projseg.Table(location)
        assert table.version >= acknowledged
        answer = table.query(aggregators="count(*) AS n, sum(added) AS s").to_pylist()
        appends = table.version
        total = appends * (ROWS * (ROWS - 1) // 2) if appends else None
        assert answer == [{"n": appends * ROWS, "s": total}]
        assert table.verify() == []
    assert projseg.Table(location).version > 0, "no append was ever finished: nothing was tested"


@pytest.mark.slow
def test_the_next_writer_succeeds_after_many_kills(tmp_path):
    test_a_killed_append_leaves_whole_versions(tmp_path)
    table = projseg.Table(tmp_path / "table")
    before = table.version
    table.append(pa.table({"time": [0], "channel": ["#"], "added": [1]}, schema=SCHEMA))
    assert table.version == before + 1
