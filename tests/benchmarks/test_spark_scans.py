"""The benchmark of scans in Spark runs, in a process and a session of its own."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_scans_are_measured_every_way(tmp_path):
    output = tmp_path / "scans.json"
    command = [sys.executable, "-m", "projseg.benchmarks.spark_scans", "--rows", "2000"]
    subprocess.run([*command, "--rounds", "1", "--output", str(output)], check=True)
    cases = json.loads(output.read_text())["cases"]
    assert {"one column", "three columns", "all columns"} <= set(cases)
    for ways in cases.values():
        assert all(way["least"] > 0 for way in ways.values())
