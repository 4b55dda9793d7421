"""The budget bounds what a process keeps, whatever it keeps it for."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import projseg

SEGMENTS, ROWS = 12, 40_000
SCRIPT = """
import gc, json, sys
import pyarrow as pa
import projseg

def resident():
    gc.collect()
    pa.default_memory_pool().release_unused()
    with open("/proc/self/statm") as found:
        return int(found.read().split()[1]) * 4096

table = projseg.Table(sys.argv[1])
questions = [
    {"aggregators": "count(*) AS n", "filter": "name LIKE '%7'"},
    {"aggregators": "approx_count_distinct(name) AS n, theta_sketch_agg(name) AS s"},
    {"aggregators": "sum(v) AS s, max(v) AS high"},
]
two_days = {"interval": "2024-01-01/2024-01-03"}
for question in questions:  # so that all code is in memory before
    table.query(**question, **two_days)
before = resident()
for question in questions:
    table.query(**question)
    kept = projseg.cache_statistics()
    assert kept.byte_count <= kept.budget_bytes
kept = projseg.cache_statistics()
print(json.dumps([resident() - before, kept.byte_count, kept.bytes_by_kind]))
"""


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    """A table whose dictionaries hold 200 bytes a row, and little else."""
    location = tmp_path_factory.mktemp("budget") / "t"
    schema = pa.schema([("time", pa.timestamp("us")), ("name", pa.string()), ("v", pa.float64())])
    table = projseg.Table.create(
        location, schema, time_column="time", segment_granularity="day", cluster_by=["name"]
    )
    rng = np.random.default_rng(1)
    for day in range(SEGMENTS):
        texts = [f"{number:0190x}" for number in rng.integers(0, 2**62, ROWS).tolist()]
        times = np.datetime64("2024-01-01", "us") + np.timedelta64(day, "D")
        columns = [pa.array(np.full(ROWS, times)), pa.array(texts), pa.array(rng.random(ROWS))]
        table.append(pa.table(columns, schema=schema))
    return str(location)


def asked(location, budget):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, location],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PROJSEG_CACHE_BYTES": budget},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.slow
def test_open_segments_count_with_all_that_they_hold(location):
    grown, kept, by_kind = asked(location, "16M")
    assert kept <= 16 << 20
    assert grown < 64 << 20, "what is put out goes back to the system"
    grown, kept, by_kind = asked(location, "1G")
    text_bytes = SEGMENTS * ROWS * 190
    assert by_kind["segment"] > text_bytes
    assert by_kind["theta hashes"] >= 8 * SEGMENTS * ROWS
    assert kept == sum(by_kind.values())
    assert grown < 1.5 * kept, "no more is held than is counted, but for what the pool keeps"
