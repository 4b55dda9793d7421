"""Runs are kept as JSON, printed, and made into one HTML page that needs nothing else."""

from __future__ import annotations

import io
import json
import re

import bench_runs
import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from projseg.benchmarks.cli import app
from projseg.benchmarks.figures import (
    bandwidth_share,
    format_bytes,
    format_ms,
    goals,
    medians_by_rows,
    peer_ratio,
)
from projseg.benchmarks.html_report import render_report
from projseg.benchmarks.markdown import as_markdown
from projseg.benchmarks.records import ColumnStorage, Timing, load_run, save_run
from projseg.benchmarks.standings import loss_tables, ratio_table
from projseg.benchmarks.tables import (
    column_table,
    goal_tables,
    growth_tables,
    load_table,
    overhead_table,
    time_table,
)
from projseg.benchmarks.terminal import print_run
from projseg.errors import InvalidInputError


def test_a_run_survives_json(tmp_path):
    save_run(bench_runs.small_run(), tmp_path / "run.json")
    assert load_run(tmp_path / "run.json") == bench_runs.small_run()


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]"])
def test_a_file_that_is_no_run_is_refused(tmp_path, content):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(InvalidInputError, match="not a result"):
        load_run(tmp_path / "run.json")
    with pytest.raises(InvalidInputError, match="cannot read"):
        load_run(tmp_path / "absent.json")


def test_runs_of_the_first_form_are_still_read(tmp_path):
    record = json.loads(msgspec.json.encode(bench_runs.small_run()))
    del record["answers_per_turn"]
    (tmp_path / "run.json").write_text(json.dumps(record | {"format_version": 1}))
    assert load_run(tmp_path / "run.json").answers_per_turn == 1
    (tmp_path / "run.json").write_text(json.dumps(record | {"format_version": 1000}))
    with pytest.raises(InvalidInputError, match="has form 1000"):
        load_run(tmp_path / "run.json")


def test_derived_figures():
    run = bench_runs.small_run()
    assert run.best_peer("total") == ("duckdb", 33.0)
    assert peer_ratio(run, run.engines[0], "total") == pytest.approx(1 / 3)
    # 100 MB in 11 ms, of 20 GB/s
    assert bandwidth_share(run, run.engines[0].timings["total"]) == pytest.approx(0.4545, abs=1e-4)
    assert [format_bytes(n) for n in (None, 12, 1500, 2.5e6, 3e9)] == [
        "-", "12 B", "1.5 kB", "2.5 MB", "3.00 GB",
    ]  # fmt: skip
    assert [format_ms(ms) for ms in (None, 0.1234, 12.34, 1234.5)] == [
        "-",
        "0.123",
        "12.3",
        "1,234",
    ]


def test_the_printed_tables_say_what_is_missing_and_what_differs():
    run = bench_runs.small_run()
    run.engines[0].timings["total"].agrees = False
    run.engines[0].timings["total"].difference = "1 rows instead of 2"
    console = Console(file=io.StringIO(), width=300)
    print_run(run, console)
    text = console.file.getvalue()
    assert "missing: ClickHouse: ModuleNotFoundError: chdb" in text
    assert "differs: projseg with projections: total: 1 rows instead of 2" in text
    assert re.search(r"total +│ 11 +│ +duckdb │ +0.33 │ +met │ +0.50 │", text)


def test_the_page_is_self_contained():
    pytest.importorskip("matplotlib")
    page = render_report([bench_runs.small_run(), bench_runs.small_run(rows=2000)])
    assert page.count("<svg") == 5 * 2 + 1
    assert "A &lt;fast&gt; CPU" in page
    assert "added &lt; 3" in page
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!#)', page.replace("xlink:href", "href"))


def test_growth_is_shown_where_the_number_of_rows_differs():
    runs = [
        bench_runs.small_run(rows=4_000_000, own_ms=(22.0,), peer_ms=(99.0,)),
        bench_runs.small_run(rows=1_000_000),
    ]
    (table,) = growth_tables(runs)
    assert table.headings == (
        "query", "1,000,000 rows", "4,000,000 rows", "growth", "best peer's growth",
    )  # fmt: skip
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["total", "11", "22", "2.00", "3.00"]
    ]
    assert "4-fold" in table.caption
    assert growth_tables(runs[:1]) == []
    pytest.importorskip("matplotlib")
    page = render_report(runs)
    assert page.index("Growth with the number of rows") < page.index("4,000,000 rows</h2>")
    assert "4M" in page
    runs[1].workload = "lineitem"
    assert "Growth" not in render_report(runs)
    assert "Growth" not in render_report(runs[:1])


