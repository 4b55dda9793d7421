"""What a table may be declared as, and what later options may say."""

import datetime
import pickle

import msgspec
import pyarrow as pa
import pytest
from small_tables import HOURLY, SCHEMA, small_properties

import projseg
from projseg.errors import InvalidInputError, UnsupportedFeatureError
from projseg.table_layer.metadata.metadata_limits import (
    COLUMNS_MAX,
    NAME_BYTES_MAX,
    PROJECTIONS_MAX,
)
from projseg.table_layer.metadata.table_properties import (
    ProjectionDeclaration,
    TableProperties,
    check_options,
    check_properties,
    columns_of,
)
from projseg.table_layer.storage.locate_storage import open_storage

NESTED = pa.schema(
    [
        ("time", pa.timestamp("ns", tz="Europe/Berlin")),
        ("tags", pa.list_(pa.large_string())),
        ("point", pa.struct([("x", pa.float64()), ("odd name`,", pa.int8())])),
        ("by_key", pa.map_(pa.string(), pa.decimal128(38, 3))),
        ("größe", pa.uint32()),
    ]
)


def test_the_schema_comes_back_in_normal_types():
    properties = TableProperties.declare(NESTED, time_column="time")
    properties = msgspec.json.decode(msgspec.json.encode(properties), type=TableProperties)
    assert properties.schema == pa.schema(
        [
            ("time", pa.timestamp("us", tz="UTC")),
            ("tags", pa.list_(pa.string())),
            ("point", pa.struct([("x", pa.float64()), ("odd name`,", pa.int8())])),
            ("by_key", pa.map_(pa.string(), pa.decimal128(38, 3))),
            ("größe", pa.int64()),
        ]
    )
    assert columns_of(properties.schema) == properties.columns
    assert properties == pickle.loads(pickle.dumps(properties))
    assert properties.table_id != TableProperties.declare(NESTED).table_id


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"time_column": "tiem"}, "PROJSEG_UNKNOWN_COLUMN.*did you mean 'time'"),
        ({"time_column": "added"}, "PROJSEG_BAD_TIME_COLUMN"),
        ({"time_column": None, "segment_granularity": "day"}, "PROJSEG_BAD_TIME_COLUMN"),
        ({"segment_granularity": "fortnightly"}, "PROJSEG_BAD_GRANULARITY"),
        ({"cluster_by": ["chanel"]}, "PROJSEG_UNKNOWN_COLUMN.*did you mean 'channel'"),
        ({"target_segment_rows": 0}, "PROJSEG_BAD_OPTION"),
        ({"target_segment_rows": 2**32}, "PROJSEG_BAD_OPTION"),
        ({"projections": [HOURLY, HOURLY]}, "PROJSEG_DUPLICATE_NAME"),
        ({"projections": [ProjectionDeclaration("", "a" * 32, "{}")]}, "PROJSEG_BAD_NAME"),
    ],
)
def test_options_that_cannot_be(options, code):
    with pytest.raises(InvalidInputError, match=code):
        small_properties(**options)


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ([], "PROJSEG_EMPTY_SCHEMA"),
        (["a", "a"], "PROJSEG_DUPLICATE_NAME"),
        (["page", "Page"], "PROJSEG_DUPLICATE_NAME"),
        ([""], "PROJSEG_BAD_NAME.*is empty"),
        (["a\0"], "PROJSEG_BAD_NAME.*control"),
        (["a\n"], "PROJSEG_BAD_NAME.*control"),
        (["u\u0308"], "PROJSEG_BAD_NAME.*NFC"),
        (["ü" * (NAME_BYTES_MAX // 2 + 1)], "PROJSEG_BAD_NAME.*256 bytes"),
        ([f"c{i}" for i in range(COLUMNS_MAX + 1)], "PROJSEG_TOO_MANY_NAMES"),
    ],
)
def test_column_names_that_cannot_be(names, code):
    schema = pa.schema([(name, pa.int64()) for name in names])
    with pytest.raises(InvalidInputError, match=code):
        TableProperties.declare(schema)


def test_limits_are_reachable():
    names = [f"c{i}" for i in range(COLUMNS_MAX - 1)] + ["x" * NAME_BYTES_MAX]
    schema = pa.schema([(name, pa.int64()) for name in names])
    assert (
        len(TableProperties.declare(schema, target_segment_rows=2**32 - 1).columns) == COLUMNS_MAX
    )


def test_types_that_cannot_be_stored():
    with pytest.raises(UnsupportedFeatureError):
        TableProperties.declare(pa.schema([("t", pa.duration("us"))]))


def test_nested_cluster_columns_are_refused():
    with pytest.raises(InvalidInputError, match="PROJSEG_NESTED_CLUSTER_COLUMN"):
        TableProperties.declare(NESTED, cluster_by=["tags"])


def test_options_given_later():
    properties = small_properties(cluster_by=("channel",), properties={"owner": "us"})
    check_options(properties)
    check_options(
        properties,
        time_column="time",
        segment_granularity="HOUR",
        cluster_by=["channel"],
        target_segment_rows=None,
        properties={"owner": "us"},
    )
    for option, value in [
        ("time_column", "added"),
        ("segment_granularity", "day"),
        ("cluster_by", ["channel", "added"]),
        ("cluster_by", []),
        ("target_segment_rows", 5),
        ("properties", {"owner": "them"}),
        ("properties", {"purpose": "new"}),
    ]:
        with pytest.raises(InvalidInputError, match="PROJSEG_OPTION_CONTRADICTS_TABLE"):
            check_options(properties, **{option: value})
    with pytest.raises(InvalidInputError, match="did you mean 'cluster_by'"):
        check_options(properties, clusterby=["channel"])


def test_what_travels_to_executors_is_small_and_picklable(tmp_path):
    storage = open_storage(tmp_path)
    assert pickle.loads(pickle.dumps(storage)) == storage
    assert len(pickle.dumps(storage)) < 400
    assert small_properties().schema == SCHEMA


def test_a_stored_table_may_declare_more_than_can_be_declared_now():
    many = [ProjectionDeclaration(f"p{n}", f"{n:032x}", "{}") for n in range(PROJECTIONS_MAX + 1)]
    with pytest.raises(InvalidInputError, match="PROJSEG_TOO_MANY_NAMES"):
        small_properties(projections=many)
    check_properties(msgspec.structs.replace(small_properties(), projections=tuple(many)))


@pytest.mark.parametrize("respelled", [str.upper, str.lower, str.swapcase, str])
def test_columns_of_options_are_named_in_any_case(tmp_path, respelled):
    time, page = respelled("Time"), respelled("Page")
    declaration = {"name": "p", "group_by": [page], "aggregators": [f"max({time}) AS last"]}
    given = {"time_column": time, "segment_granularity": "day", "cluster_by": [page]}
    table = projseg.Table.create(
        tmp_path / "t",
        {"Page": "string", "Time": "timestamp_ntz"},
        projections=[declaration],
        indexes=[projseg.Index("i", page)],
        **given,
    )
    properties = table.properties
    assert (properties.time_column, properties.cluster_by) == ("Time", ("Page",))
    check_options(properties, **given)
    noon = datetime.datetime(2024, 5, 1, 12)
    table.append({"Time": [noon, noon], "page": ["b", "a"]})
    assert table.query(interval="2024-05-01/2024-05-02")["Page"].to_pylist() == ["a", "b"]
    assert table.query(columns="TIME", limit=1)["Time"].to_pylist() == [noon]
    assert table.verify() == []


def test_an_order_that_names_a_column_in_two_cases_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="PROJSEG_DUPLICATE_NAME"):
        projseg.Table.create(tmp_path / "t", {"Page": "string"}, cluster_by=["page", "PAGE"])
