"""Spark's types and Arrow's, both ways; batches of the columns that Spark wants; its time zone.

Spark checks only the first batch of a scan; a later one of another type crashes the JVM. So every
batch passes through `shape_batch`.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, Final, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkTypeError
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema

from projseg.errors import InvalidInputError, UnsupportedFeatureError, did_you_mean
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import (
    DOUBLE_DIGITS,
    INTEGER_DIGITS,
    normal_type,
    type_name,
)

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

# Planning in the driver sees no setting of the session. A task does: Spark sends it every setting
# that was made on the session, but not the Java machine's own zone where none was set.
SESSION_ZONE: Final = "spark.sql.session.timeZone"
# Two zones whose clocks never agree to the second: a result equal in both is equal in any.
_UNLIKE_ZONES: Final = ("UTC", "+11:37:13")


def spark_type(arrow_type: pa.DataType) -> spark_types.DataType:
    """Return the Spark type of a stored Arrow type."""
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
    """Return the Arrow schema that Spark exchanges for `schema`, in UTC."""
    try:
        return to_arrow_schema(schema, **_IN_UTC)
    except (PySparkTypeError, ValueError) as error:  # the latter for a map whose keys are void
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_TYPE", f"a column cannot be exchanged through Arrow: {error}"
        ) from error


def _nullable(kind: spark_types.DataType) -> spark_types.DataType:
    """Return the type with nulls allowed everywhere: `array()` is of void without nulls."""
    if isinstance(kind, spark_types.ArrayType):
        return spark_types.ArrayType(_nullable(kind.elementType))
    if isinstance(kind, spark_types.MapType):
        return spark_types.MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    if isinstance(kind, spark_types.StructType):
        return spark_types.StructType(
            [spark_types.StructField(field.name, _nullable(field.dataType)) for field in kind]
        )
    return kind


def stored_schema(schema: spark_types.StructType) -> pa.Schema:
    """Return the schema that projseg stores for a Spark schema; nullability is not kept."""
    fields = []
    for field in transfer_schema(cast("spark_types.StructType", _nullable(schema))):
        try:
            fields.append(pa.field(field.name, normal_type(field.type)))
        except UnsupportedFeatureError as error:
            raise UnsupportedFeatureError(
                error.code, f"column '{field.name}': {error.message}"
            ) from error
    return pa.schema(fields)


def check_wanted(answer: pa.Schema, wanted: pa.Schema, *, fills_missing: bool) -> None:
    """Refuse wanted columns that the answer lacks, unless these are null, or has with another type.

    A wanted type may be wider than the answer's if every value stays the same. Any other change is
    a cast, which is left to Spark.
    """
    positions = _positions(wanted.names, answer.names)
    for field, position in zip(wanted, positions, strict=True):
        if position is None:
            if fills_missing:
                continue
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_COLUMN",
                f"column '{field.name}' is not in the answer, whose columns are "
                f"{', '.join(answer.names)}{did_you_mean(field.name, answer.names)}; leave it out "
                "of the schema, or set option fillMissingColumns to 'true' to read it as null",
            )
        found = answer.field(position).type
        if not _holds(found, normal_type(field.type)):
            raise InvalidInputError(
                "PROJSEG_SCHEMA_MISMATCH",
                f"column '{field.name}' is {type_name(found)}, not "
                f"{type_name(normal_type(field.type))}; read it as it is and cast it in the query",
            )


def _holds(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of `found` is one of `wanted`, and looks the same there."""
    if found == wanted:
        return True
    if found in INTEGER_DIGITS:
        digits = INTEGER_DIGITS[found]
        if pa.types.is_decimal(wanted):
            return bool(wanted.precision - wanted.scale >= digits)
        is_double = wanted == pa.float64() and digits <= DOUBLE_DIGITS
        return is_double or digits < INTEGER_DIGITS.get(wanted, 0)
    if pa.types.is_decimal(found) and pa.types.is_decimal(wanted):
        whole = found.precision - found.scale
        return bool(wanted.scale >= found.scale and wanted.precision - wanted.scale >= whole)
    return bool(found == pa.float32() and wanted == pa.float64())


def _positions(names: list[str], known: list[str]) -> list[int | None]:
    """Return where each name stands among `known`: as it is spelt, else without regard to case."""
    folded = {name_key(name): index for index, name in reversed(list(enumerate(known)))}
    exact = {name: index for index, name in enumerate(known)}
    return [exact.get(name, folded.get(name_key(name))) for name in names]


def shape_batch(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Return the columns of `target`, in its order and exact types; a column not there is null.

    Names match as in Spark, without regard to case.
    """
    if not target.names:
        return batch.select([])  # unlike a batch made of no arrays, it keeps the count of rows
    arrays = []
    for field, position in zip(target, _positions(target.names, batch.schema.names), strict=True):
        if position is None:
            array = pa.nulls(batch.num_rows, field.type)
        else:
            array = _cast(batch.column(position), field)
        _check_nulls(array, field, field.name)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _check_nulls(array: pa.Array, field: pa.Field, column: str) -> None:
    """Refuse nulls in a column that Spark takes as NOT NULL: it would not check for them."""
    if array.null_count and not field.nullable:
        raise InvalidInputError(
            "PROJSEG_SCHEMA_MISMATCH",
            f"column '{column}' holds nulls and the schema given says NOT NULL; leave that out",
        )
    if not pa.types.is_nested(field.type):
        return
    values = array.drop_null()
    if pa.types.is_struct(field.type):
        children = [(values.field(index), part) for index, part in enumerate(field.type)]
    elif pa.types.is_map(field.type):
        children = [(values.items, field.type.item_field)]
    else:
        children = [(values.flatten(), field.type.value_field)]
    for child, part in children:
        _check_nulls(child, part, column)


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    if array.type == field.type:
        return array
    try:
        return array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            "PROJSEG_SCHEMA_MISMATCH",
            f"column '{field.name}' is stored as {array.type} and does not fit the {field.type} "
            f"asked for: {str(error).splitlines()[0]}",
        ) from error


def depends_on_zone(meaning: Callable[[str], object]) -> bool:
    """Return whether a result, which `meaning` computes in a zone, depends on the time zone."""
    one, other = map(meaning, _UNLIKE_ZONES)
    return one != other


def zone_of_task() -> str:
    """Return the time zone of the session that runs the task that this is called in."""
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
