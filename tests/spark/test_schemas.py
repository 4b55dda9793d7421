"""Types cross between Spark and the engine without loss, and batches fit Spark's demands."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from projseg.errors import InvalidInputError, UnsupportedFeatureError
from projseg.spark_datasource.schemas import (
    check_wanted,
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


def test_nulls_deep_inside_are_found_where_spark_was_told_of_none():
    stored = pa.schema(
        [
            ("list", pa.list_(pa.struct([("a", pa.int64())]))),
            ("map", pa.map_(pa.string(), pa.int64())),
        ]
    )
    asked = {
        "list": t.ArrayType(t.StructType([t.StructField("a", t.LongType(), nullable=False)])),
        "map": t.MapType(t.StringType(), t.LongType(), valueContainsNull=False),
    }
    values = {"list": [[{"a": 1}, None], None, [{"a": None}]], "map": [[("x", None)], None, []]}
    for name, kind in asked.items():
        target = transfer_schema(t.StructType([t.StructField(name, kind)]))
        one = pa.schema([stored.field(name)])
        sound = pa.table({name: values[name][1:2]}, schema=one).to_batches()[0]
        assert shape_batch(sound, target).num_rows == 1
        holed = pa.table({name: values[name]}, schema=one).to_batches()[0]
        with pytest.raises(InvalidInputError, match=f"'{name}'"):
            shape_batch(holed, target)


NUMBERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]
NUMBERS += [pa.decimal128(5, 2), pa.decimal128(10, 0), pa.decimal128(19, 0), pa.decimal128(38, 18)]
EXTREMES = {
    pa.int8(): [-(2**7), 2**7 - 1],
    pa.int16(): [-(2**15), 2**15 - 1],
    pa.int32(): [-(2**31), 2**31 - 1],
    pa.int64(): [-(2**63), 2**63 - 1, 2**53 + 1],
    pa.float32(): [0.10000000149011612, 3.4028234663852886e38],
    pa.float64(): [0.1, 1.7976931348623157e308],
    pa.decimal128(5, 2): [Decimal("999.99")],
    pa.decimal128(10, 0): [Decimal(10**10 - 1)],
    pa.decimal128(19, 0): [Decimal(10**19 - 1)],
    pa.decimal128(38, 18): [Decimal("0.123456789012345678"), Decimal(10**20 - 1)],
}


@pytest.mark.parametrize("wanted", NUMBERS, ids=str)
@pytest.mark.parametrize("found", NUMBERS, ids=str)
def test_a_type_is_wide_enough_only_if_its_extremes_survive(found, wanted):
    answer, asked = pa.schema([("n", found)]), pa.schema([("n", wanted)])
    try:
        check_wanted(answer, asked, fills_missing=False)
    except InvalidInputError:
        return
    values = pa.array(EXTREMES[found], found)
    shaped = shape_batch(pa.record_batch([values], ["n"]), asked).column(0)
    assert [Fraction(one) for one in shaped.to_pylist()] == [
        Fraction(one) for one in values.to_pylist()
    ]


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (pa.int8(), pa.int16()),
        (pa.int32(), pa.int64()),
        (pa.int32(), pa.float64()),
        (pa.int64(), pa.decimal128(19, 0)),
        (pa.float32(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(38, 18)),
    ],
    ids=str,
)
def test_a_wider_type_is_let_through(found, wanted):
    check_wanted(pa.schema([("n", found)]), pa.schema([("N", wanted)]), fills_missing=False)


def test_values_that_do_not_fit_are_an_error_that_names_the_column():
    batch = pa.record_batch([pa.array(["x"])], ["n"])
    asked = transfer_schema(t.StructType([t.StructField("n", t.LongType())]))
    with pytest.raises(InvalidInputError, match="column 'n'"):
        shape_batch(batch, asked)
