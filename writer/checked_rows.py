"""Incoming batches, brought to the table's schema or refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.cast_arrays import cast_array, field_of
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import (
    DOUBLE_DIGITS,
    INTEGER_DIGITS,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    normal_type_of,
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
        plain = normal_type_of(field)
        if not _fits(plain, target):
            raise InvalidInputError(
                "PROJSEG_SCHEMA_MISMATCH",
                f"column '{field.name}' holds {type_name(plain)}, the table's is "
                f"{type_name(target)}; {_remedy(plain, target)}",
            )
        _check_fields(plain, target, field.name)


def _remedy(found: pa.DataType, target: pa.DataType) -> str:
    """Return the advice about a column of another type."""
    if (found, target) == (TIMESTAMP_NTZ, TIMESTAMP):
        return (
            "its times have no zone: say which one they are in, in pandas by "
            "frame[column].dt.tz_localize('UTC'), in polars by "
            "pl.col(column).dt.replace_time_zone('UTC'), or declare the column as timestamp_ntz"
        )
    if (found, target) == (TIMESTAMP, TIMESTAMP_NTZ):
        return (
            "take its zone away, in pandas by frame[column].dt.tz_localize(None), in polars by "
            "pl.col(column).dt.replace_time_zone(None), or declare the column as timestamp"
        )
    if may_widen(target, found):
        return (
            "cast it before the append, or widen the column with widen_column, in Spark also by "
            "option mergeSchema"
        )
    return "cast it before the append"


def _normalise(
    batch: pa.RecordBatch, schema: pa.Schema, time_column: str | None, each: _Each
) -> pa.RecordBatch:
    check_schema(batch.schema, schema)
    positions = _column_positions(batch.schema, schema)

    def normal(field: pa.Field) -> pa.Array:
        position = positions[field.name]
        if position is None:
            return pa.nulls(batch.num_rows, field.type)
        return convert_column(batch.column(position), field)

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
                "PROJSEG_SCHEMA_MISMATCH",
                f"column '{name}' stands twice in the appended rows, as names have no case; "
                "rename one of the two, or leave it out",
            )
        positions[known] = position
    return positions


def _match(name: str, schema: pa.Schema) -> str:
    if schema.get_field_index(name) >= 0:
        return name
    for known in schema.names:
        if name_key(known) == name_key(name):
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
    if types.is_nested(found):
        return bool(found.id == target.id) and all(
            _fits(inner, within) or (_is_number(inner) and _is_number(within))
            for inner, within in _pairs(found, target)
        )
    if types.is_decimal(found):
        return bool(found.id == target.id)
    return bool(found == pa.float32() and target == pa.float64())


def _is_number(arrow_type: pa.DataType) -> bool:
    """Whether values are numbers, which within lists are checked one by one."""
    types = pa.types
    return bool(
        types.is_integer(arrow_type)
        or types.is_floating(arrow_type)
        or types.is_decimal(arrow_type)
    )


def _pairs(found: pa.DataType, target: pa.DataType) -> list[tuple[pa.DataType, pa.DataType]]:
    """Return the types of fields or items in nested types of one kind, beside the table's."""
    if not pa.types.is_struct(found):
        return [(found.field(n).type, target.field(n).type) for n in range(found.num_fields)]
    known = [(field.type, field_of(target, field.name)) for field in found]
    return [(inner, field.type) for inner, field in known if field is not None]


def _check_fields(found: pa.DataType, target: pa.DataType, column: str) -> None:
    """Refuse fields of structs that the table does not have, or two that stand for one."""
    if not pa.types.is_nested(found):
        return
    names = [field.name for field in found] if pa.types.is_struct(found) else []
    known: set[str] = set()
    for name in names:
        field = field_of(target, name)
        if field is None or field.name in known:
            raise InvalidInputError(
                "PROJSEG_SCHEMA_MISMATCH",
                f"column '{column}' has "
                + (f"no field '{name}'" if field is None else f"two fields '{field.name}'")
                + f" in the table, which is {type_name(target)}; leave it out of the rows",
            )
        known.add(field.name)
    for inner, within in _pairs(found, target):
        _check_fields(inner, within, column)


def convert_column(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return values in a column's type."""
    try:
        return cast_array(array, field.type)
    except (pa.ArrowException, IndexError) as error:
        raise InvalidInputError(
            "PROJSEG_SCHEMA_MISMATCH",
            f"column '{field.name}' holds a value that is no {type_name(field.type)}: "
            f"{str(error).splitlines()[0]}{_if_finer(array.type)}",
        ) from error


def _if_finer(found: pa.DataType) -> str:
    if not (pa.types.is_timestamp(found) and found.unit == "ns"):
        return ""
    return (
        "; times are kept in microseconds: round them, in pandas by frame[column].dt.floor('us'), "
        "in polars by pl.col(column).dt.cast_time_unit('us')"
    )


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
