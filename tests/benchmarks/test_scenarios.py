"""Every scenario runs, gives the figures that it promises, and keeps answers the same."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from projseg.benchmarks.bench import Bench, run_scenario
from projseg.benchmarks.cli import app
from projseg.benchmarks.results import load_results
from projseg.benchmarks.scenarios import SCENARIOS, scenario_named
from projseg.benchmarks.scenarios.choices import random_questions, random_table
from projseg.benchmarks.scenarios.star_queries import statements_of
from projseg.benchmarks.sweep import FAMILIES, KINDS, SweepTable, sweep_questions
from projseg.errors import InvalidInputError

pytest.importorskip("duckdb")

QUICK = ["many-views", "profile", "throughput"]
NEEDS_TPCHGEN = {"lineitem", "star-queries"}
HAS_TPCHGEN = shutil.which("tpchgen-cli") or (Path(sys.executable).parent / "tpchgen-cli").exists()


def _run(name, tmp_path, **arguments):
    scenario = SCENARIOS[name]
    given = {**scenario.arguments, **scenario.small, **arguments}
    return run_scenario(scenario, given, lambda line: None, tmp_path)


def _by_way(results, table):
    found = {}
    for figure in results.figures:
        if figure.table == table:
            found.setdefault(figure.case, {})[figure.way] = figure.values
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in SCENARIOS],
)
def test_a_small_run_has_figures_and_no_problem(name, tmp_path):
    if name in NEEDS_TPCHGEN and not HAS_TPCHGEN:
        pytest.skip("tpchgen-cli is of the extra [bench]")
    results = _run(name, tmp_path, **({"peers": "projseg-pool"} if name == "throughput" else {}))
    assert not results.has_wrong_answers, results.problems
    assert all("clickhouse" in problem for problem in results.problems), results.problems
    assert results.figures
    for figure in results.figures:
        assert figure.values
        assert any(figure.number(measure) is not None for measure in figure.values), figure
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_small_segments_are_as_many_as_were_asked_for(tmp_path):
    found = _by_way(_run("small-segments", tmp_path, peers="projseg"), "8 segments")
    assert found["total *"]["projseg"]["answered from"] == "by_channel (8)"
    assert found["by_hour"]["projseg"]["plan ms"] > 0


@pytest.mark.slow
def test_late_projections_are_built_in_the_wanted_segments(tmp_path):
    steps = _by_way(_run("late-projections", tmp_path), "steps")
    assert steps["projections of one day"][""]["segments"] == 2
    assert steps["projections of all"][""]["segments"] == 58


@pytest.mark.slow
def test_a_compaction_leaves_fewer_segments(tmp_path):
    steps = _by_way(_run("compaction", tmp_path), "steps")
    for name in ("scattered", "micro-batches"):
        before, after = (steps[f"{name}: {step}"][""]["segments"] for step in ("append", "compact"))
        assert after < before
    assert steps["scattered: compact"][""]["segments"] == 3


@pytest.mark.slow
def test_a_scattered_delete_writes_less_by_vectors_than_anew(tmp_path, dear_base_rows):
    results = _run("scattered-delete", tmp_path)
    steps = _by_way(results, "steps")
    by_vectors, anew = steps["delete by vectors"][""], steps["delete by writing anew"][""]
    assert by_vectors["deleted rows"] == anew["deleted rows"] > 0
    assert by_vectors["masked segments"] == anew["written segments"] > 0
    assert by_vectors["written bytes"] < anew["written bytes"] / 10
    found = _by_way(results, "queries")["users_by_channel"]
    assert "users_by_channel" not in found["after"]["answered from"]
    assert found["after compaction"]["answered from"].startswith("users_by_channel")


@pytest.mark.slow
def test_every_source_that_can_answer_is_tried(tmp_path):
    results = _run("choices", tmp_path)
    found = _by_way(results, "sources")
    assert set(found) == {"total", "filter_hours"}  # nothing but base rows has users and devices
    assert {"base", "by_channel", "by_user", "by_minute_device"} < set(found["total"])
    for ways in found.values():
        assert [one["choice"] for one in ways.values()].count("chosen") == 1
        times = [one["cpu ms"] for one in ways.values()]
        assert times == sorted(times)
    ratios = _by_way(results, "choices")
    assert all(one[""]["chosen / quickest"] >= 1 for one in ratios.values())


@pytest.mark.slow
def test_random_questions_have_several_sources(tmp_path):
    results = _run("choices", tmp_path, workload="random", questions=12, seed=3, queries="")
    found = _by_way(results, "sources")
    assert len(found) == 12
    assert all(len(ways) > 1 for ways in found.values())
    (summary,) = _by_way(results, "all choices").values()
    assert 0 < summary[""]["questions"] <= summary[""]["of"] == 12


def test_the_same_seed_gives_the_same_questions(tmp_path):
    (_, one), (_, other) = (random_table(tmp_path / name, 4) for name in "ab")
    assert one == other
    questions = list(random_questions(one, 4, 20))
    assert questions == list(random_questions(one, 4, 20))
    assert len(set(questions)) > 10


def test_a_sweep_of_one_seed_asks_the_same_of_the_same_rows():
    for family in FAMILIES:
        one, other = (SweepTable(family, 500, 3) for _ in range(2))
        assert list(one.batches()) == list(other.batches())
        questions = sweep_questions(one, 2)
        assert questions == sweep_questions(other, 2)
        assert questions != sweep_questions(SweepTable(family, 500, 4), 2)
        assert [q.name for q in questions[:3]] == ["scan 1", "scan 2", "narrow filter 1"]
        assert len(questions) == 2 * len(KINDS)


@pytest.mark.slow
def test_a_sweep_has_ratios_by_kind_and_the_worst(tmp_path):
    kinds = "top,group few,first rows,group several"
    results = _run("sweep", tmp_path, tables="items", kinds=kinds, peers="projseg-base,duckdb")
    assert results.problems == []
    found = _by_way(results, "ratio to the best peer, by kind")
    assert set(found) == {*kinds.split(","), "all"}
    assert found["all"][""]["questions"] == 4
    worst = _by_way(results, "worst")
    assert len(worst) == 2
    ratios = [ways[""]["ratio"] for ways in worst.values()]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] == pytest.approx(found["all"][""]["worst"], rel=1e-3)
    assert all("/" in ways[""]["dearest"] for ways in worst.values())


def test_an_answer_that_a_step_changed_is_a_problem(tmp_path):
    import pyarrow as pa

    bench = Bench({}, tmp_path, print)
    rows = pa.table({"a": ["x", "y"], "b": [1.0, 2.0]})
    close = pa.table({"a": ["y", "x"], "b": [2.0, 1.0 + 1e-12]})
    bench.require_same({"q": rows}, {"q": close}, "nothing")
    assert bench.problems == []
    bench.require_same({"q": rows}, {"q": rows.slice(1)}, "a step")
    bench.require_same({"q": rows}, {"q": close.set_column(1, "b", [[1.0, 2.0]])}, "a step")
    assert bench.problems == ["differs: q after a step"] * 2


def test_arguments_are_those_of_the_scenario():
    scenario = scenario_named("throughput")
    given = scenario.with_arguments(["rows=7", "seconds=0.5", "clients=1,2"])
    assert (given["rows"], given["seconds"], given["clients"]) == (7, 0.5, "1,2")
    assert given["rounds"] == scenario.arguments["rounds"]
    with pytest.raises(InvalidInputError, match="did you mean 'rows'"):
        scenario.with_arguments(["row=7"])
    with pytest.raises(InvalidInputError, match="give rows as int"):
        scenario.with_arguments(["rows=many"])
    with pytest.raises(InvalidInputError, match="did you mean 'edits'"):
        scenario_named("edit")
    for one in SCENARIOS.values():
        assert one.small.keys() <= one.arguments.keys(), one.name
        module, _, function = one.function.rpartition(".")
        assert callable(getattr(import_module(module), function)), one.name


def test_the_command_runs_prints_and_keeps(tmp_path):
    output = tmp_path / "found.json"
    words = ["run", "many-views", "views=3", "rows=20", "--output", str(output)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "a few views have its keys" in done.output
    assert load_results(output).arguments == {"views": 3, "rows": 20}
    assert json.loads(output.read_text())["format_version"] == 3
    listed = CliRunner().invoke(app, ["list"])
    assert all(f"{name}: " in listed.output for name in SCENARIOS)


def test_each_library_of_a_peer_that_is_absent_is_missing_by_name(tmp_path):
    if find_spec("chdb"):
        pytest.skip("ClickHouse is installed")
    found = _run("edits", tmp_path, peers="clickhouse", queries="total")
    assert found.figures == []
    (problem,) = found.problems
    assert problem.startswith("missing: clickhouse: ModuleNotFoundError")


def test_each_statement_of_a_file_has_its_name():
    assert list(statements_of("tpch")) == [f"Q{number}" for number in range(1, 23)]
    kinds = Counter(name.partition(" ")[0][0] for name in statements_of("ssb"))
    assert kinds == {"t": 5, "Q": 13}
    assert all(text.startswith(("SELECT", "WITH")) for text in statements_of("tpch").values())
