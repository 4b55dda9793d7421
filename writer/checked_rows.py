"""Incoming batches, brought to the table's schema or refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.aggregates.result_types import DECIMAL_DIGITS_MAX
from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.logical_types import (
    DOUBLE_DIGITS,
    INTEGER_DIGITS,
    is_text,
    normal_type,
    type_name,
)
from projseg.segment_format.page_directory import may_widen
from projseg.writer.segment_contents import are_worth_threads

# Years 1 to 9999 in microseconds: what Spark's timestamps and ISO dates can say.
_TIME_MIN_US: Final = -62_135_596_800_000_000
_TIME_MAX_US: Final = 253_402_300_799_999_999

_Each = Callable[..., Iterator[Any]]


def normalise_batches(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    time_column: str | None,
    pool: Executor | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield batches with exactly the table's columns and types.

    Columns and fields of structs are matched by name, as Spark does regardless of case; one of the
    table's that a batch lacks is null; a value that its type cannot hold without loss is an error.
    Columns of large batches are converted side by side if there is a pool.

    Raises
    ------
    InvalidInputError
        PROJSEG_SCHEMA_MISMATCH, PROJSEG_NULL_TIME or PROJSEG_TIME_RANGE.
    """
    for batch in batches:
        if batch.num_rows:
            is_large = are_worth_threads(batch.num_rows)
            each = pool.map if pool is not None and is_large else map
            yield _normalise(batch, schema, time_column, each)


def check_schema(found: pa.Schema, schema: pa.Schema) -> None:
    """Refuse columns that the table does not have, or has with a type they do not fit."""
    _column_positions(found, schema)
    for field in found:
        target = schema.field(_match(field.name, schema)).type
        if not _fits(normal_type(field.type), target):
            raise InvalidInputError(
                "PROJSEG_SCHEMA_MISMATCH",
                f"column '{field.name}' holds {type_name(normal_type(field.type))}, the table's is "
                f"{type_name(target)}; cast it before the append{_if_wider(field.type, target)}",
            )
        _named_as(field.type, target, field.name)


def _if_wider(found: pa.DataType, target: pa.DataType) -> str:
    if not may_widen(target, normal_type(found)):
        return ""
    return ", or widen the column with widen_column, in Spark also by option mergeSchema"


def _normalise(
    batch: pa.RecordBatch, schema: pa.Schema, time_column: str | None, each: _Each
) -> pa.RecordBatch:
    check_schema(batch.schema, schema)
    positions = _column_positions(batch.schema, schema)

    def normal(field: pa.Field) -> pa.Array:
        position = positions[field.name]
        if position is None:
            return pa.nulls(batch.num_rows, field.type)
        return _convert(batch.column(position), field)

    columns = pa.record_batch(list(each(normal, schema)), schema=schema)
    if time_column is not None:
        _check_times(columns.column(time_column), time_column)
    return columns


def _column_positions(found: pa.Schema, schema: pa.Schema) -> dict[str, int | None]:
    positions: dict[str, int | None] = dict.fromkeys(schema.names)
    for position, name in enumerate(found.names):
        known = _match(name, schema)
        if positions[known] is not None:
            raise InvalidInputError(
                "PROJSEG_SCHEMA_MISMATCH", f"column '{name}' stands twice in the appended rows"
            )
        positions[known] = position
    return positions


def _match(name: str, schema: pa.Schema) -> str:
    if schema.get_field_index(name) >= 0:
        return name
    for known in schema.names:
        if known.casefold() == name.casefold():
            return str(known)
    raise InvalidInputError(
        "PROJSEG_SCHEMA_MISMATCH",
        f"column '{name}' is not in the table{did_you_mean(name, schema.names)}; leave it out, or "
        "add it with add_column, or in Spark by option mergeSchema",
    )


