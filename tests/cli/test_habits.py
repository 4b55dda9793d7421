"""What people type by habit: in another order, into a pipe, and stopped half way."""

from __future__ import annotations

import datetime
import json
import signal
import subprocess
import sys
import time

import pytest

import projseg
from projseg.cli import main


@pytest.fixture
def location(tmp_path):
    table = projseg.Table.create(
        tmp_path / "t", {"time": "timestamp", "k": "string", "n": "int"}, time_column="time"
    )
    times = [datetime.datetime(2024, 5, 1, 12 + n, tzinfo=datetime.UTC) for n in range(3)]
    table.append({"time": times, "k": ["a", "b", "a"], "n": [1, 2, 3]})
    return str(tmp_path / "t")


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["projseg", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        return stopped.value.code or 0, printed.out, printed.err

    return run


@pytest.mark.parametrize(
    "words",
    [
        ["--errors", "json", "describe", "nowhere"],
        ["describe", "--errors", "json", "nowhere"],
        ["describe", "nowhere", "--errors=json"],
    ],
)
def test_errors_are_json_wherever_that_is_said(run, words):
    code, _, error = run(*words)
    assert code == 1
    assert json.loads(error)["code"] == "PROJSEG_NOT_A_TABLE"


def test_an_argument_after_two_dashes_is_none_of_ours(run):
    code, _, error = run("describe", "--", "--errors=json")
    assert code == 1
    assert error.startswith("[PROJSEG_NOT_A_TABLE]")


def test_help_is_a_verb(run):
    assert "materialize-projection" in run("help")[1]
    assert run("help", "vacuum")[1] == run("vacuum", "--help")[1]


def test_a_statement_is_explained_as_options_are(run, location):
    _, by_options, _ = run("explain", location, "-g", "k", "-a", "sum(n) AS n")
    code, by_statement, _ = run("explain", location, "SELECT k, sum(n) AS n FROM t GROUP BY k")
    assert (code, by_statement) == (0, by_options)
    code, _, error = run("explain", location, "SELECT 1 FROM t", "-g", "k")
    assert code == 1
    assert "PROJSEG_BAD_ARGUMENT" in error


@pytest.mark.parametrize(
    "words", [["query", "-c", "time"], ["sql", "SELECT time FROM t ORDER BY time"]]
)
def test_times_are_shown_in_the_zone_that_is_asked_for(run, location, words):
    asked = [words[0], location, *words[1:], "--timezone", "Europe/Berlin", "-o", "json"]
    assert json.loads(run(*asked)[1].splitlines()[0]) == {"time": "2024-05-01T14:00:00+02:00"}
    assert json.loads(run(*asked[:-4], "-o", "json")[1].splitlines()[0])["time"].endswith("Z")


def test_times_within_are_shown_in_that_zone(run, tmp_path):
    noon = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
    shown = "2024-05-01T14:00:00+02:00"
    types = "struct<list: array<timestamp>, map: map<timestamp, timestamp>, n: int>"
    rows = [{"s": {"list": [noon, None], "map": {noon: noon}, "n": 1}}, {"s": None}]
    projseg.Table.create(tmp_path / "t", {"s": types}, data=rows)
    asked = ("query", tmp_path / "t", "--timezone", "Europe/Berlin", "-o", "json")
    found = [json.loads(line)["s"] for line in run(*asked)[1].splitlines()]
    assert found[0]["list"] == [shown, None]
    assert str(found[0]["map"]).count("14:00:00+02:00") == 2
    assert (found[0]["n"], found[1]) == (1, None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["indexes"], "has no indexes"),
        (["views"], "has no views"),
        (["projections"], "has no projections"),
        (["tags"], "has no tags"),
        (["compact", "--dry-run"], "has no segments to merge"),
    ],
)
def test_a_list_of_none_says_so_beside_the_output(run, location, words, said):
    code, output, error = run(words[0], location, *words[1:])
    assert (code, output) == (0, "")
    assert said in error


def test_dropping_a_view_says_how_to_do_it(run, location):
    projseg.Table(location).create_view("v", "SELECT k, sum(n) AS n FROM t GROUP BY k")
    would = json.loads(run("drop-view", location, "v")[1])
    assert would["would_drop"] == "v"
    assert would["to_do_it"] == "repeat with --yes"
    assert json.loads(run("drop-view", location, "v", "--yes")[1])["dropped"] is True
    assert projseg.Table(location).views().num_rows == 0


def test_a_projection_that_is_there_is_not_declared_again(run, location):
    words = ["add-projection", location, "p=SELECT k, sum(n) AS n GROUP BY k"]
    run(*words)
    version = projseg.Table(location).version
    for _ in range(2):
        assert run(*words)[0] == 0
        assert projseg.Table(location).version == version
    assert run(*words, "--build", "deferred")[0] == 0
    assert projseg.Table(location).version == version + 1  # another declaration
    assert run(*words, "--build", "deferred")[0] == 0
    assert projseg.Table(location).version == version + 1
    projseg.Table(location).drop_projection("p")
    run(*words)
    assert projseg.Table(location).version == version + 3


def test_a_reader_that_wants_no_more_is_no_failure(location):
    command = f"set -o pipefail; {sys.executable} -m projseg query {location} -o json | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_an_interrupt_at_the_start_is_one_word(location):
    command = [sys.executable, "-m", "projseg", "query", location]
    for delay in (0.15, 0.4):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(delay)
        child.send_signal(signal.SIGINT)
        _, error = child.communicate()
        if child.returncode == 130:
            assert error == "interrupted\n"
        assert "projseg/" not in error


@pytest.mark.parametrize(
    "place",
    [
        "http://user:secret@host/p",
        "https://secret@host/p",
        "HTTP://user:a@secret@host/p",
        "s3://user:secret@bucket/p",
        "file://user:secret@host/p",
        "http://host/p?token=secret",
    ],
)
def test_no_message_has_the_secret_of_a_location(run, place):
    code, output, error = run("describe", place)
    assert code == 1
    assert "secret" not in output + error
