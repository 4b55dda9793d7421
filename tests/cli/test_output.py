"""Rows on standard output: a table for people, JSON lines for programs, CSV on request."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from projseg.cli.output import OutputFormat, chosen_format, print_fields, print_rows

ROWS = pa.table(
    {
        "n": pa.array([1, None]),
        "text": ['a, "b"\n[red]', None],
        "time": pa.array([0, None], pa.timestamp("us", tz="UTC")),
        "day": [date(2015, 9, 12), None],
        "exact": [Decimal("1.50"), None],
        "bytes": [b"\x00\xff", None],
        "double": [float("nan"), 0.5],
        "map": pa.array([[("k", "v")], None], pa.map_(pa.string(), pa.string())),
    }
)


def test_json_is_one_valid_object_a_line(capsys):
    print_rows(ROWS, OutputFormat.JSON)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {
        "n": 1,
        "text": 'a, "b"\n[red]',
        "time": "1970-01-01T00:00:00Z",
        "day": "2015-09-12",
        "exact": "1.50",
        "bytes": "00ff",
        "double": "NaN",
        "map": {"k": "v"},
    }
    assert second == dict.fromkeys(ROWS.column_names) | {"double": 0.5}


def test_csv_reads_back(capsys):
    print_rows(ROWS, OutputFormat.CSV)
    lines = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert lines[0] == ROWS.column_names
    assert lines[1][:2] == ["1", 'a, "b"\n[red]']
    assert lines[2][0] == ""


def test_markdown_is_one_table_whatever_texts_hold(capsys):
    print_rows(
        pa.table({"a|b": ["x|y\nz", None, "c\\d"], "n": [1, None, 2]}), OutputFormat.MARKDOWN
    )
    assert capsys.readouterr().out.splitlines() == [
        "| a\\|b | n |",
        "| --- | --- |",
        "| x\\|y<br>z | 1 |",
        "|  |  |",
        "| c\\\\d | 2 |",
    ]
    print_fields({"rows": 3, "name": "a"}, OutputFormat.MARKDOWN)
    assert capsys.readouterr().out.splitlines()[2:] == ["| rows | 3 |", "| name | a |"]


def test_a_table_shows_markup_and_control_characters_instead_of_obeying_them(capsys):
    print_rows(pa.table({"text": ["[red]x\x1b[2J"]}), OutputFormat.TABLE)
    shown = capsys.readouterr().out
    assert "[red]x\\x1b[2J" in shown
    assert "\x1b" not in shown


def test_a_pipe_gets_json_and_a_terminal_a_table(monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: False, raising=False)
    assert chosen_format(None) is OutputFormat.JSON
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert chosen_format(None) is OutputFormat.TABLE
    assert chosen_format(OutputFormat.CSV) is OutputFormat.CSV


@pytest.mark.parametrize("chosen", list(OutputFormat))
def test_a_record_is_printed_in_every_format(capsys, chosen):
    print_fields({"rows": 3, "names": ["a", "b"], "none": None}, chosen)
    printed = capsys.readouterr().out
    assert "rows" in printed
    assert '["a", "b"]' in printed.replace('""', '"')


COLUMNS = st.tuples(
    st.integers(1, 20),
    st.one_of(
        st.integers(1, 24).map(lambda digits: 10**digits - 1),
        st.integers(1, 40).map(lambda length: "x" * length),
    ),
)


@given(st.lists(COLUMNS, min_size=1, max_size=12))
@example([(4, "h" * 6), (8, "g" * 40), (11, "a" * 40), (6, "NULL"), (15, "d" * 32), (8, 2),
          (16, 0), (4, 4), (5, 160)])  # fmt: skip
def test_no_table_is_cut_at_its_right_edge(columns):
    row = {f"{number}{'n' * length}": value for number, (length, value) in enumerate(columns)}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_rows([row], OutputFormat.TABLE)
    lines = printed.getvalue().splitlines()
    assert all(line.rstrip()[-1] in "┓┃┩│┘" for line in lines if line[:1] in "┏┃┡│└")
