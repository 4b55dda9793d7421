"""What a person sees: tables and plans on a real terminal of 80 columns."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pyarrow as pa
import pytest

import projseg

WIDE = {f"measurement_{n:02d}": [n * 1_000_003, None] for n in range(12)}
DECLARED = [
    projseg.Projection("hourly", ["date_trunc('HOUR', time)", "channel"], ["sum(added)"]),
    projseg.Projection("users", ["user"], ["count(*)"]),
]


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    """Thirty days of edits, a segment a day."""
    hours = pa.array([h * 3_600_000_000 for h in range(720)]).cast(pa.timestamp("us", "UTC"))
    rows = pa.table(
        {
            "time": hours,
            "channel": [f"#channel {n % 3}" for n in range(720)],
            "user": [f"user {n % 50} with a rather long name of many words" for n in range(720)],
            "added": list(range(720)),
            **{name: pa.array(values * 360, pa.int64()) for name, values in WIDE.items()},
        }
    )
    path = str(tmp_path_factory.mktemp("terminal") / "edits")
    table = projseg.Table.create(
        path, rows.schema, time_column="time", segment_granularity="day", projections=DECLARED
    )
    table.append(rows)
    return path


def shown(*words, columns=80, stream="stdout"):
    """The lines that a terminal of so many columns shows of a stream, colours left out."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "projseg", *words]
    streams = {"stdout": subprocess.DEVNULL, stream: theirs}
    with subprocess.Popen(command, **streams, env=environment | {"TERM": "xterm"}) as process:
        os.close(theirs)
        found = b""
        while chunk := _read(ours):
            found += chunk
    os.close(ours)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", found.decode()).replace("\r", "").splitlines()


def _read(descriptor):
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux says that the other end is closed
        return b""


def test_a_wide_table_shows_each_row_as_a_list_of_fields(location):
    lines = shown("query", location, "--limit", "2", "-f", "channel = '#channel 0'")
    assert max(map(len, lines)) <= 80
    assert sum("measurement_07" in line and "7,000,021" in line for line in lines) == 1
    assert [line.strip() for line in lines if line.startswith("row ")] == ["row 1", "row 2"]


def test_a_table_that_fits_stays_a_table_and_breaks_no_number(location):
    lines = shown("query", location, "-g", "channel, user", "-a", "sum(added) AS added")
    assert max(map(len, lines)) <= 80
    header = next(line for line in lines if "channel" in line)
    assert re.search(r"channel\s*┃\s*user\s*┃\s*added", header)
    assert not any(line.startswith("row ") for line in lines)


def test_explain_keeps_to_the_terminal_and_says_each_reason_once(location):
    lines = shown("explain", location, "-g", "channel", "-a", "sum(added) AS added")
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert text.count("not users: MISSING_GROUPING_COLUMN") == 1
    assert "hourly: 30 segments" in text
    assert "... 10 more segments" in text


def test_str_of_explain_is_not_wrapped_and_repr_is_one_line(location):
    explained = projseg.Table(location).explain(group_by="channel", aggregators="sum(added)")
    lines = str(explained).splitlines()
    asked, total, source, why_not_base, why_not, *segments, rest = lines
    assert asked == "SELECT channel, sum(added) GROUP BY channel"
    assert total.startswith("reads 720 rows, ")
    assert "hourly: 30 segments, 720 rows, " in source
    assert "not base: COSTLIER" in why_not_base
    assert "not users: MISSING_GROUPING_COLUMN channel" in why_not
    assert all(".pseg during 1970-01-" in segment for segment in segments)
    assert len(segments) == 20
    assert "... 10 more segments" in rest
    assert repr(explained) == "<Explain: 30 x hourly; 0 segments pruned>"


def test_base_rows_are_called_base_wherever_sources_are_named(location):
    explained = projseg.Table(location).explain(columns="user", interval="1970-01-01/P2D")
    assert explained.sources == {"base": 2}
    assert {row["source"] for row in explained.named_segments()} == {"base"}
    assert '"source": "base"' in explained.to_json()
    assert explained.segments["source"].to_pylist() == [None, None]


@pytest.mark.parametrize("name", ["base", "metadata"])
def test_no_projection_is_named_as_another_source(tmp_path, name):
    schema = pa.schema([("channel", pa.string())])
    with pytest.raises(projseg.ProjsegError, match="that explain uses for another source"):
        projseg.Table.create(
            tmp_path / "t", schema, projections=[projseg.Projection(name, ["channel"], [])]
        )


def test_repr_of_a_table_says_where_and_how_much(location):
    table = projseg.Table(location)
    assert repr(table) == f"<Table {table.location} at version 1: 720 rows in 30 segments>"


def test_a_terminal_shows_how_many_of_all_segments_are_done(tmp_path):
    table = projseg.Table.create(tmp_path / "t", {"n": "bigint"}, target_segment_rows=4)
    for numbers in ([1, 2], [3, 4], [5, 6], [7, 8]):
        table.append({"n": numbers})
    lines = shown("compact", table.location, columns=120, stream="stderr")
    assert any("segments" in line and "2/2" in line for line in lines), lines
