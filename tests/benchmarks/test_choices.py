"""Every source that can answer is tried, and the chosen one is among them."""

from __future__ import annotations

import json

import pytest

from projseg.benchmarks import choices
from projseg.benchmarks.lineitem import LineitemRows
from projseg.errors import MissingPackageError


@pytest.mark.slow
def test_a_small_run(tmp_path, capsys):
    output = tmp_path / "choices.json"
    arguments = [
        "--workload",
        "edits",
        "--rows",
        "3000",
        "--queries",
        "total,filter_hours,by_user_device",
    ]
    choices.main([*arguments, "--output", str(output)])
    found = {one["query"]: one for one in json.loads(output.read_text())["choices"]}
    assert set(found) == {"total", "filter_hours"}  # nothing but base rows has users and devices
    sources = {offer["source"] for offer in found["total"]["offers"]}
    assert {"base", "by_channel", "by_user", "by_minute_device"} < sources
    for one in found.values():
        assert one["chosen"] in {offer["source"] for offer in one["offers"]}
        times = [offer["milliseconds"] for offer in one["offers"]]
        assert times == sorted(times)
        assert all(offer["estimated_ms"] > 0 for offer in one["offers"])
    assert "estimated" in capsys.readouterr().out


@pytest.mark.slow
def test_the_rows_of_a_workload_that_is_made_are_told(tmp_path):
    try:
        LineitemRows.made(tmp_path, 0.001)
    except MissingPackageError:
        pytest.skip("tpchgen-cli is of the extra [bench]")
    output = tmp_path / "choices.json"
    choices.main(["--scale", "0.001", "--queries", "q6", "--output", str(output)])
    assert json.loads(output.read_text())["rows"] == 6_005


def test_the_ratio_is_to_the_quickest():
    offers = (choices.TimedSource("a", 1.0, 2.0), choices.TimedSource("base", 9.0, 3.0))
    assert choices.MeasuredChoice("q", "base", offers).ratio == 1.5
    assert choices.MeasuredChoice("q", "a", offers).ratio == 1.0
