"""Rows of Arrow, polars, pandas and DuckDB, of each type in each encoding, taken as they are."""

from __future__ import annotations

import datetime
import random
import re
import subprocess
import sys
import zlib
from decimal import Decimal
from functools import partial

import duckdb
import foreign_rows
import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from scale import tries

import projseg
from projseg.errors import InvalidInputError, ProjsegError

NAIVE = [datetime.datetime(2024, 5, 1, 12), datetime.datetime(2024, 5, 2)]


@pytest.mark.parametrize("first", [1, 100_001])
def test_drawn_types_and_slices_are_kept(first):
    """Each case runs in a process of its own, as the fault of one may be its end."""
    command = [sys.executable, foreign_rows.__file__, str(first), str(tries(400))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


class Stream:
    """What hands out rows by Arrow's capsules alone."""

    def __init__(self, rows):
        self.rows = rows

    def __arrow_c_stream__(self, requested_schema=None):
        return self.rows.__arrow_c_stream__(requested_schema)


def by_duckdb(table):
    return duckdb.from_arrow(table)


LIBRARIES = {
    "arrow": lambda table: table,
    "polars": polars.from_arrow,
    "polars categories": lambda table: polars.from_arrow(table).cast(polars.Categorical),
    "pandas": lambda table: table.to_pandas(),
    "pandas of arrow": lambda table: table.to_pandas(types_mapper=pandas.ArrowDtype),
    "pandas categories": lambda table: table.to_pandas().astype("category"),
    "duckdb": by_duckdb,
}
ENCODINGS = {
    "plain": lambda values: values,
    "runs": lambda values: pa.RunEndEncodedArray.from_arrays(
        pa.array(np.arange(1, len(values) + 1) * 2, pa.int32()), values
    ),
    "list": lambda values: pa.ListArray.from_arrays(
        pa.array([0, 1, len(values)], pa.int32()), values
    ),
    "list view": lambda values: pa.ListViewArray.from_arrays(
        pa.array([1, 0], pa.int32()), pa.array([len(values) - 1, 1], pa.int32()), values
    ),
    "fixed list": lambda values: pa.FixedSizeListArray.from_arrays(values, 1),
    "struct": lambda values: pa.StructArray.from_arrays(
        [values], ["a"], mask=pa.array([n == 0 for n in range(len(values))])
    ),
    "map": lambda values: pa.MapArray.from_arrays(
        pa.array([0, len(values)], pa.int32()), pa.array(list("abcdefgh")[: len(values)]), values
    ),
    **{
        f"dictionary of {index}": lambda values, index=index: pa.DictionaryArray.from_arrays(
            pa.array([len(values) - 1, None, 0], index), values
        )
        for index in foreign_rows.INDEX_TYPES
    },
}


def made_by(library, column):
    """Return a frame of a library, or None where it has no such type."""
    if library.startswith("pandas") and pa.types.is_run_end_encoded(column.type):
        return None  # Arrow's own way there reads memory that is not its own
    if library.startswith("polars") and re.search(r"<.*decimal(32|64)", str(column.type)):
        return None  # polars ends the process when it hands them out again
    try:
        return LIBRARIES[library](pa.table({"c": column}))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


def rows_of(frame, asked):
    """Return the rows that a library hands out, in Python's own values."""
    if isinstance(frame, pandas.DataFrame) and not asked:
        frame = pa.table({"c": pa.array(frame["c"], from_pandas=True)})
    array = pa.RecordBatchReader.from_stream(frame).read_all()["c"]
    return [value for chunk in array.chunks for value in foreign_rows.python_values(chunk)]


@pytest.mark.parametrize("by_capsule", [False, True], ids=["as it is", "by capsules"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_each_type_and_encoding_of_a_library_is_kept_or_refused(tmp_path, library, by_capsule):
    cases = [(kind, name) for kind in foreign_rows.LEAVES for name in ENCODINGS]
    chosen = random.Random(zlib.crc32(library.encode())).sample(cases, min(len(cases), tries(400)))
    kept = 0
    for number, (kind, encoding) in enumerate(chosen):
        try:
            column = ENCODINGS[encoding](pa.array([*foreign_rows.LEAVES[kind], None], kind))
        except pa.ArrowException:
            continue  # Arrow has no such encoding
        frame = made_by(library, column)
        if frame is None:
            continue
        try:
            expected = rows_of(frame, by_capsule)
        except (pa.ArrowException, ValueError):
            expected = None  # what Arrow makes of it holds no values, such as broken texts
        rows = Stream(frame) if by_capsule else frame
        try:
            table = projseg.Table.create(tmp_path / str(number), data=rows)
        except ProjsegError:
            found = None
        else:
            found = [foreign_rows.plain(row["c"]) for row in table.query().to_pylist()]
        assert found == expected, (kind, encoding)
        kept += found is not None
    assert kept


def test_categories_and_enums_of_polars_are_texts(tmp_path):
    frame = polars.DataFrame({"c": ["a", "b", "a"]})
    for number, kind in enumerate([polars.Categorical, polars.Enum(["b", "a"])]):
        table = projseg.Table.create(tmp_path / str(number), {"c": "string"})
        table.append(frame.cast(kind))
        table.append(frame.cast(kind).to_arrow())
        assert table.query()["c"].to_pylist() == ["a", "b", "a"] * 2


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (lambda: polars.Series("c", [1]), "PROJSEG_BAD_ROWS.*Series.*to_frame"),
        (lambda: pandas.Series([1], name="c"), "PROJSEG_BAD_ROWS.*Series.*to_frame"),
        (lambda: polars.LazyFrame({"c": [1]}), "PROJSEG_BAD_ROWS.*LazyFrame.*give its collect"),
        (lambda: pa.array([1]), "PROJSEG_BAD_ROWS"),
        (lambda: pa.chunked_array([[1]]), "PROJSEG_BAD_ROWS.*ChunkedArray"),
        (
            lambda: polars.DataFrame({"a": [1], "c": polars.Series([1], dtype=polars.Int128)}),
            "PROJSEG_BAD_ROWS.*column 'c' of type Int128",
        ),
        (
            lambda: polars.DataFrame({"c": polars.Series([object()], dtype=polars.Object)}),
            "PROJSEG_BAD_ROWS.*column 'c' holds objects of Python",
        ),
        (
            lambda: pandas.DataFrame([[1, 2]], columns=["c", "c"]),
            "PROJSEG_SCHEMA_MISMATCH.*column 'c' stands twice.*rename",
        ),
        (lambda: {1: [1], "1": [2]}, "PROJSEG_SCHEMA_MISMATCH.*column '1' stands twice"),
        (
            lambda: pandas.DataFrame({"c": [datetime.timedelta(1)]}),
            r"PROJSEG_UNSUPPORTED_TYPE.*column 'c': type duration",
        ),
        (
            lambda: pandas.DataFrame({"c": [pandas.Period("2024-05")]}),
            "PROJSEG_UNSUPPORTED_TYPE.*column 'c'",
        ),
        (lambda: pandas.DataFrame({"c": [1j]}), "PROJSEG_SCHEMA_MISMATCH.*column 'c'"),
        (
            lambda: pa.table({"c": pa.array([Decimal(1)], pa.decimal256(60, 2))}),
            "PROJSEG_UNSUPPORTED_TYPE.*column 'c'.*60 digits.*at most 38",
        ),
        (
            lambda: pa.table({"c": pa.array([[NAIVE[0]]])}),
            r"PROJSEG_SCHEMA_MISMATCH.*column 'c' holds array<timestamp_ntz>",
        ),
        (lambda: duckdb.sql("SELECT INTERVAL 1 DAY AS c"), "PROJSEG_UNSUPPORTED_TYPE.*column 'c'"),
    ],
)
@pytest.mark.parametrize("verb", ["append", "overwrite", "merge"])
def test_a_frame_that_no_table_holds_is_refused_by_column(tmp_path, verb, rows, words):
    table = projseg.Table.create(tmp_path / "t", {"a": "int", "c": "array<timestamp>", "1": "int"})
    with pytest.raises(ProjsegError, match=words):
        getattr(table, verb)(rows(), **({"on": ["a"]} if verb == "merge" else {}))
    assert table.refresh().version == 0


@pytest.mark.parametrize("column", ["c", "C"])
@pytest.mark.parametrize("library", ["pandas", "arrow"])
@pytest.mark.parametrize("verb", ["append", "overwrite", "merge", "create"])
def test_a_column_that_stands_twice_is_named(tmp_path, verb, library, column):
    rows = pandas.DataFrame([[1, 2, 3]], columns=["a", "c", column])
    if library == "arrow":
        rows = pa.table([[1], [2], [3]], names=rows.columns)
    table = projseg.Table.create(tmp_path / "t", {"a": "int", "c": "int"})
    write = {
        "append": table.append,
        "overwrite": table.overwrite,
        "merge": partial(table.merge, on=["a"]),
        "create": lambda rows: projseg.Table.create(tmp_path / "new", data=rows),
    }[verb]
    words = f"column '{column}' (stands|was declared) twice"
    with pytest.raises(InvalidInputError, match=words):
        write(rows)
    assert table.refresh().version == 0
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "rows",
    [
        polars.Series("c", [1]),
        pandas.Series([1], name="c"),
        polars.DataFrame({"c": [1]}).cast(polars.Int128),
        pandas.DataFrame({"c": [1j]}),
        pandas.DataFrame({"c": [pandas.Period("2024-05")]}),
        pa.chunked_array([[1]]),
    ],
    ids=["series", "series of pandas", "wide integers", "complex", "periods", "array"],
)
def test_no_table_is_made_of_a_frame_that_none_holds(tmp_path, rows):
    with pytest.raises(ProjsegError):
        projseg.Table.create(tmp_path / "t", data=rows)
    assert not (tmp_path / "t").exists()


