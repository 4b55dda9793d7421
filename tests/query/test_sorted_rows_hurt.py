"""Rows that are sorted by a temporary file: of all kinds, in forks, and where the file fails."""

import errno
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from restricted_user import require_permissions, run_restricted
from scale import tries

import projseg
from projseg.errors import LimitExceededError, StorageError
from projseg.memory.temporary_batches import LIMIT_SETTING, TemporaryBatches
from projseg.reader import sorted_batches

COUNT = 2_000
START = datetime(2024, 5, 1, tzinfo=UTC)
PREFIXES = ["", "a", "é" * 4, "x" * 7, "x" * 8, "x" * 60, "x" * 111, "x" * 130]
FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -3.0]
KINDS = {
    "id": pa.int64(),
    "real": pa.float64(),
    "single": pa.float32(),
    "tiny": pa.int8(),
    "large": pa.int64(),
    "cents": pa.decimal128(5, 2),
    "huge": pa.decimal128(38, 6),
    "text": pa.string(),
    "bytes": pa.binary(),
    "yes": pa.bool_(),
    "day": pa.date32(),
    "moment": pa.timestamp("us", "UTC"),
    "clock": pa.timestamp("us"),
}
BESIDE = {
    "list": pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())])),
    "map": pa.map_(pa.string(), pa.list_(pa.int32())),
    "tree": pa.struct([("c", pa.struct([("d", pa.string())])), ("e", pa.decimal128(9, 3))]),
}


def drawn_value(draw, name):
    if draw.random() < 0.1:
        return None
    text = draw.choice(PREFIXES) + draw.choice(["", "\0", "\0b", "a", "b", str(draw.randrange(99))])
    number = draw.choice([draw.randrange(-9, 9), draw.randrange(-100, 100)])
    return {
        "real": draw.choice(FLOATS),
        "single": draw.choice(FLOATS),
        "tiny": number,
        "large": draw.choice([number, 2**63 - 1, -(2**63)]),
        "cents": Decimal(number) / 4,
        "huge": Decimal(number) * 10**28 + Decimal(1) / 4,
        "text": text,
        "bytes": text.encode(),
        "yes": number > 0,
        "day": date(2024, 5, 1) + timedelta(number),
        "moment": START + timedelta(number),
        "clock": START.replace(tzinfo=None) + timedelta(minutes=number),
        "list": [{"a": number, "b": text}, None][: draw.randrange(3)],
        "map": [(text, [number, None])][: draw.randrange(2)],
        "tree": {"c": {"d": text} if number else None, "e": Decimal(number)},
    }[name]


def drawn_rows(seed, count):
    draw = random.Random(seed)
    types = KINDS | BESIDE
    columns = {n: [drawn_value(draw, n) for _ in range(count)] for n in types if n != "id"}
    columns["id"] = draw.sample(range(count), count)
    return pa.table({name: pa.array(columns[name], types[name]) for name in types})


@pytest.fixture
def budget(monkeypatch):
    """More than a hundred runs, of batches of a few rows; return the files' writes."""
    monkeypatch.setattr(sorted_batches, "_BATCH_BYTES_MIN", 900)
    monkeypatch.setattr(sorted_batches, "BATCH_BYTES", 20_000)
    monkeypatch.setenv(LIMIT_SETTING, "16K")


def test_all_kinds_come_in_duckdbs_order_with_what_stands_beside_them(tmp_path, budget):
    for seed in range(tries(20, 1)):
        rows = drawn_rows(seed, COUNT)
        table = projseg.Table.create(tmp_path / str(seed), data=rows, target_segment_rows=600)
        by_id = {row["id"]: row for row in rows.to_pylist()}
        draw = random.Random(seed)
        for first in [*KINDS][1:]:
            terms = [first, *draw.sample([*KINDS][1:], draw.randrange(2))]
            ways = [
                f"{way} NULLS {nulls}" for way in ("ASC", "DESC") for nulls in ("FIRST", "LAST")
            ]
            order = ", ".join(f"{one} {draw.choice(ways)}" for one in terms) + ", id"
            found = table.scan(order_by=order).read_all()
            expected = duckdb.sql(f"SELECT id FROM rows ORDER BY {order}").fetchall()
            assert found["id"].to_pylist() == [one for (one,) in expected], (seed, order)
        whole = [by_id[one] for one in found["id"].to_pylist()]
        assert repr(found.select(rows.column_names).to_pylist()) == repr(whole)


