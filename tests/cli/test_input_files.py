"""Files to import become batches of the table's types, or an error that names file and column."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from projseg.catalog.external import text_blocks
from projseg.catalog.external.input_columns import BadLines, table_schema
from projseg.catalog.external.input_files import Sources, stored_bytes
from projseg.catalog.external.readings import TextForm
from projseg.errors import InvalidInputError
from projseg.segment_format.logical_types import type_name

ROWS = pa.table({"time": ["2015-09-12T00:47:08.770Z", None], "n": [1, 2], "s": ["x", None]})
TYPES = pa.schema([("time", pa.timestamp("us", tz="UTC")), ("n", pa.int64()), ("s", pa.string())])


def write_file(folder, name):
    path = str(folder / name)
    lines = "".join(json.dumps(row) + "\n" for row in ROWS.to_pylist())
    if name.endswith(".parquet"):
        pa.parquet.write_table(ROWS, path)
    elif name.endswith(".csv"):
        pa.csv.write_csv(ROWS, path)
    elif name.endswith(".gz"):
        with gzip.open(path, "wt") as file:
            file.write(lines)
    else:
        (folder / name).write_text(lines)
    return path


def opened(path):
    return Sources([str(path)], None, TextForm())


def rows_of(source, schema, advance=lambda _: None):
    return pa.Table.from_batches(source.rows(schema, BadLines(), advance), schema)


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.json", "a.jsonl", "a.json.gz"])
def test_every_kind_of_file_gives_the_same_rows(tmp_path, name):
    path = write_file(tmp_path, name)
    read_bytes = []
    source = opened(path)
    schema = table_schema(source.schema, [], "time")
    assert schema.equals(TYPES)
    rows = rows_of(source, schema, read_bytes.append)
    assert rows.column("n").to_pylist() == [1, 2]
    assert rows.column("s").to_pylist() == ["x", None]
    assert rows.column("time")[0].as_py().isoformat() == "2015-09-12T00:47:08.770000+00:00"
    assert 0 < sum(read_bytes) <= stored_bytes(path)
    assert rows_of(source, schema).equals(rows)


def test_an_unknown_ending_is_refused(tmp_path):
    (tmp_path / "a.xlsx").touch()
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_FILE_TYPE"):
        opened(tmp_path / "a.xlsx")


def test_what_a_folder_holds_besides_is_named(tmp_path):
    for name in ("a.csv", "b.json", "c.txt", "d", ".e.txt"):
        write_file(tmp_path, name)
    source = opened(tmp_path)
    assert len(rows_of(source, TYPES)) == 4
    assert [note for note in source.notes if ": 2, such as" in note]
    assert not Sources([str(tmp_path / "a.csv")], None, TextForm()).notes


def test_a_file_that_is_not_what_it_is_called_is_refused(tmp_path):
    (tmp_path / "a.parquet").write_text("not parquet")
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_INPUT_FILE"):
        _ = opened(tmp_path / "a.parquet").schema


def test_asked_types_win_over_found_ones(tmp_path):
    found = opened(write_file(tmp_path, "a.json")).schema
    assert table_schema(found, ["n=double"], None).field("n").type == pa.float64()
    with pytest.raises(InvalidInputError, match="did you mean 'n'"):
        table_schema(found, ["N2=double"], None)


def test_a_column_of_nulls_is_stored_as_text():
    assert table_schema(pa.schema([("a", pa.null())]), [], None).field("a").type == pa.string()


def test_a_value_that_does_not_fit_names_file_and_column(tmp_path):
    path = write_file(tmp_path, "a.json")
    target = pa.schema([("time", pa.string()), ("n", pa.int64()), ("s", pa.int64())])
    with pytest.raises(InvalidInputError, match=r"a\.json, line 1: column 's' does not fit bigint"):
        rows_of(opened(path), target)


def test_a_column_that_the_table_lacks_is_refused(tmp_path):
    path = write_file(tmp_path, "a.json")
    target = pa.schema([("time", pa.string()), ("n", pa.int64())])
    with pytest.raises(InvalidInputError, match="column 's' that the table lacks"):
        rows_of(opened(path), target)


@pytest.mark.parametrize(
    ("texts", "kind", "first"),
    [
        (["2024-05-01T08:00:00Z"], "timestamp", "2024-05-01T08:00:00+00:00"),
        (["2024-05-01T08:00:00+02:00", None], "timestamp", "2024-05-01T06:00:00+00:00"),
        (["2024-05-01 08:00:00-0530"], "timestamp", "2024-05-01T13:30:00+00:00"),
        (["2024-05-01T08:00:00"], "timestamp_ntz", "2024-05-01T08:00:00"),
        (["2024-05-01"], "timestamp_ntz", "2024-05-01T00:00:00"),
        (["2024-05-01T08:00:00Z", "2024-05-01T08:00:00"], "string", "2024-05-01T08:00:00Z"),
    ],
)
@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_times_of_whole_seconds_in_json_keep_their_zone(tmp_path, name, texts, kind, first):
    path = str(tmp_path / name)
    lines = "".join(json.dumps({"n": 1, "t": text, "s": "x"}) + "\n" for text in texts)
    with gzip.open(path, "wt") if name.endswith(".gz") else open(path, "w") as file:
        file.write(lines)
    source = opened(path)
    schema = table_schema(source.schema, [], None)
    assert schema.names == ["n", "t", "s"]
    assert type_name(schema.field("t").type) == kind
    rows = rows_of(source, schema)
    value = rows.column("t")[0].as_py()
    assert (value if kind == "string" else value.isoformat()) == first


def test_a_time_with_a_zone_after_times_without_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 64)
    path = tmp_path / "a.json"
    times = ["2024-05-01T08:00:00"] * 20 + ["2024-05-01T08:00:00Z"]
    path.write_text("".join(json.dumps({"t": time}) + "\n" for time in times))
    source = opened(path)
    schema = table_schema(source.schema, [], None)
    with pytest.raises(InvalidInputError, match=r"PROJSEG_BAD_INPUT_FILE.*a\.json.*zone offset"):
        rows_of(source, schema)
