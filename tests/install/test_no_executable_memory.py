"""Where the system lets no process make memory executable, answers are the same and slower."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

_PR_SET_MDWE = 65
_REFUSE_EXEC_GAIN = 1

PROGRAM = """
import datetime, sys
import projseg

seconds = [datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
           + datetime.timedelta(seconds=37 * i) for i in range(2_000)]
rows = {
    "t": seconds,
    "c": [None if i % 11 == 0 else f"country {i % 7}" for i in range(2_000)],
    "n": [(i * 7919) % 251 - 100 for i in range(2_000)],
    "x": [i * i * 0.25 for i in range(2_000)],
}
types = {"t": "timestamp", "c": "string", "n": "tinyint", "x": "double"}
rows["n"] = [max(-128, min(127, n)) for n in rows["n"]]
by_day = projseg.Projection(
    "by_day",
    ["date_trunc('DAY', t) AS day", "c"],
    ["sum(n) AS n", "count(*) AS rows", "approx_count_distinct(n) AS d"],
)
table = projseg.Table.create(
    sys.argv[1], types, time_column="t", cluster_by=["c"], projections=[by_day], data=rows
)
table.delete("c = 'country 3' AND n > 90")
asked = [
    "SELECT c, sum(n), count(*), avg(x), min(n), max(x) FROM t GROUP BY c ORDER BY c",
    "SELECT date_trunc('DAY', t) AS day, sum(n) FROM t WHERE c LIKE 'c%' GROUP BY 1 ORDER BY 1",
    "SELECT approx_count_distinct(c), count(DISTINCT n), stddev(x) FROM t WHERE n * 2 > 10",
    "SELECT c, n, x FROM t WHERE n IN (5, 7) ORDER BY x DESC LIMIT 5",
    "SELECT c, sum(cast(n AS decimal(30, 4))) FROM t GROUP BY c ORDER BY c",
]
for text in asked:
    print(table.sql(text).to_pylist())
table.compact()
assert table.verify(deep=True) == []
"""


def _forbid():
    assert ctypes.CDLL(None).prctl(_PR_SET_MDWE, _REFUSE_EXEC_GAIN, 0, 0, 0) == 0


def _run(location, **options):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(location)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


@pytest.mark.slow
def test_answers_are_the_same_and_one_warning_says_why_they_are_slow(tmp_path):
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    if release < (6, 3):
        pytest.skip("Linux forbids a process to make memory executable from 6.3 on")
    usual, forbidden = _run(tmp_path / "usual"), _run(tmp_path / "forbidden", preexec_fn=_forbid)
    assert (usual.returncode, usual.stderr) == (0, "")
    assert forbidden.returncode == 0, forbidden.stderr
    assert forbidden.stdout == usual.stdout
    assert forbidden.stderr.count("make memory executable") == 1
    assert "Traceback" not in forbidden.stderr
