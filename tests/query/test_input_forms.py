"""The forms in which rows and schemas may be given, and what is said of those that hold none."""

import datetime
from decimal import Decimal

import duckdb
import numpy as np
import pandas
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import projseg
from projseg.declarations import schema_of
from projseg.errors import InvalidInputError, ProjsegError
from projseg.input_rows import batches_of

SCHEMA = {
    "time": "timestamp",
    "name": "STRING",
    "n": "int",
    "x": "double",
    "f": pa.float32(),
    "d": "decimal(10, 2)",
    "flag": "boolean",
    "day": "date",
    "tags": "array<string>",
    "by_key": "map<string, long>",
}
NOON = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
ROWS = [
    {"time": NOON, "name": "a", "n": 1, "x": 1, "f": 0.5, "d": Decimal("1.25"), "flag": True,
     "day": datetime.date(2024, 5, 1), "tags": ["p", "q"], "by_key": [("k", 1)]},
    {"time": NOON, "name": None, "n": None, "x": 2.5, "f": None, "d": 3, "flag": False,
     "day": None, "tags": [], "by_key": None},
    {"time": NOON, "name": "c", "n": -7, "x": None},
]  # fmt: skip
EXPECTED = [
    {**dict.fromkeys(SCHEMA), **row, "d": None if "d" not in row else Decimal(row["d"])}
    for row in ROWS
]


def table_at(path, schema=SCHEMA):
    return projseg.Table.create(path / "t", schema, time_column="time")


def columns_of(rows):
    return {name: [row.get(name) for row in rows] for name in SCHEMA}


def kept(table):
    rows = table.query(columns=list(SCHEMA)).to_pylist()
    return sorted(rows, key=lambda row: [row["x"] is None, row["x"]])


def arrow():
    return pa.Table.from_batches(batches_of(ROWS, schema_of(SCHEMA)))


