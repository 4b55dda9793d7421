"""One command names the functions, compiled ones too, that a query's time goes to."""

from __future__ import annotations

import pytest

from projseg.benchmarks.bench import run_scenario
from projseg.benchmarks.scenarios import SCENARIOS


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["projseg", "projseg-base"])
def test_kernels_and_what_runs_in_a_pool_are_seen(tmp_path, engine):
    scenario = SCENARIOS["profile"]
    given = {**scenario.arguments, **scenario.small, "engine": engine, "functions": 1000}
    results = run_scenario(scenario, given, lambda line: None, tmp_path)
    found = {}
    for figure in results.figures:
        found.setdefault(figure.table, []).append(figure)
    assert [title.split(":")[0] for title in found] == ["users_by_channel", "rows_of_day"]
    for figures in found.values():
        assert "of processor time" in figures[0].table
        own = [figure.values["own ms"] for figure in figures]
        assert own == sorted(own, reverse=True)
        assert all(one.values["with callees ms"] >= one.values["own ms"] >= 0 for one in figures)
        assert {one.case.split("/")[0] for one in figures} >= {"kernels", "reader"}
