"""A table that every test of pools asks, and no test leaves a file, thread or process behind."""

import os

import numpy as np
import psutil
import pyarrow as pa
import pytest
from leaks import no_open_files, no_threads

import projseg

__all__ = ["no_open_files", "no_threads"]

ROWS = 40_000


def rows_of(count=ROWS, shift=0):
    numbers = np.arange(count) + shift
    return pa.table(
        {
            "time": pa.array(numbers * 1_000_000, pa.timestamp("us", tz="UTC")),
            "name": pa.array([f"name {n % 500}" for n in numbers]),
            "v": numbers,
            "text": pa.array([f"{n * 2654435761 % 2**32:032d}" for n in numbers]),
            "list": pa.array([[n, None] if n % 3 else None for n in numbers.tolist()]),
        }
    )


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    """A table of four segments with a projection; tests only read it."""
    location = tmp_path_factory.mktemp("pool") / "t"
    rows = rows_of()
    table = projseg.Table.create(
        location,
        rows.schema,
        time_column="time",
        target_segment_rows=ROWS // 4,
        projections=[projseg.Projection("by_name", ["name"], ["sum(v) AS v", "count(*) AS n"])],
    )
    table.append(rows)
    return str(location)


@pytest.fixture(autouse=True)
def no_processes():
    others = running()  # Spark's, if tests before these began it
    yield
    assert running() - others == set(), "a process was left running"


def running():
    return set(psutil.Process(os.getpid()).children(recursive=True))
