"""A regression is projseg's own, beyond the machine's drift, and beyond noise."""

from __future__ import annotations

import pytest
from bench_runs import small_results

from projseg.benchmarks.results import compare_results
from projseg.errors import InvalidInputError


def _found(later, earlier=None):
    return compare_results(earlier or small_results(), later)


def test_a_run_is_no_worse_than_itself():
    comparison = _found(small_results())
    assert comparison.regressions == ()
    assert comparison.drift == 1.0
    assert comparison.ratios["queries", "total *", "projseg"] == 1.0
    assert not any(way == "duckdb" for _, _, way in comparison.ratios)


def test_a_slower_query_is_a_regression():
    (problem,) = _found(small_results(own_ms=(20.0, 21.0, 22.0))).regressions
    assert problem == "projseg queries total *: ms 11 became 21 (drift 1.00)"


def test_a_slower_machine_is_not():
    later = small_results(own_ms=(20.0, 22.0, 24.0), peer_ms=(60.0, 66.0, 72.0), seconds=4.0)
    comparison = _found(later)
    assert comparison.drift == 2.0
    assert comparison.regressions == ()


def test_one_disturbed_round_is_not():
    assert _found(small_results(own_ms=(10.0, 40.0, 40.0))).regressions == ()


@pytest.mark.parametrize(("later_ms", "count"), [(0.29, 0), (0.31, 1)])
def test_differences_below_a_tenth_of_a_millisecond_are_noise(later_ms, count):
    earlier = small_results(own_ms=(0.2, 0.2, 0.2))
    later = small_results(own_ms=(later_ms, later_ms, later_ms))
    assert len(_found(later, earlier).regressions) == count


def test_a_slower_peer_alone_is_not_ours():
    assert _found(small_results(peer_ms=(31.0, 34.0, 90.0))).regressions == ()


def test_larger_files_and_slower_loading_are_regressions():
    problems = _found(small_results(stored=520, seconds=2.7)).regressions
    assert sorted(problem.split(" (")[0] for problem in problems) == [
        "projseg loading rows: base bytes 500 B became 520 B",
        "projseg loading rows: s 2 became 2.7",
    ]


def test_a_new_problem_is_a_regression():
    later = small_results()
    later.problems.append("differs: projseg: total: 2 rows instead of 1")
    assert _found(later).regressions == ("differs: projseg: total: 2 rows instead of 1",)


def test_runs_over_different_rows_are_refused_and_fewer_rounds_are_not():
    with pytest.raises(InvalidInputError, match="differ in rows: 1000 and 2000"):
        _found(small_results(rows=2000))
    later = small_results()
    later.arguments["rounds"] = 1
    assert _found(later).regressions == ()
    later.scenario = "lineitem"
    with pytest.raises(InvalidInputError, match="differ in scenario: edits and lineitem"):
        _found(later)
