"""Jobs whose executors are killed.

Each runs as a program of its own on a cluster of its own (`tests/support/hurt_jobs.py`), which
appends, builds projections and compacts, and looks after each whether every row is there once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import hurt_jobs
import pytest
from test_launchers import environment

import projseg

pytestmark = [pytest.mark.slow, pytest.mark.spark]

DAY = 86_400


def run(folder, master, rounds):
    """Run the program; return how many executors were killed, by the moment."""
    (folder / "hurt").mkdir()
    command = [sys.executable, hurt_jobs.__file__, master, folder, str(rounds)]
    with (folder / "said").open("w") as said:
        ran = subprocess.run(
            command, cwd=folder, env=environment(), stdout=said, stderr=said, check=False
        )
    told = (folder / "said").read_text()
    print(told)
    assert ran.returncode == 0, told
    return Counter(path.name.split("-")[0] for path in (folder / "hurt").iterdir())


def orphans_found_by_age(location):
    """Return how many files no version lists; a vacuum must remove these and no others.

    What killed attempts at a compaction or a projection left is mostly gone by then; what those at
    an append left is not.
    """
    table = projseg.Table(location)
    assert table.verify(deep=True) == []
    listed = {
        name
        for version in range(table.version + 1)
        for name in projseg.Table(location, version).segments()["segment"].to_pylist()
    }
    there = {f"data/{path.name}" for path in Path(location, "data").iterdir()}
    orphans = there - listed
    assert listed <= there
    assert table.vacuum(retention_hours=48, dry_run=True).file_count == 0, "they are young"
    for name in orphans:
        os.utime(Path(location, name), (time.time() - 3 * DAY,) * 2)
    found = table.vacuum(retention_hours=48, dry_run=True).files["file"].to_pylist()
    assert {name for name in found if name.startswith("data/")} == orphans
    table.vacuum(retention_hours=48, dry_run=False)
    assert {f"data/{path.name}" for path in Path(location, "data").iterdir()} == listed
    assert projseg.Table(location).verify(deep=True) == []
    return len(orphans)


@pytest.mark.parametrize(
    ("rounds", "kills"), [(1, 2), pytest.param(20, 50, marks=pytest.mark.timeout(7200))]
)
def test_killed_executors_lose_and_double_no_row(tmp_path, rounds, kills):
    hurt = run(tmp_path, "local-cluster[2,1,1024]", rounds)
    left = orphans_found_by_age(tmp_path / "table")
    print(f"killed {dict(hurt)}, {left} orphans")
    assert sum(hurt.values()) >= kills
