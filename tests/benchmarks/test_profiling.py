"""One command names the functions, compiled ones too, that a query's time goes to."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from projseg.benchmarks.cli import app
from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.profiling import profile_queries
from projseg.benchmarks.staging import stage
from projseg.benchmarks.workload import WORKLOADS

EDITS = WORKLOADS["edits"]
QUERIES = EDITS.select(["users_by_channel", "rows_of_day"])


@pytest.mark.parametrize("with_projections", [True, False])
def test_kernels_and_what_runs_in_a_pool_are_seen(tmp_path, with_projections):
    source = stage(EditStream(3000), tmp_path / "source", with_parquet=False)
    assert not source.parquet_folder.exists()
    found = list(
        profile_queries(EDITS, QUERIES, source, tmp_path, with_projections=with_projections)
    )
    assert [profile.query for profile in found] == ["users_by_channel", "rows_of_day"]
    for profile in found:
        assert profile.cpu_ms > 0
        own = [function.own_ms for function in profile.functions]
        assert own == sorted(own, reverse=True)
        assert all(function.total_ms >= function.own_ms >= 0 for function in profile.functions)
        assert profile.shares().keys() >= {"kernels", "reader"}
        assert sum(profile.shares().values()) == pytest.approx(1.0)


def test_the_command_prints_a_table_for_each_query(tmp_path):
    arguments = ["--rows", "2000", "--queries", "total,four_sums", "--functions", "3"]
    done = CliRunner().invoke(app, ["profile", *arguments, "--work-folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    for name in ("total", "four_sums"):
        assert f"{name}: " in done.output
    assert "of processor time" in done.output
    assert list(tmp_path.iterdir()) == []
