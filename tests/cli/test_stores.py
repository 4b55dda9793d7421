"""`--storage-option` of verbs, and the environment instead."""

import json
import subprocess
import sys

import pytest
from store_places import environment_of

import projseg

SECRET = "planted-5ecret"


def run(*words, environment=None):
    return subprocess.run(
        [sys.executable, "-m", "projseg", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.fixture
def options(store_server):
    return store_server.options()


@pytest.fixture
def location(store_place, options):
    data = {"x": [1, 2, 3], "k": ["a", "b", "a"]}
    schema = {"x": "long", "k": "string"}
    return projseg.Table.create(store_place, schema, data=data, storage_options=options).location


def test_a_verb_takes_storage_options(location, options):
    given = [f"--storage-option={key}={value}" for key, value in options.items()]
    told = run("query", location, "--agg", "sum(x) AS x", "-o", "json", *given)
    assert json.loads(told.stdout) == {"x": 6}, told.stderr
    told = run("delete", location, "--filter", "k = 'b'", "--yes", *given)
    assert told.returncode == 0, told.stderr
    assert projseg.Table(location, storage_options=options).version == 1


def test_the_environment_does_as_well(location, options, monkeypatch, tmp_path):
    for name, value in environment_of(options).items():
        monkeypatch.setenv(name, value)
    rows = tmp_path / "rows.csv"
    rows.write_text("x,k\n7,c\n")
    told = run("import", location, rows)
    assert told.returncode == 0, told.stderr
    assert projseg.Table(location).query(aggregators="sum(x) AS x").to_pylist() == [{"x": 13}]


@pytest.mark.parametrize("text", [f"={SECRET}", "region", f"regoin={SECRET}"])
def test_an_option_that_is_wrong_is_told_without_its_value(location, text):
    told = run("tags", location, "--storage-option", text)
    assert told.returncode == 1
    assert "PROJSEG_BAD_STORAGE_OPTION" in told.stderr
    assert SECRET not in told.stdout + told.stderr
    assert len(told.stderr.splitlines()) == 1