ZONED = [time.replace(tzinfo=datetime.UTC) for time in NAIVE]


@pytest.mark.parametrize(
    ("frame", "remedy"),
    [
        (
            pandas.DataFrame({"ts": ZONED}),
            lambda frame: frame.assign(ts=frame["ts"].dt.tz_localize(None)),
        ),
        (
            polars.DataFrame({"ts": ZONED}),
            lambda frame: frame.with_columns(polars.col("ts").dt.replace_time_zone(None)),
        ),
    ],
    ids=["pandas", "polars"],
)
def test_times_of_a_zone_say_what_to_do(tmp_path, frame, remedy):
    table = projseg.Table.create(tmp_path / "t", {"ts": "timestamp_ntz"})
    with pytest.raises(InvalidInputError) as refused:
        table.append(frame)
    named = "dt.tz_localize(None)" if "pandas" in type(frame).__module__ else "replace_time_zone"
    assert named in refused.value.message
    table.append(remedy(frame))
    assert table.query()["ts"].to_pylist() == NAIVE


@pytest.mark.parametrize(
    ("frame", "remedy"),
    [
        (
            pandas.DataFrame({"ts": NAIVE}),
            lambda frame: frame.assign(ts=frame["ts"].dt.tz_localize("UTC")),
        ),
        (
            polars.DataFrame({"ts": NAIVE}),
            lambda frame: frame.with_columns(polars.col("ts").dt.replace_time_zone("UTC")),
        ),
    ],
    ids=["pandas", "polars"],
)
def test_times_without_a_zone_say_what_to_do(tmp_path, frame, remedy):
    table = projseg.Table.create(tmp_path / "t", {"ts": "timestamp"})
    with pytest.raises(InvalidInputError) as refused:
        table.append(frame)
    named = "dt.tz_localize('UTC')" if "pandas" in type(frame).__module__ else "replace_time_zone"
    assert named in refused.value.message
    assert "timestamp_ntz" in refused.value.message
    table.append(remedy(frame))
    assert table.query()["ts"].to_pylist() == ZONED


