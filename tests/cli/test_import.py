"""`projseg import`: a table appears with its rows or not at all, and keeps what it declares."""

import json
import os
import random
import signal
import sys
import time
from itertools import count
from pathlib import Path

import pytest
from race import CONTEXT, run_and_die
from recorded_os import DyingOs, FailingOs
from scale import IS_NIGHTLY

import projseg
from projseg.cli import main
from projseg.table_layer.storage import local_storage

DAILY = "daily=SELECT date_trunc('DAY', time) AS day, sum(added) AS added GROUP BY ALL"


def edits(path, days=(12, 13), added=10):
    rows = [
        {"time": f"2015-09-{day}T0{hour}:00:00Z", "channel": "#en", "added": added}
        for day in days
        for hour in range(3)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def arguments(table, file, *more):
    return [
        "projseg", "import", str(table), str(file), "--time-column", "time",
        "--segment-granularity", "day", "--cluster-by", "channel", "-p", DAILY, *more,
    ]  # fmt: skip


def run(monkeypatch, words):
    """Run the command line in this process and return its exit code."""
    monkeypatch.setattr(sys, "argv", [str(word) for word in words])
    try:
        main()
    except SystemExit as stopped:
        return stopped.code or 0
    return 0


def rows_in(table):
    return projseg.Table(table).query(aggregators="count(*) AS n").to_pylist()[0]["n"]


def files_under(table):
    return [str(path) for path in Path(table).rglob("*") if path.is_file()]


def test_the_first_import_is_one_version(tmp_path, monkeypatch):
    file = edits(tmp_path / "a.json")
    assert run(monkeypatch, arguments(tmp_path / "t", file)) == 0
    table = projseg.Table(tmp_path / "t")
    assert table.version == 0
    (first,) = table.history().to_pylist()
    assert (first["operation"], first["rows"]) == ("create", 6)
    assert dict(first["metrics"]) == {"added_segments": 2, "added_rows": 6}
    assert table.verify(deep=True) == []
    assert run(monkeypatch, ["projseg", "import", tmp_path / "t", file]) == 0
    assert rows_in(tmp_path / "t") == 12


def test_a_failed_first_import_leaves_no_table(tmp_path, monkeypatch, capsys):
    good = edits(tmp_path / "good.json")
    bad = edits(tmp_path / "bad.json", added="many")
    words = arguments(tmp_path / "t", good, bad, "--target-segment-rows", "2")
    assert run(monkeypatch, words) == 1
    assert "bad.json" in capsys.readouterr().err
    assert not projseg.is_table(tmp_path / "t")
    assert files_under(tmp_path / "t") == []
    # The retry declares something else than the failed try, and nothing is in its way.
    assert run(monkeypatch, ["projseg", "import", tmp_path / "t", good]) == 0
    assert projseg.Table(tmp_path / "t").properties.time_column is None
    assert rows_in(tmp_path / "t") == 6


@pytest.mark.slow
def test_an_import_killed_at_every_change_can_be_repeated(tmp_path, monkeypatch):
    file = edits(tmp_path / "a.json", days=(12,))
    table = tmp_path / "warm-up"
    assert run(monkeypatch, arguments(table, file)) == 0
    landed = 0
    for at in count(1):
        table = tmp_path / f"t{at}"

        def die(at=at, table=table):
            monkeypatch.setattr(local_storage, "os", DyingOs(at))
            run(monkeypatch, arguments(table, file))

        was_killed = run_and_die(die)
        if projseg.is_table(table):
            landed += was_killed
            assert rows_in(table) == 3, "a table that is there has all rows of its first commit"
        else:
            assert was_killed
            assert run(monkeypatch, arguments(table, file)) == 0
            assert rows_in(table) == 3
        if not was_killed:
            break
    assert at > 30
    assert landed >= 2


def test_an_import_that_fails_at_every_change_leaves_nothing(tmp_path, monkeypatch, capsys):
    file = edits(tmp_path / "a.json", days=(12,))
    for at in count(1, 1 if IS_NIGHTLY else 3):
        table = tmp_path / f"t{at}"
        failing = FailingOs(at, 28)
        with monkeypatch.context() as patch:
            patch.setattr(local_storage, "os", failing)
            code = run(monkeypatch, arguments(table, file))
        error = capsys.readouterr().err
        if code:
            assert error.startswith("[PROJSEG_"), error
        if projseg.is_table(table):
            assert code == 0 or "STATE_UNKNOWN" in error
            assert rows_in(table) == 3
        elif "STATE_UNKNOWN" not in error:
            assert files_under(table) == []
        if not failing.was_reached:
            break
    assert at > 30


@pytest.mark.slow
def test_an_import_killed_at_any_time_can_be_repeated(tmp_path, monkeypatch):
    file = edits(tmp_path / "a.json", days=range(10, 30))
    assert run(monkeypatch, arguments(tmp_path / "warm-up", file)) == 0
    rng = random.Random(8)
    for number in range(12):
        table = tmp_path / f"t{number}"
        importing = CONTEXT.Process(target=run, args=(monkeypatch, arguments(table, file)))
        importing.start()
        time.sleep(rng.uniform(0, 0.5))
        os.kill(importing.pid, signal.SIGKILL)
        importing.join()
        if projseg.is_table(table):
            assert rows_in(table) == 60
            continue
        assert run(monkeypatch, arguments(table, file)) == 0
        assert rows_in(table) == 60
        assert projseg.Table(table).verify() == []


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--time-column", "added"), "time_column='added'"),
        (("--segment-granularity", "month"), "segment_granularity='month'"),
        (("--cluster-by", "added"), "cluster_by=['added']"),
        (("--target-segment-rows", "5"), "target_segment_rows=5"),
        (("-p", "new=SELECT sum(added) AS s"), "'new' was given and the table does not declare"),
        (("-p", "daily=SELECT count(*) AS n"), "'daily' was given and the table declares it other"),
        (("--type", "added=double"), "whose column 'added' is bigint"),
        (("--type", "adde=bigint"), "did you mean 'added'"),
    ],
)
def test_an_option_that_contradicts_the_table_is_an_error(
    tmp_path, monkeypatch, capsys, option, words
):
    file = edits(tmp_path / "a.json")
    assert run(monkeypatch, arguments(tmp_path / "t", file)) == 0
    before = files_under(tmp_path / "t")
    assert run(monkeypatch, ["projseg", "import", tmp_path / "t", file, *option]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.startswith(("[PROJSEG_OPTION_CONTRADICTS_TABLE]", "[PROJSEG_UNKNOWN_COLUMN]"))
    assert files_under(tmp_path / "t") == before
    assert projseg.Table(tmp_path / "t").version == 0


def test_options_that_agree_with_the_table_are_no_error(tmp_path, monkeypatch):
    file = edits(tmp_path / "a.json")
    words = arguments(tmp_path / "t", file, "--type", "added=bigint")
    assert run(monkeypatch, words) == 0
    assert run(monkeypatch, words) == 0
    assert run(monkeypatch, [*words[:4], "--segment-granularity", "P1D"]) == 0
    assert rows_in(tmp_path / "t") == 18


@pytest.mark.parametrize("existing", [False, True], ids=["new table", "existing table"])
def test_a_file_that_is_not_there_is_named(tmp_path, monkeypatch, capsys, existing):
    good = edits(tmp_path / "a.json")
    if existing:
        assert run(monkeypatch, arguments(tmp_path / "t", good)) == 0
    (tmp_path / "none").mkdir()
    for file, words in [
        (tmp_path / "none.parquet", "no such file; check the path"),
        (tmp_path / "none", "is a directory without files"),
    ]:
        assert run(monkeypatch, ["projseg", "import", tmp_path / "t", good, file]) == 1
        error = capsys.readouterr().err
        assert error.startswith("[PROJSEG_BAD_INPUT_FILE]")
        assert str(file) in error
        assert words in error
    assert projseg.is_table(tmp_path / "t") == existing
