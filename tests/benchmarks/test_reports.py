"""Results are kept as JSON and printed as Markdown."""

from __future__ import annotations

import json

import pytest
from bench_runs import small_results
from typer.testing import CliRunner

from projseg.benchmarks.cli import app
from projseg.benchmarks.results import (
    Figure,
    format_measure,
    load_results,
    render_figures,
    render_results,
    save_results,
)
from projseg.errors import InvalidInputError


def _rows(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


def test_results_survive_json(tmp_path):
    save_results(small_results(), tmp_path / "run.json")
    assert load_results(tmp_path / "run.json") == small_results()


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]"])
def test_a_file_of_something_else_is_refused(tmp_path, content):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(InvalidInputError, match="not a result of this release"):
        load_results(tmp_path / "run.json")
    with pytest.raises(InvalidInputError, match="cannot read"):
        load_results(tmp_path / "absent.json")


def test_results_of_another_form_are_refused(tmp_path):
    save_results(small_results(), tmp_path / "run.json")
    record = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(record | {"format_version": 1000}))
    with pytest.raises(InvalidInputError, match="has form 1000"):
        load_results(tmp_path / "run.json")


@pytest.mark.parametrize(
    ("measure", "value", "text"),
    [
        ("ms", 0.01234, "0.0123"),
        ("ms", [3.0, 1.0, 2.0], "2"),
        ("ms", 1234.5, "1,234"),
        ("s", None, "-"),
        ("base bytes", 999, "999 B"),
        ("peak memory", 1_234_567, "1.2 MB"),
        ("read bytes", 2_500_000_000, "2.50 GB"),
        ("rows", 12_345, "12,345"),
        ("answered from", "by_page (3)", "by_page (3)"),
        ("ms", [], "-"),
        ("ms", 0.0, "0"),
    ],
)
def test_values_are_written_by_their_unit(measure, value, text):
    assert format_measure(measure, value) == text


def test_ways_are_columns_with_ratios_to_the_best_peer():
    text = render_results(small_results(own_ms=(66.0,)))
    table = text[text.index("queries, ms:") : text.index("queries, all measures:")]
    rows = _rows(table)
    assert rows[2] == ["case", "projseg", "duckdb", "projseg / best peer"]
    assert rows[4] == [r"total \*", "66", "33", "**2.00**"]
    assert rows[5] == ["rows", "5", "5", "1.00"]
    assert rows[6] == ["geometric mean", "", "", "**1.41**"]
    assert "missing: clickhouse: ModuleNotFoundError: chdb" in text
    assert "every answer that was compared agrees" in text
    assert "rows=1000" in text
    details = _rows(text[text.index("queries, all measures:") :])
    assert details[2] == ["case", "way", "ms", "first ms", "answered from"]
    assert details[4][:4] == [r"total \*", "projseg", "66", "20"]


def test_of_rates_the_largest_is_the_best():
    figures = [
        Figure("clients", case, way, {"per second": rate})
        for case, rates in {"a": (200.0, 100.0), "b": (50.0, 100.0)}.items()
        for way, rate in zip(("projseg", "duckdb"), rates, strict=True)
    ]
    rows = _rows(render_figures(figures, ["duckdb"]))
    assert [row[-1] for row in rows[4:6]] == ["0.50", "**2.00**"]


def test_every_row_has_a_cell_under_each_heading():
    figures = [Figure("steps", "a", "", {"s": 1.0}), Figure("steps", "b", "", {"bytes": 2})]
    assert _rows(render_figures(figures, []))[2:] == [
        ["case", "s", "bytes"],
        ["----", "---:", "----:"],
        ["a", "1", "-"],
        ["b", "-", "2 B"],
    ]


def test_wrong_answers_are_errors():
    results = small_results()
    assert not results.has_wrong_answers
    results.problems.append("differs: projseg: total: 2 rows instead of 1")
    assert results.has_wrong_answers
    assert "every answer" not in render_results(results)


def test_compare_exits_with_3_on_a_regression(tmp_path):
    earlier, later = tmp_path / "a.json", tmp_path / "b.json"
    save_results(small_results(), earlier)
    save_results(small_results(own_ms=(50.0, 50.0)), later)
    same = CliRunner().invoke(app, ["compare", str(earlier), str(earlier)])
    assert same.exit_code == 0
    assert same.output.endswith("the machine was 1.00 times as slow, by the peers\nno regression\n")
    worse = CliRunner().invoke(app, ["compare", str(earlier), str(later)])
    assert worse.exit_code == 3
    assert "regression: projseg queries total" in worse.output


def test_report_prints_each_file(tmp_path):
    save_results(small_results(), tmp_path / "run.json")
    done = CliRunner().invoke(app, ["report", *[str(tmp_path / "run.json")] * 2])
    assert done.exit_code == 0
    assert done.output.count("geometric mean") == 2
