"""Rows as files: what is exported reads back equal, and a file is there whole or not at all."""

from __future__ import annotations

import datetime
import decimal
import io
import math
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import projseg
from projseg.cli import app

UTC = datetime.UTC
ROWS = pa.table(
    {
        "time": pa.array(
            [datetime.datetime(2024, 3, 31, 1, 30, second, 5, UTC) for second in range(4)],
            pa.timestamp("us", "UTC"),
        ),
        "n": pa.array([2**53 + 1, None, -1, 0], pa.int64()),
        "t": ["", None, 'a "b", c\nd', "null"],
        "d": pa.array(
            [decimal.Decimal("12345678901234567.89"), None, None, 0], pa.decimal128(19, 2)
        ),
        "x": [0.1, math.inf, None, math.nan],
        "o": [True, None, False, True],
        "day": pa.array([datetime.date(1, 1, 1), None, None, datetime.date(9999, 12, 31)]),
        "at": pa.array(
            [datetime.datetime(2024, 3, 31, 2, 30), None, None, None], pa.timestamp("us")
        ),
    }
)
NESTED = {
    "l": pa.array([[1, None], [], None, [3]], pa.list_(pa.int64())),
    "s": pa.array([{"q": "a"}, None, {"q": None}, {"q": ""}], pa.struct([("q", pa.string())])),
}


def run(*words, exit_code=0):
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == exit_code, found.output
    return found


@pytest.fixture
def table(tmp_path):
    rows = ROWS
    for name, values in NESTED.items():
        rows = rows.append_column(name, values)
    return projseg.Table.create(tmp_path / "t", rows.schema, time_column="time", data=rows)


FLAT = ",".join(ROWS.schema.names)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_files_of_arrow_have_the_very_columns(table, tmp_path, kind):
    file = tmp_path / f"rows.{kind}"
    run("export", table.location, file)
    found = pq.read_table(file) if kind == "parquet" else pa.ipc.open_file(file).read_all()
    assert found.schema.equals(table.schema)
    assert repr(found.to_pylist()) == repr(table.query().to_pylist())
    assert sorted(one.name for one in tmp_path.iterdir()) == [file.name, "t"]


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_what_is_exported_is_imported_equal(table, tmp_path, kind):
    file = tmp_path / f"rows.{kind}"
    columns = [] if kind == "parquet" else ["--columns", FLAT]
    run("export", table.location, file, *columns)
    schema = table.schema if kind == "parquet" else ROWS.schema
    again = projseg.Table.create(tmp_path / "again", schema, time_column="time")
    # A file of CSV tells NaN from null only to who says what means null.
    run("import", again.location, file, *(["--null", ""] if kind == "csv" else []))
    assert repr(again.refresh().query().to_pylist()) == repr(
        table.query(columns=None if kind == "parquet" else FLAT).to_pylist()
    )


def test_rows_of_a_select_and_of_a_condition(table, tmp_path):
    run("export", table.location, tmp_path / "a.csv", "--sql", "SELECT count(*) AS n FROM t")
    assert (tmp_path / "a.csv").read_text() == '"n"\n4\n'
    run("export", table.location, tmp_path / "b.csv", "--columns", "n", "--filter", "n > :low",
        "--arg", "low=0")  # fmt: skip
    assert (tmp_path / "b.csv").read_text() == '"n"\n9007199254740993\n'
    words = ["--sql", "SELECT 1 AS n FROM t", "--columns", "n"]
    assert "PROJSEG_BAD_ARGUMENT" in str(
        run("export", table.location, tmp_path / "c.csv", *words, exit_code=1).exception
    )


def test_standard_output_is_a_stream(table):
    words = [sys.executable, "-m", "projseg", "export", table.location, "--format", "arrow"]
    out = subprocess.run(words, capture_output=True, check=True).stdout
    assert pa.ipc.open_stream(io.BytesIO(out)).read_all().num_rows == 4


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["rows.txt"], "PROJSEG_BAD_OPTION"),
        (["rows.csv"], "column 'l' is array<bigint>"),
        (["nowhere/rows.parquet"], "PROJSEG_STORAGE_FAILED"),
        (["rows.parquet", "--sql", "SELECT raise_error('no') AS x FROM t"], "PROJSEG_"),
        (["rows.csv", "--sql", "SELECT 1 DIV (n - n) AS x FROM t"], "PROJSEG_"),
    ],
)
def test_what_fails_leaves_the_file_that_was_there(table, tmp_path, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("mine")
    assert told in str(run("export", table.location, *words, exit_code=1).exception)
    assert (tmp_path / "rows.csv").read_text() == "mine"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["rows.csv", "t"]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv", "jsonl"])
def test_a_disk_that_takes_no_more_leaves_no_file(table, tmp_path, kind):
    """A limit on the size of files stands for a full disk: both refuse a write in the middle."""
    table.append(pa.concat_tables([table.query()] * 2000))
    place = tmp_path / f"out.{kind}"
    words = [str(table.location), str(place), "--columns", FLAT]
    script = (
        "import resource, sys; from projseg.cli import app;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        f"app(['export', *{words!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode
    assert "PROJSEG_STORAGE_FAILED" in done.stderr, done.stderr
    assert "cannot be written" in done.stderr
    assert [one.name for one in tmp_path.iterdir() if one.name != "t"] == []


@pytest.mark.parametrize("place", ["nowhere/out.csv", "t/_projseg/nowhere/out.parquet"])
def test_a_folder_that_is_not_there_is_an_error(table, tmp_path, place):
    found = run("export", table.location, tmp_path / place, "--columns", FLAT, exit_code=1)
    assert "PROJSEG_STORAGE_FAILED" in str(found.exception)


def test_a_folder_that_takes_no_files_is_an_error(table):
    found = run("export", table.location, "/proc/out.csv", "--columns", FLAT, exit_code=1)
    assert "cannot be written" in str(found.exception)
