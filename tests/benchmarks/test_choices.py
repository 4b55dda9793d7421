"""Every source that can answer is tried, and the chosen one is among them."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from projseg.benchmarks import choices
from projseg.benchmarks.cli import app
from projseg.benchmarks.lineitem import LineitemRows
from projseg.benchmarks.random_questions import random_questions, random_table
from projseg.errors import MissingPackageError


def ran(output, *arguments):
    result = CliRunner().invoke(app, ["choices", *arguments, "--output", str(output)])
    assert result.exit_code == 0, result.output
    return json.loads(output.read_text()), result.output


@pytest.mark.slow
def test_a_small_run(tmp_path):
    queries = ["--queries", "total,filter_hours,by_user_device"]
    figures, text = ran(tmp_path / "out", "--workload", "edits", "--rows", "3000", *queries)
    found = {one["query"]: one for one in figures["choices"]}
    assert set(found) == {"total", "filter_hours"}  # nothing but base rows has users and devices
    sources = {offer["source"] for offer in found["total"]["offers"]}
    assert {"base", "by_channel", "by_user", "by_minute_device"} < sources
    for one in found.values():
        assert one["chosen"] in {offer["source"] for offer in one["offers"]}
        times = [offer["milliseconds"] for offer in one["offers"]]
        assert times == sorted(times)
        assert all(offer["estimated_ms"] > 0 for offer in one["offers"])
    assert "estimated" in text


@pytest.mark.slow
def test_random_questions_have_several_sources(tmp_path):
    figures, text = ran(tmp_path / "out", "--questions", "12", "--seed", "3")
    assert figures["questions"] == len(figures["choices"]) == 12
    assert all(len(one["offers"]) > 1 for one in figures["choices"])
    assert f"{figures['within 1.3 of the quickest']} of 12 within 1.3" in text


@pytest.mark.slow
def test_the_rows_of_a_workload_that_is_made_are_told(tmp_path):
    try:
        LineitemRows.made(tmp_path, 0.001)
    except MissingPackageError:
        pytest.skip("tpchgen-cli is of the extra [bench]")
    arguments = ("--workload", "lineitem", "--scale", "0.001", "--queries", "q6")
    assert ran(tmp_path / "out", *arguments)[0]["rows"] == 6_005


def test_the_same_seed_gives_the_same_questions(tmp_path):
    (_, one), (_, other) = (random_table(tmp_path / name, 4) for name in "ab")
    assert one == other
    questions = list(random_questions(one, 4, 20))
    assert questions == list(random_questions(one, 4, 20))
    assert len(set(questions)) > 10


def test_the_ratio_is_to_the_quickest():
    offers = (choices.TimedSource("a", 1.0, 2.0), choices.TimedSource("base", 9.0, 3.0))
    assert choices.MeasuredChoice("q", "base", offers).ratio == 1.5
    assert choices.MeasuredChoice("q", "a", offers).ratio == 1.0