def _fits(found: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of `found` is a value of `target`, or will be checked one by one."""
    if found == target or found == pa.null():
        return True
    types = pa.types
    if found in INTEGER_DIGITS:
        is_double = target == pa.float64() and INTEGER_DIGITS[found] <= DOUBLE_DIGITS
        return is_double or target in INTEGER_DIGITS or bool(types.is_decimal(target))
    if types.is_timestamp(found) and types.is_timestamp(target):
        return bool((found.tz is None) == (target.tz is None))
    if types.is_decimal(found) or types.is_nested(found):
        return bool(found.id == target.id)
    return bool(found == pa.float32() and target == pa.float64())


def _named_as(found: pa.DataType, target: pa.DataType, column: str) -> pa.DataType:
    """Return a type with the fields of its structs named as in the table's type.

    Raises
    ------
    InvalidInputError
        PROJSEG_SCHEMA_MISMATCH if the table has no such field, or two stand for one.
    """
    types = pa.types
    if types.is_map(found) and types.is_map(target):
        return pa.map_(found.key_type, _named_as(found.item_type, target.item_type, column))
    if types.is_nested(found) and not types.is_struct(found) and types.is_list(target):
        items = _named_as(found.value_type, target.value_type, column)
        kind = pa.large_list if types.is_large_list(found) else pa.list_
        return kind(items, *([found.list_size] if types.is_fixed_size_list(found) else []))
    if not (types.is_struct(found) and types.is_struct(target)):
        return found
    fields: dict[str, pa.Field] = {}
    for field in found:
        known = _field_of(target, field.name)
        if known is None or known.name in fields:
            raise InvalidInputError(
                "PROJSEG_SCHEMA_MISMATCH",
                f"column '{column}' has "
                + (f"no field '{field.name}'" if known is None else f"two fields '{known.name}'")
                + f" in the table, which is {type_name(target)}; leave it out of the rows",
            )
        inner = _named_as(field.type, known.type, column)
        fields[known.name] = pa.field(known.name, inner)  # null where the struct is
    return pa.struct(list(fields.values()))


def _field_of(struct: pa.StructType, name: str) -> pa.Field | None:
    """Return the field of a name, in any case where none is spelled so."""
    same = (field for field in struct if field.name.casefold() == name.casefold())
    return struct.field(name) if struct.get_field_index(name) >= 0 else next(same, None)


def _convert(array: pa.Array, field: pa.Field) -> pa.Array:
    if isinstance(array.type, pa.DictionaryType):
        array = array.dictionary_decode()
    try:
        if pa.types.is_nested(array.type):
            array = array.view(_named_as(array.type, field.type, field.name))
        if pa.types.is_integer(array.type) and pa.types.is_decimal(field.type):
            array = _wide_decimals(array, field.type)
        converted = array.cast(field.type, safe=True)
        converted.validate(full=is_text(field.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            "PROJSEG_SCHEMA_MISMATCH",
            f"column '{field.name}' holds a value that is no {type_name(field.type)}: "
            f"{str(error).splitlines()[0]}",
        ) from error
    return converted


def _wide_decimals(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return integers as decimals of the target's scale that hold any: Arrow checks types first."""
    digits = INTEGER_DIGITS.get(normal_type(array.type), DECIMAL_DIGITS_MAX)
    precision = min(digits + target.scale, DECIMAL_DIGITS_MAX)
    return array.cast(pa.decimal128(precision, target.scale), safe=True)


def _check_times(times: pa.Array, name: str) -> None:
    if times.null_count:
        raise InvalidInputError(
            "PROJSEG_NULL_TIME",
            f"time column '{name}' is null in {times.null_count} of {len(times)} rows of a batch; "
            "a row without a time has no segment: filter such rows out or give them a time",
        )
    if pa.types.is_date32(times.type):
        return
    extremes = pc.min_max(times.cast(pa.int64()))
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    if low < _TIME_MIN_US or high > _TIME_MAX_US:
        wrong = low if low < _TIME_MIN_US else high
        raise InvalidInputError(
            "PROJSEG_TIME_RANGE",
            f"time column '{name}' holds {wrong} microseconds since 1970, outside the years "
            "1 to 9999",
        )