def test_finer_times_say_how_to_round_them(tmp_path):
    times = pandas.to_datetime(["2024-05-01T00:00:00.123456789"]).as_unit("ns")
    frame = pandas.DataFrame({"ts": times})
    table = projseg.Table.create(tmp_path / "t", {"ts": "timestamp_ntz"})
    with pytest.raises(InvalidInputError, match=re.escape("dt.floor('us')")):
        table.append(frame)
    table.append(frame.assign(ts=frame["ts"].dt.floor("us")))
    assert table.query()["ts"].to_pylist() == [datetime.datetime(2024, 5, 1, 0, 0, 0, 123456)]


@pytest.mark.parametrize(
    "rows",
    [
        pandas.DataFrame({"time": NAIVE, "n": [1, 2], "none": [None, None]}),
        pandas.DataFrame({"n": [1, 2], "none": [None, None]}, pandas.Index(NAIVE, name="time")),
        polars.DataFrame({"time": NAIVE, "n": [1, 2], "none": [None, None]}),
        {"time": NAIVE, "n": [1, 2], "none": [None, None]},
        [{"time": time, "n": n, "none": None} for time, n in zip(NAIVE, [1, 2], strict=True)],
    ],
    ids=["pandas", "index of pandas", "polars", "dict", "dicts"],
)
def test_a_table_is_made_of_a_frame_alone(tmp_path, rows):
    table = projseg.Table.create(
        tmp_path / "t", data=rows, time_column="time", segment_granularity="day"
    )
    assert table.schema == pa.schema(
        [("time", pa.timestamp("us")), ("n", pa.int64()), ("none", pa.string())]
    )
    found = table.query(columns="time, n, none", order_by="n").to_pylist()
    assert found == [{"time": time, "n": n + 1, "none": None} for n, time in enumerate(NAIVE)]


def test_a_relation_and_a_reader_make_a_table(tmp_path):
    relation = duckdb.sql("SELECT range AS n, 'v' || range AS v FROM range(5000)")
    table = projseg.Table.create(tmp_path / "relation", data=relation)
    assert table.query(aggregators="count(*) AS c").to_pylist() == [{"c": 5000}]
    reader = pa.table({"n": [1, 2]}).to_reader(max_chunksize=1)
    assert projseg.Table.create(tmp_path / "reader", data=reader).query().num_rows == 2


@pytest.mark.parametrize("rows", [[], {}, pandas.DataFrame(), None])
def test_rows_without_columns_make_no_table(tmp_path, rows):
    with pytest.raises(InvalidInputError, match=r"PROJSEG_BAD_(ROWS|SCHEMA)"):
        projseg.Table.create(tmp_path / "t", data=rows)
    assert not (tmp_path / "t").exists()


def test_an_error_within_a_stream_is_one_of_rows(tmp_path):
    table = projseg.Table.create(tmp_path / "t", {"n": "int"})
    broken = duckdb.sql("SELECT CAST(if(range = 9000, 'x', '1') AS INT) AS n FROM range(10000)")
    with pytest.raises(ProjsegError, match="Could not convert string"):
        table.append(broken)
    assert table.refresh().version == 0