def test_wide_rows_take_no_more_memory_than_others(tmp_path, monkeypatch):
    rows = pa.table({"n": random.Random(1).sample(range(2_000), 2_000)})
    wide = [f"{n:05}" * 4_000 for n in rows["n"].to_pylist()]
    table = projseg.Table.create(tmp_path / "t", data=rows.append_column("text", [wide]))
    monkeypatch.setenv(LIMIT_SETTING, "4M")
    seen = []
    read = TemporaryBatches.read

    def measured(self, place, schema):
        seen.append(pa.total_allocated_bytes())
        return read(self, place, schema)

    monkeypatch.setattr(TemporaryBatches, "read", measured)
    numbers = [n for batch in table.scan(order_by="n") for n in batch["n"].to_pylist()]
    assert numbers == list(range(2_000))
    assert len(seen) > 100
    assert max(seen) - min(seen) < 16 << 20  # of 40 MB of rows


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A table of some 2 MB."""
    rows = drawn_rows(1, 12_000).select(["id", "real", "text", "list"])
    return projseg.Table.create(tmp_path_factory.mktemp("hurt") / "t", data=rows)


FORKED = """
import os, sys, warnings
warnings.simplefilter("ignore")
import projseg
from projseg.reader import sorted_batches
sorted_batches.BATCH_BYTES = 20_000
table = projseg.Table(sys.argv[1])
rows = iter(table.scan("id, real, text, list", order_by="text DESC, real, id"))
first = [next(rows) for _ in range(3)]
if sys.argv[2] == "wait":
    print("begun", flush=True)
    sys.stdin.read()
child = os.fork()
found = [one for batch in [*first, *rows] for one in batch["id"].to_pylist()]
if child == 0:
    print("child", hash(tuple(found)), len(found), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("parent", hash(tuple(found)), len(found))
"""


def running(stored, folder, kind, **options):
    return subprocess.Popen(
        [sys.executable, "-c", FORKED, stored.location, kind],
        env=os.environ | {"TMPDIR": str(folder), LIMIT_SETTING: "300K"},
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        **options,
    )


def test_a_reader_that_is_forked_midway_gives_both_processes_all_rows(stored, tmp_path):
    expected = stored.query(order_by="text DESC, real, id")["id"].to_pylist()
    process = running(stored, tmp_path, "fork")
    said, _ = process.communicate(timeout=300)
    whole = f"{hash(tuple(expected))} 12000"
    assert said.splitlines() == [f"child {whole}", f"parent {whole}"]
    assert os.listdir(tmp_path) == []


def test_a_killed_reader_leaves_no_file(stored, tmp_path):
    process = running(stored, tmp_path, "wait")
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == []


def test_a_folder_of_another_user_is_not_used(stored, tmp_path):
    require_permissions(tmp_path / "closed")
    script = "import sys, projseg; print(projseg.Table(sys.argv[1]).scan(order_by='text')"
    found = run_restricted(
        [sys.executable, "-c", f"{script}.read_all().num_rows)", stored.location],
        os.environ | {"TMPDIR": tmp_path / "closed", LIMIT_SETTING: "300K"},
    )
    assert found.stdout == "12000\n", found.stderr
    assert os.listdir(tmp_path / "closed") == []


def test_without_any_temporary_folder_that_is_said(stored, tmp_path, monkeypatch):
    monkeypatch.setenv(LIMIT_SETTING, "300K")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "none")])
    with pytest.raises(LimitExceededError, match="there is no temporary folder for them: No usab"):
        stored.scan(order_by="text").read_all()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(LimitExceededError, match=r"/gone takes no more of them: No such file"):
        stored.scan(order_by="text").read_all()


def test_a_disk_that_is_full_midway_ends_the_sort_and_keeps_no_file_open(stored, monkeypatch):
    monkeypatch.setenv(LIMIT_SETTING, "300K")
    write, room = os.pwrite, [200_000]

    def filling(descriptor, content, offset):
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = write(descriptor, content[: room[0]], offset)
        room[0] -= count
        return count

    monkeypatch.setattr(os, "pwrite", filling)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(LimitExceededError, match=r"No space left on device\. Filter rows, ask"):
        stored.scan(order_by="text").read_all()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_is_read_to_the_end_or_named(stored, monkeypatch):
    expected = stored.scan(order_by="text, id").read_all()
    monkeypatch.setenv(LIMIT_SETTING, "300K")
    read = os.preadv

    def few(descriptor, buffers, offset):
        return read(descriptor, [buffers[0][:7_000]], offset)

    monkeypatch.setattr(os, "preadv", few)
    found = stored.scan(order_by="text, id").read_all()
    assert repr(found.to_pylist()) == repr(expected.to_pylist())
    monkeypatch.setattr(os, "preadv", lambda *_: 0)
    with pytest.raises(StorageError, match=r"STORAGE_FAILED\] sorted rows in a temporary file"):
        stored.scan(order_by="text, id").read_all()
