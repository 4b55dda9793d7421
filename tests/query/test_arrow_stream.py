"""A table is an Arrow C stream, which DuckDB and pyarrow read a few batches at a time."""

import datetime

import duckdb
import polars
import pyarrow as pa
import pytest

import projseg
from projseg.table import questions

ROWS = 40_000
START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def rows():
    return pa.table(
        {
            "time": [START + datetime.timedelta(seconds=9 * n) for n in range(ROWS)],
            "channel": [f"#{'abc'[n % 3]}" for n in range(ROWS)],
            "added": pa.array([n % 100 for n in range(ROWS)], pa.int32()),
            "tags": [[str(n % 3)] for n in range(ROWS)],
        }
    )


@pytest.fixture
def edits(rows, tmp_path):
    made = projseg.Table.create(
        tmp_path / "edits", rows.schema, time_column="time", segment_granularity="day"
    )
    made.append(rows)
    return made


def test_pyarrow_reads_all_rows_of_a_table(edits, rows):
    assert pa.table(edits).equals(rows.cast(edits.schema))
    assert pa.RecordBatchReader.from_stream(edits).schema == edits.schema


def test_columns_are_cast_to_a_requested_schema(edits):
    wanted = edits.schema.set(2, pa.field("added", pa.int64()))
    assert pa.RecordBatchReader.from_stream(edits, wanted).read_all().schema == wanted


def test_duckdb_finds_a_table_by_the_name_of_its_variable(edits):
    assert duckdb.sql("SELECT count(*), sum(added) FROM edits").fetchall() == [(ROWS, 1_980_000)]


def test_duckdb_joins_a_table_with_itself_and_with_a_scan(edits):
    names = pa.table({"channel": ["#a", "#b"], "team": ["red", "blue"]})
    assert names.num_rows == 2  # DuckDB reads it by its name
    scan = edits.scan(columns="channel, added", filter="added = 7")
    assert isinstance(scan, pa.RecordBatchReader)
    joined = duckdb.sql(
        "SELECT team, count(*) FROM scan JOIN names USING (channel) GROUP BY team ORDER BY team"
    )
    assert joined.fetchall() == [("blue", 134), ("red", 133)]
    squared = "SELECT count(*) FROM edits one JOIN edits two USING (time)"
    assert duckdb.sql(squared).fetchall() == [(ROWS,)]


def test_no_row_is_read_before_the_first_batch_is_asked_for(edits, monkeypatch):
    asked = []

    def scan(*arguments):
        asked.append("scan")
        return scan_before(*arguments)

    scan_before = questions.scan
    monkeypatch.setattr(questions, "scan", scan)
    stream = pa.RecordBatchReader.from_stream(edits)
    assert stream.schema == edits.schema
    assert asked == []
    assert stream.read_next_batch().num_rows < ROWS
    assert asked == ["scan"]


def test_a_stream_keeps_the_version_that_it_began_with(edits, rows):
    stream = pa.RecordBatchReader.from_stream(edits)
    edits.add_column("note", "string")
    edits.append(rows.slice(0, 5))
    assert stream.read_all().equals(rows.cast(stream.schema))
    assert pa.table(edits).num_rows == ROWS + 5


def test_a_table_can_be_appended_to_another(edits, tmp_path):
    copy = projseg.Table.create(tmp_path / "copy", edits.schema)
    assert copy.append(edits).rows == ROWS


def test_polars_reads_a_table(edits):
    assert polars.DataFrame(edits).shape == (ROWS, 4)
