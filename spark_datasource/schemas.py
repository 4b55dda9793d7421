"""Spark's types and Arrow's, both ways; the session's time zone, as Python processes know it."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkTypeError
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema

from projseg.errors import InvalidInputError, UnsupportedFeatureError
from projseg.segment_format.logical_types import normal_type, type_name

# Spark before 4.2 uses UTC by default; later releases take the zone as an argument.
_IN_UTC: Final[dict[str, Any]] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
)
_SPARK_TYPE_BY_NAME: Final[dict[str, type[spark_types.DataType]]] = {
    "boolean": spark_types.BooleanType,
    "tinyint": spark_types.ByteType,
    "smallint": spark_types.ShortType,
    "int": spark_types.IntegerType,
    "bigint": spark_types.LongType,
    "float": spark_types.FloatType,
    "double": spark_types.DoubleType,
    "string": spark_types.StringType,
    "binary": spark_types.BinaryType,
    "date": spark_types.DateType,
    "timestamp": spark_types.TimestampType,
    "timestamp_ntz": spark_types.TimestampNTZType,
    "void": spark_types.NullType,
}


def spark_type(arrow_type: pa.DataType) -> spark_types.DataType:
    """Return the Spark type of a stored Arrow type.

    Raises
    ------
    UnsupportedFeatureError
        If projseg stores no such type.
    """
    if pa.types.is_decimal128(arrow_type):
        return spark_types.DecimalType(arrow_type.precision, arrow_type.scale)
    if pa.types.is_list(arrow_type):
        return spark_types.ArrayType(spark_type(arrow_type.value_type))
    if pa.types.is_map(arrow_type):
        return spark_types.MapType(
            spark_type(arrow_type.key_type), spark_type(arrow_type.item_type)
        )
    if pa.types.is_struct(arrow_type):
        return spark_schema(pa.schema(list(arrow_type)))
    return _SPARK_TYPE_BY_NAME[type_name(arrow_type)]()


def spark_schema(schema: pa.Schema) -> spark_types.StructType:
    """Return the Spark schema of stored columns; every column may hold nulls."""
    return spark_types.StructType(
        [spark_types.StructField(field.name, spark_type(field.type)) for field in schema]
    )


def transfer_schema(schema: spark_types.StructType) -> pa.Schema:
    """Return the Arrow schema that Spark exchanges for `schema`, in UTC.

    Raises
    ------
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_TYPE if Spark itself cannot exchange a type.
    """
    try:
        return to_arrow_schema(schema, **_IN_UTC)
    except PySparkTypeError as error:
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_TYPE", f"a column cannot be exchanged through Arrow: {error}"
        ) from error


def stored_schema(schema: spark_types.StructType) -> pa.Schema:
    """Return the schema that projseg stores for a Spark schema; nullability is not kept.

    Raises
    ------
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_TYPE, naming the column.
    """
    fields = []
    for field in transfer_schema(schema):
        try:
            fields.append(pa.field(field.name, normal_type(field.type)))
        except UnsupportedFeatureError as error:
            raise UnsupportedFeatureError(
                error.code, f"column '{field.name}': {error.message}"
            ) from error
    return pa.schema(fields)


# The session's time zone, as far as Spark's Python processes can know it.
#
# Planning in the driver sees no setting of the session. A task does: Spark sends it every setting
# that was made on the session, but not the Java machine's own zone where none was set.

SESSION_ZONE: Final = "spark.sql.session.timeZone"
# Two zones whose clocks never agree to the second: a result equal in both is equal in any.
_UNLIKE_ZONES: Final = ("UTC", "+11:37:13")


def depends_on_zone(meaning: Callable[[str], object]) -> bool:
    """Return whether a result depends on the time zone.

    Parameters
    ----------
    meaning : callable
        Computes the result in a given zone; results are compared by equality.
    """
    one, other = map(meaning, _UNLIKE_ZONES)
    return one != other


def zone_of_task() -> str:
    """Return the time zone of the session that runs the task that this is called in.

    Raises
    ------
    InvalidInputError
        PROJSEG_TIME_ZONE_MISSING if Spark did not send it.
    """
    context = TaskContext.get()
    zone = None if context is None else context.getLocalProperty(SESSION_ZONE)
    if zone is None:
        raise InvalidInputError(
            "PROJSEG_TIME_ZONE_MISSING",
            "the answer depends on the session's time zone, and Spark tells its tasks only one "
            f"that was set; set {SESSION_ZONE} on the session, or give option 'timezone'",
        )
    return zone


def zone_missing(option: str, text: str) -> InvalidInputError:
    """Return the error for an option's time that names no zone, where none can be known."""
    return InvalidInputError(
        "PROJSEG_TIME_ZONE_MISSING",
        f"option '{option}' is '{text}', which depends on the session's time zone, and Spark does "
        "not tell it here; give option 'timezone', or write offsets, such as 2015-09-12T00:00Z",
    )
