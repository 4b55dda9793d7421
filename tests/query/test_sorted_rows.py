"""`ORDER BY` of more rows than memory may hold: rows go to a temporary file, answers stay."""

import os
import random
import subprocess
import sys
import tempfile

import numpy as np
import pyarrow as pa
import pytest
from scale import tries
from temporary_writes import counted_writes
from test_rows_in_order import COLUMNS, FILTERS, KEYS, drawn_rows, made_table

import projseg
from projseg.errors import QueryTimeoutError
from projseg.memory.temporary_batches import LIMIT_SETTING
from projseg.reader import order_ranks, sorted_batches


@pytest.fixture
def written(monkeypatch):
    """Batches of few rows; return how many bytes went to files."""
    monkeypatch.setattr(sorted_batches, "_BATCH_BYTES_MIN", 600)
    monkeypatch.setattr(order_ranks, "_FEW_ROWS", 20)
    return counted_writes(monkeypatch)


def drawn_order(draw):
    ways = ["", " DESC", " NULLS LAST", " DESC NULLS FIRST"]
    return [key + draw.choice(ways) for key in draw.sample(KEYS, draw.randint(1, 3))]


def test_rows_come_in_the_order_that_they_have_in_memory(tmp_path, written, monkeypatch):
    draw = random.Random(7)
    for seed in range(tries(60, 6)):
        table = made_table(tmp_path / str(seed), drawn_rows(seed, 900), seed)
        for _ in range(4):
            question = {
                "columns": draw.sample(COLUMNS, len(COLUMNS)),
                "filter": draw.choice(FILTERS),
                "order_by": drawn_order(draw),
                "context": {"threads": draw.choice([1, 2])},
            }
            monkeypatch.delenv(LIMIT_SETTING, raising=False)
            whole = table.query(**question)
            monkeypatch.setenv(LIMIT_SETTING, draw.choice(["1K", "20K", "60K"]))
            found = table.query(**question)
            assert found.schema == whole.schema
            assert str(found.to_pylist()) == str(whole.to_pylist()), (seed, question)
    assert written


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """200,000 rows of about 30 MB."""
    draw = np.random.default_rng(3)
    count = 200_000
    texts = [f"{n:x}".rjust(100, "é") for n in draw.integers(0, 2**60, 5_000)]
    rows = pa.table(
        {
            "n": draw.permutation(count),
            "few": draw.integers(0, 5, count),
            "text": pa.array(texts).take(pa.array(draw.integers(0, 5_000, count))),
        }
    )
    location = tmp_path_factory.mktemp("sorted") / "t"
    return projseg.Table.create(location, data=rows, target_segment_rows=40_000)


CHILD = """
import resource, sys
import projseg
table = projseg.Table(sys.argv[1])
table.query(columns="n, text", order_by="text, n", filter="n < 100")
most = int(sys.argv[2])
if most:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
try:
    last, count = None, 0
    for batch in table.scan("few, text, n", order_by="few DESC, text, n"):
        for row in batch.to_pylist():
            key = (-row["few"], row["text"].encode(), row["n"])
            assert last is None or last < key
            last, count = key, count + 1
    print(count)
except projseg.errors.LimitExceededError as error:
    print(error)
"""


def child(wide, folder, limit, most=0):
    return subprocess.run(
        [sys.executable, "-c", CHILD, wide.location, str(most)],
        env=os.environ | {"TMPDIR": str(folder), LIMIT_SETTING: limit},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_rows_of_ten_times_the_setting_are_streamed(wide, tmp_path):
    assert child(wide, tmp_path, "3M").split() == ["200000"]
    assert os.listdir(tmp_path) == []


def test_a_folder_without_room_is_named(wide, tmp_path):
    said = child(wide, tmp_path, "3M", most=500_000)
    assert "PROJSEG_QUERY_TOO_LARGE" in said
    assert f"sorted rows take more than {LIMIT_SETTING} allows" in said
    assert f"the temporary folder {tmp_path} takes no more of them: File too large" in said
    assert os.listdir(tmp_path) == []


def test_nothing_stays_of_a_stream_that_is_not_read_to_its_end(wide, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(LIMIT_SETTING, "3M")
    before = len(os.listdir("/proc/self/fd"))
    rows = wide.scan("text", order_by="text")
    first = rows.read_next_batch()
    assert first["text"][0].as_py() == min(wide.query(columns="text")["text"].to_pylist())
    assert len(os.listdir("/proc/self/fd")) > before
    del rows
    assert len(os.listdir("/proc/self/fd")) == before
    assert os.listdir(tmp_path) == []


def test_a_limit_of_time_ends_the_sort(wide, monkeypatch):
    monkeypatch.setenv(LIMIT_SETTING, "3M")
    with pytest.raises(QueryTimeoutError, match="timeLimit"):
        wide.query(columns="text", order_by="text", context={"timeLimit": 0.01})