def test_of_two_runs_over_as_many_rows_the_later_one_counts():
    earlier, later = bench_runs.small_run(), bench_runs.small_run(own_ms=(5.0,))
    later.environment = msgspec.structs.replace(later.environment, started="2026-02-01T00:00:00")
    assert medians_by_rows([later, earlier], "projseg", "total") == {1000: 5.0}
    assert medians_by_rows([later, earlier], "projseg", "by_page") == {}


def test_a_run_of_few_rows_shows_the_overhead_of_every_engine():
    table = overhead_table(bench_runs.small_run())
    assert "1,000 rows" in table.title
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["projseg with projections", "1", "11", "11", "11", "20", "5"],
        ["DuckDB", "1", "33", "33", "33", "40", "4"],
    ]
    assert overhead_table(bench_runs.small_run(rows=100_000)) is None


def test_every_row_has_a_cell_under_each_heading():
    run = bench_runs.small_run()
    run.columns = [ColumnStorage("edits", "page", 10, 5, 1e9, 4, 2e9, "ids: bit-packed")]
    run.engines[1].timings = {}  # was asked nothing
    tables = [time_table(run), *goal_tables(run), load_table(run), column_table(run)]
    for table in tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.headings)}
    assert column_table(run).rows[0][-1].text == "ids: bit-packed"
    assert column_table(bench_runs.small_run()) is None


def test_compare_exits_with_3_on_a_regression(tmp_path):
    earlier, later = tmp_path / "a.json", tmp_path / "b.json"
    save_run(bench_runs.small_run(), earlier)
    save_run(bench_runs.small_run(own_ms=(50.0, 50.0)), later)
    assert CliRunner().invoke(app, ["compare", str(earlier), str(earlier)]).exit_code == 0
    worse = CliRunner().invoke(app, ["compare", str(earlier), str(later)])
    assert worse.exit_code == 3
    assert "regression: projseg: total" in worse.output


def test_report_writes_the_page_beside_the_results(tmp_path):
    pytest.importorskip("matplotlib")
    save_run(bench_runs.small_run(), tmp_path / "run.json")
    assert CliRunner().invoke(app, ["report", str(tmp_path / "run.json")]).exit_code == 0
    assert (tmp_path / "run.html").read_text().startswith("<!doctype html>")


def test_queries_that_a_peer_answers_faster_come_first_by_ratio():
    won, lost = bench_runs.small_run(), bench_runs.small_run(own_ms=(66.0,))
    (table,) = loss_tables(won)
    assert table.rows == ()
    assert (
        "0 of 1 queries; geometric mean of the ratios: all 0.33, covered 0.33, not covered -"
        in (table.caption)
    )
    (table,) = loss_tables(lost)
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["total *", "66", "duckdb", "33", "2.00"]
    ]
    lost.engines[0].runs_on_spark = True
    assert loss_tables(lost) == []


def test_a_run_as_markdown_marks_what_was_lost():
    text = as_markdown(ratio_table(bench_runs.small_run(own_ms=(66.0,))))
    assert "| total \\* | 66 | duckdb | 33 | **2.00** |" in text
    assert "| geometric mean |  |  |  | 2.00 |" in text
    assert "| 11 | duckdb | 33 | 0.33 |" in as_markdown(ratio_table(bench_runs.small_run()))


def test_wrong_answers_are_errors():
    run = bench_runs.small_run()
    assert not run.has_wrong_answers
    run.engines[1].timings["total"].agrees = False
    assert run.has_wrong_answers


def test_goals_name_the_peers_of_each_kind_of_engine():
    run = bench_runs.small_run()
    ours, query = run.engines[0], run.queries[0]
    (goal,) = goals(run, ours, query)
    assert (goal.peer, goal.is_met) == ("duckdb", True)
    ours.has_projections = False
    assert [(goal.target, goal.verdict) for goal in goals(run, ours, query)] == [(None, "")]
    ours.runs_on_spark = True
    assert goals(run, ours, query) == []
    for engine, name in zip(run.engines[1:], ("spark-parquet", "spark-rollup"), strict=True):
        engine.name, engine.missing = name, None
        engine.timings = {"total": Timing(warm_ms=[110.0])}
    assert [
        (goal.peer, round(goal.target, 2), goal.is_met) for goal in goals(run, ours, query)
    ] == [
        ("spark-rollup", 0.33, True),
        ("spark-parquet", 0.05, False),
    ]
