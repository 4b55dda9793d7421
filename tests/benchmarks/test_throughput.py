"""The benchmark of throughput runs, and says how many questions each contender answered."""

import json

import pytest

from projseg.benchmarks import throughput


@pytest.mark.parametrize(
    "contenders",
    [["pool"], pytest.param(list(throughput.CONTENDERS), marks=pytest.mark.slow)],
    ids=["pool", "all"],
)
def test_throughput_is_measured(contenders, tmp_path):
    output = tmp_path / "throughput.json"
    few = ["--rows", "4000", "--clients", "1,3", "--seconds", "0.05", "--rounds", "1"]
    throughput.main([*few, "--output", str(output), "--contenders", *contenders])
    found = json.loads(output.read_text())
    assert set(found["contenders"]) | set(found["missing"]) == set(contenders)
    for figures in found["contenders"].values():
        assert set(figures) == set(throughput.QUESTIONS)
        for by_clients in figures.values():
            assert set(by_clients) == {"1", "3"}
            assert all(0 < one["p50"] <= one["p99"] for one in by_clients.values())
