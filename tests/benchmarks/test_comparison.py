"""A regression is projseg's own, beyond the machine's drift, and beyond noise."""

from __future__ import annotations

import bench_runs
import pytest

from projseg.benchmarks.comparison import compare_runs
from projseg.errors import InvalidInputError


def _subjects(comparison):
    return [(regression.engine, regression.subject) for regression in comparison.regressions]


def test_a_run_is_no_worse_than_itself():
    comparison = compare_runs(bench_runs.small_run(), bench_runs.small_run())
    assert comparison.regressions == ()
    assert comparison.drift == 1.0
    assert comparison.ratios == {("projseg", "total"): 1.0}


def test_a_slower_query_is_a_regression():
    later = bench_runs.small_run(own_ms=(20.0, 21.0, 22.0))
    comparison = compare_runs(bench_runs.small_run(), later)
    assert _subjects(comparison) == [("projseg", "total")]
    assert "11 ms became 21 ms" in comparison.regressions[0].problem


def test_a_slower_machine_is_not():
    later = bench_runs.small_run(own_ms=(20.0, 22.0, 24.0), peer_ms=(60.0, 66.0, 72.0), seconds=4.0)
    comparison = compare_runs(bench_runs.small_run(), later)
    assert comparison.drift == 2.0
    assert comparison.regressions == ()


def test_one_disturbed_round_is_not():
    later = bench_runs.small_run(own_ms=(10.0, 40.0, 40.0))
    assert compare_runs(bench_runs.small_run(), later).regressions == ()


@pytest.mark.parametrize(("later_ms", "subjects"), [(0.29, []), (0.31, [("projseg", "total")])])
def test_differences_below_a_tenth_of_a_millisecond_are_noise(later_ms, subjects):
    earlier = bench_runs.small_run(own_ms=(0.2, 0.2, 0.2))
    later = bench_runs.small_run(own_ms=(later_ms, later_ms, later_ms))
    assert _subjects(compare_runs(earlier, later)) == subjects


def test_a_slower_peer_alone_is_not_ours():
    later = bench_runs.small_run(peer_ms=(31.0, 34.0, 90.0))
    assert compare_runs(bench_runs.small_run(), later).regressions == ()


def test_larger_files_and_slower_loading_are_regressions():
    later = bench_runs.small_run(stored=520, seconds=3.0)
    assert _subjects(compare_runs(bench_runs.small_run(), later)) == [
        ("projseg", "ingest"),
        ("projseg", "size"),
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"agrees": False, "difference": "2 rows instead of 1"}, "2 rows instead of 1"),
        ({"failure": "ValueError: no"}, "fails: ValueError: no"),
    ],
)
def test_a_wrong_answer_and_a_failure_are_regressions(change, problem):
    later = bench_runs.small_run()
    for name, value in change.items():
        setattr(later.engines[0].timings["total"], name, value)
    (regression,) = compare_runs(bench_runs.small_run(), later).regressions
    assert problem in regression.problem


def test_an_engine_that_no_longer_starts_is_a_regression():
    later = bench_runs.small_run()
    later.engines[0].missing = "ImportError: gone"
    assert _subjects(compare_runs(bench_runs.small_run(), later)) == [("projseg", "start")]


def test_runs_over_different_rows_are_refused():
    with pytest.raises(InvalidInputError, match="row_count: 1000 and 2000"):
        compare_runs(bench_runs.small_run(), bench_runs.small_run(rows=2000))


def test_runs_timed_by_different_rules_are_refused():
    earlier = bench_runs.small_run()
    earlier.answers_per_turn = 1
    with pytest.raises(InvalidInputError, match="answers_per_turn: 1 and 4"):
        compare_runs(earlier, bench_runs.small_run())
