"""Types cross between Spark and the engine without loss, and batches fit Spark's demands."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from projseg.errors import InvalidInputError, UnsupportedFeatureError
from projseg.spark_datasource.schemas import (
    shape_batch,
    spark_schema,
    stored_schema,
    transfer_schema,
)

STORED = pa.schema(
    [
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("int", pa.int32()),
        ("big", pa.int64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("exact", pa.decimal128(38, 10)),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("day", pa.date32()),
        ("instant", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("list", pa.list_(pa.int64())),
        ("map", pa.map_(pa.string(), pa.list_(pa.float64()))),
        ("struct", pa.struct([("a", pa.int32()), ("b c", pa.string())])),
    ]
)


@pytest.mark.parametrize("field", list(STORED), ids=STORED.names)
def test_every_stored_type_survives_the_way_to_spark_and_back(field):
    one = pa.schema([field])
    assert stored_schema(spark_schema(one)).equals(one)


def test_timestamps_keep_their_meaning():
    fields = {f.name: f.dataType for f in spark_schema(STORED)}
    assert fields["instant"] == t.TimestampType()
    assert fields["local"] == t.TimestampNTZType()


def test_a_type_that_is_not_stored_is_refused_by_column_name():
    schema = t.StructType([t.StructField("gap", t.DayTimeIntervalType())])
    with pytest.raises(UnsupportedFeatureError, match="gap"):
        stored_schema(schema)


def test_a_batch_takes_the_exact_types_and_order_that_spark_asked_for():
    stored = pa.schema([("n", pa.int32()), ("list", pa.list_(pa.int64()))])
    batch = pa.record_batch([pa.array([1, None], pa.int32()), pa.array([[1], None])], stored)
    asked = t.StructType(
        [
            t.StructField("list", t.ArrayType(t.LongType())),
            t.StructField("later", t.StringType()),
            t.StructField("N", t.LongType()),
        ]
    )
    shaped = shape_batch(batch, transfer_schema(asked))
    assert shaped.schema.equals(transfer_schema(asked))
    assert shaped.to_pylist() == [
        {"list": [1], "later": None, "N": 1},
        {"list": None, "later": None, "N": None},
    ]


def test_nested_values_take_spark_nullability():
    batch = pa.record_batch([pa.array([[1, 2]], pa.list_(pa.int64()))], ["list"])
    asked = t.StructType([t.StructField("list", t.ArrayType(t.LongType(), containsNull=False))])
    assert shape_batch(batch, transfer_schema(asked)).schema.equals(transfer_schema(asked))


def test_values_that_do_not_fit_are_an_error_that_names_the_column():
    batch = pa.record_batch([pa.array(["x"])], ["n"])
    asked = transfer_schema(t.StructType([t.StructField("n", t.LongType())]))
    with pytest.raises(InvalidInputError, match="column 'n'"):
        shape_batch(batch, asked)