class Stream:
    """What polars, DuckDB and others offer."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


FORMS = {
    "list of dicts": lambda: ROWS,
    "tuple of dicts": lambda: tuple(ROWS),
    "iterator of dicts": lambda: iter(ROWS),
    "dict of lists": lambda: columns_of(ROWS),
    "dict of Arrow arrays": lambda: dict(zip(arrow().column_names, arrow().columns, strict=True)),
    "Table": arrow,
    "RecordBatch": lambda: arrow().combine_chunks().to_batches()[0],
    "RecordBatchReader": lambda: arrow().to_reader(),
    "iterator of batches": lambda: iter(arrow().to_batches()),
    "list of tables": lambda: [arrow()],
    "Arrow stream": lambda: Stream(arrow()),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_keeps_the_same_rows(tmp_path, form):
    table = table_at(tmp_path)
    assert table.append(FORMS[form]()).rows == 3
    assert kept(table) == EXPECTED
    table.overwrite(FORMS[form]())
    assert kept(table) == EXPECTED


def test_a_table_is_made_of_python_values_alone(tmp_path):
    table = projseg.Table.create(tmp_path / "t", {"a": "bigint"}, data={"a": [1, 2]})
    table.append({"a": [1]})
    table.append([{"a": 5}, {}])
    assert table.query(aggregators="count(*) AS c, sum(a) AS s").to_pylist() == [{"c": 5, "s": 9}]


def test_a_relation_of_duckdb_is_rows(tmp_path):
    table = projseg.Table.create(tmp_path / "t", {"a": "bigint", "b": "string"})
    table.append(duckdb.sql("SELECT range AS a, 'v' || range AS b FROM range(5000)"))
    assert table.query(aggregators="count(DISTINCT b) AS b").to_pylist() == [{"b": 5000}]


def test_rows_of_many_dicts_come_in_batches(tmp_path):
    table = projseg.Table.create(tmp_path / "t", {"a": "bigint"})
    count = 150_000
    assert table.append({"a": n} for n in range(count)).rows == count
    assert table.query(aggregators="sum(a) AS a").to_pylist() == [{"a": count * (count - 1) // 2}]


def test_numpy_arrays_are_columns(tmp_path):
    table = projseg.Table.create(tmp_path / "t", {"a": "int", "b": "float", "c": "double"})
    table.append({"a": np.arange(3), "b": np.ones(3) / 2, "c": np.arange(3)})
    assert table.query(aggregators="sum(a), sum(b), sum(c)").to_pylist()[0] == {
        "sum(a)": 3, "sum(b)": 1.5, "sum(c)": 3.0
    }  # fmt: skip


def test_a_pandas_frame_is_rows(tmp_path):
    frame = pandas.DataFrame(
        {"name": ["a", None], "n": [1, None], "x": [0.5, float("nan")]},
        index=pandas.Index(pandas.to_datetime(["2024-05-01", "2024-05-02"], utc=True), name="time"),
    )
    table = projseg.Table.create(
        tmp_path / "t", {"time": "timestamp", "name": "string", "n": "int", "x": "double"}
    )
    table.append(frame)
    table.append(frame.reset_index())
    rows = sorted(table.query(columns="name, n, x").to_pylist(), key=str)
    assert rows == [{"name": "a", "n": 1, "x": 0.5}] * 2 + [dict.fromkeys(["name", "n", "x"])] * 2


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"n": 1}, "PROJSEG_BAD_ROWS.*column 'n' holds a int where a list"),
        ({"name": "text"}, "PROJSEG_BAD_ROWS.*column 'name' holds a str"),
        ({"n": [1, 2], "x": [1.0]}, "PROJSEG_BAD_ROWS.*'x' has 1 values and column 'n' 2"),
        ("text", "PROJSEG_BAD_ROWS.*str holds no rows; give a pyarrow Table"),
        (7, "PROJSEG_BAD_ROWS.*int holds no rows"),
        (None, "PROJSEG_BAD_ROWS.*NoneType holds no rows"),
        ([1, 2], "PROJSEG_BAD_ROWS.*iterable of int holds no rows"),
        ([{"n": 1}, 2], "PROJSEG_BAD_ROWS.*iterable of mappings and int"),
        ([("a", 1)], "PROJSEG_BAD_ROWS.*iterable of tuple"),
        ({"n": [1.5]}, "PROJSEG_SCHEMA_MISMATCH.*'n' holds double, the table's is int"),
        ({"n": ["1"]}, "PROJSEG_SCHEMA_MISMATCH.*'n' holds string, the table's is int"),
        ({"n": [2**40]}, "PROJSEG_SCHEMA_MISMATCH.*'n' holds a value that is no int"),
        ({"n": [2**70]}, "PROJSEG_SCHEMA_MISMATCH"),
        ({"n": [True]}, "PROJSEG_SCHEMA_MISMATCH.*'n' holds boolean"),
        ({"n": [1, "a"]}, "PROJSEG_SCHEMA_MISMATCH.*not all of int"),
        ({"n": np.array([1.5])}, "PROJSEG_SCHEMA_MISMATCH"),
        ({"x": [2**53 + 1]}, "PROJSEG_SCHEMA_MISMATCH.*'x'"),
        ({"x": [True]}, "PROJSEG_SCHEMA_MISMATCH.*'x' holds boolean"),
        ({"f": [1e300]}, "PROJSEG_SCHEMA_MISMATCH.*'f'.*too large for float"),
        ({"d": [0.1]}, "PROJSEG_SCHEMA_MISMATCH.*'d' holds double"),
        ({"d": [Decimal("0.001")]}, "PROJSEG_SCHEMA_MISMATCH.*'d'"),
        ({"name": [b"a"]}, "PROJSEG_SCHEMA_MISMATCH.*'name' holds binary"),
        ({"name": ["a", b"a"]}, "PROJSEG_SCHEMA_MISMATCH.*'name' holds.*text stands among binary"),
        ({"time": [NOON.replace(tzinfo=None)]}, "PROJSEG_SCHEMA_MISMATCH.*timestamp_ntz"),
        ({"day": [NOON]}, "PROJSEG_SCHEMA_MISMATCH.*'day' holds timestamp"),
        ({"nam": ["a"]}, "PROJSEG_SCHEMA_MISMATCH.*did you mean 'name'"),
    ],
)
def test_what_holds_no_rows_of_the_table_is_refused(tmp_path, rows, words):
    table = projseg.Table.create(tmp_path / "t", SCHEMA)
    with pytest.raises(InvalidInputError, match=words):
        table.append(rows)
    assert table.refresh().version == 0
    assert not (tmp_path / "t" / "data").exists()


NUMBERS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3),
    st.decimals(allow_nan=False, allow_infinity=False), st.binary(max_size=3),
)  # fmt: skip


@given(
    st.lists(NUMBERS, min_size=1, max_size=3),
    st.sampled_from(["int", "bigint", "double", "decimal(10,2)", "string", "boolean", "binary"]),
)
def test_a_value_is_kept_as_it_is_or_refused(tmp_path_factory, values, kind):
    location = tmp_path_factory.mktemp("forms") / "t"
    try:
        table = projseg.Table.create(location, {"v": kind}, data={"v": values})
    except ProjsegError:
        assert not projseg.is_table(location)
        return
    found = table.query(columns="v").column("v").to_pylist()
    assert [repr(v) if v != v else v for v in found] == [repr(v) if v != v else v for v in values]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"a": "strnig"}, "PROJSEG_BAD_TYPE_NAME.*column 'a'.*'strnig'"),
        ({"a": "interval day"}, "PROJSEG_BAD_TYPE_NAME.*interval day"),
        ({"a": "int) -- "}, "PROJSEG_BAD_TYPE_NAME"),
        ({"a": int}, "PROJSEG_BAD_TYPE_NAME.*column 'a'.*type"),
        ({1: "int"}, "PROJSEG_BAD_NAME"),
        (["a"], "PROJSEG_BAD_SCHEMA.*list; rows are given as data="),
        ("a int", "PROJSEG_BAD_SCHEMA.*str"),
        ({}, "PROJSEG_EMPTY_SCHEMA"),
    ],
)
def test_a_schema_that_is_none_is_refused(tmp_path, schema, words):
    with pytest.raises(InvalidInputError, match=words):
        projseg.Table.create(tmp_path / "t", schema)
    assert not (tmp_path / "t").exists()


def test_a_schema_in_words_is_one_of_types(tmp_path):
    words = projseg.Table.create(tmp_path / "words", SCHEMA)
    types = projseg.Table.create(tmp_path / "types", words.schema)
    assert words.schema == types.schema
    assert words.schema.field("by_key").type == pa.map_(pa.string(), pa.int64())
