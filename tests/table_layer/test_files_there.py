"""Files that vanish under a commit, and manifests that are gone: refused or mended."""

import random
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from fault_storage import FaultStorage
from scale import tries

import projseg
from projseg.errors import CommitError, CorruptTableError, ProjsegError
from projseg.memory.cache import KEPT
from projseg.table.writes import append
from projseg.table_layer.metadata.change import NO_NOTE
from projseg.table_layer.metadata.snapshot import Snapshot

VACUUM = """
import sys, time
import projseg
from projseg.table_layer import vacuum
from projseg.table_layer.commits import commit, publish
from projseg.views import store_vacuum, view_commits

ahead = lambda: time.time_ns() // 1000 + 8 * 86_400_000_000
for module in (vacuum, commit, publish, store_vacuum, view_commits):
    module.now_us = ahead
projseg.Table(sys.argv[1]).vacuum(dry_run=False)
"""


def rows_of(location):
    KEPT.clear()
    return sorted(projseg.Table(location).query(columns="n")["n"].to_pylist())


def contents_of(location):
    return {str(p): p.read_bytes() for p in location.rglob("*") if p.is_file()}


def made(location, count=3):
    table = projseg.Table.create(location, {"n": "int"}, data={"n": [0]})
    for number in range(1, count):
        table.append({"n": [number]})
    return table


def test_a_vacuum_whose_clock_is_ahead_takes_no_file_of_a_write_that_runs(tmp_path):
    table = made(tmp_path / "t")
    table.create_view("v", "SELECT n, count(*) AS c FROM t GROUP BY n")

    def vacuumed(_):
        done = subprocess.run(
            [sys.executable, "-c", VACUUM, str(tmp_path / "t")], check=False, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()[-2000:]

    table.append({"n": [9]}, on_segment=vacuumed)
    assert rows_of(tmp_path / "t") == [0, 1, 2, 9]
    assert projseg.Table(tmp_path / "t", 1).query(columns="n").num_rows == 2
    assert projseg.Table(tmp_path / "t").verify(deep=True) == []


class Vanishing(FaultStorage):
    """Before its n-th operation, files that no version lists are removed, as by a vacuum."""

    def __init__(self, inner, at, kept):
        super().__init__(inner)
        self.vanish_at, self.kept = at, kept

    @property
    def was_reached(self):
        return self.vanish_at <= self.count

    def _do(self, operation, name, action, *, is_put=False):
        if self.count + 1 == self.vanish_at:
            for path in (Path(self.inner.location) / "data").iterdir():
                if path.name not in self.kept and path.suffix in (".pseg", ".pblm", ".pdel"):
                    path.unlink()
        return super()._do(operation, name, action, is_put=is_put)


@pytest.mark.folder
def test_files_that_vanish_at_any_operation_of_an_append(tmp_path):
    outcomes = {"refused": 0, "kept": 0}
    for at in count(1):
        location = tmp_path / str(at)
        table = made(location)
        kept = {path.name for path in (location / "data").iterdir()}
        KEPT.clear()
        storage = Vanishing(table.snapshot.storage, at, kept)
        base = Snapshot(storage, table.snapshot.file)
        try:
            append(base, {"n": [9]}, on_segment=None, note=NO_NOTE)
            outcome, wanted = "kept", [0, 1, 2, 9]
        except CommitError:
            outcome, wanted = "refused", [0, 1, 2]
        outcomes[outcome] += 1
        assert rows_of(location) == wanted
        assert projseg.Table(location).verify(deep=True) == []
        projseg.Table(location).append({"n": [10]})
        if not storage.was_reached:
            break
    assert min(outcomes.values()) > 0, outcomes


def test_a_table_without_a_manifest_takes_no_rows_and_is_restored(tmp_path):
    drawn = random.Random(16)
    for number in range(tries(60)):
        location = tmp_path / str(number)
        table = made(location, drawn.randint(2, 5))
        if drawn.random() < 0.5:
            table.create_view("v", "SELECT n, count(*) AS c FROM t GROUP BY n")
        newest = table.refresh().snapshot
        gone = drawn.choice(newest.file.manifests).name
        (location / gone).unlink()
        KEPT.clear()
        table = projseg.Table(location)
        before = contents_of(location)
        write = drawn.choice(
            [
                lambda table=table: table.append({"n": [9]}),
                lambda table=table: table.delete("n = 0"),
                lambda table=table: table.merge({"n": [1]}, on=["n"]),
                lambda table=table: table.compact(),
                lambda table=table: table.add_column("m", "int"),
                lambda table=table: table.tag("now"),
            ]
        )
        with pytest.raises(CorruptTableError, match=r"manifests/[0-9a-f]+\.json.*missing"):
            write()
        assert contents_of(location) == before
        for version in range(newest.version + 1):
            KEPT.clear()
            known = projseg.Table(location, version).snapshot
            is_whole = gone not in [one.name for one in known.file.manifests]
            if is_whole:
                wanted = sorted(range(version + 1)) if version < newest.version else None
                projseg.Table(location).restore(version)
                if wanted is not None and known.operation != "set properties":
                    assert rows_of(location) == wanted
                assert projseg.Table(location).verify() == []
                projseg.Table(location).append({"n": [77]})
                break
            with pytest.raises(ProjsegError):
                projseg.Table(location).restore(version)
