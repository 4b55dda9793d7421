"""Check once which columns Spark wants, then give every batch exactly these columns.

Spark checks only the first batch of a scan; a later one of another type crashes the JVM. So every
batch passes through `shape_batch`.
"""

from __future__ import annotations

import pyarrow as pa

from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.logical_types import (
    DOUBLE_DIGITS,
    INTEGER_DIGITS,
    normal_type,
    type_name,
)


def check_wanted(answer: pa.Schema, wanted: pa.Schema, *, fills_missing: bool) -> None:
    """Refuse wanted columns that the answer lacks, or has with another type.

    A wanted type may be wider than the answer's if every value stays the same. Any other change is
    a cast, which is left to Spark.

    Parameters
    ----------
    answer : Schema
        The columns as the table or the query has them.
    wanted : Schema
        The columns that Spark asks for: the caller's own schema, or a catalog table's.
    fills_missing : bool
        Whether a column that the answer lacks is null instead of refused.

    Raises
    ------
    InvalidInputError
        PROJSEG_UNKNOWN_COLUMN or PROJSEG_SCHEMA_MISMATCH.
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
    folded = {name.casefold(): index for index, name in reversed(list(enumerate(known)))}
    exact = {name: index for index, name in enumerate(known)}
    return [exact.get(name, folded.get(name.casefold())) for name in names]


def shape_batch(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Return the columns of `target`, in its order and exact types; a column not there is null.

    Names match as in Spark, without regard to case.

    Parameters
    ----------
    batch : RecordBatch
        Columns by name; more than `target` names may be there.
    target : Schema
        A schema that `check_wanted` accepted.

    Raises
    ------
    InvalidInputError
        PROJSEG_SCHEMA_MISMATCH for a null where `target` has none.
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
