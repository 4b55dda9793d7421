"""Columns of files as columns of a table: their types, and what does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from projseg.algebra.expressions.text.type_text import parse_type
from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.layout.logical_types import TIMESTAMP, normal_type, type_name


def table_schema(
    found: pa.Schema, asked_types: Sequence[str], time_column: str | None
) -> pa.Schema:
    """Return the schema to store: the types found, unless asked otherwise.

    A column that is null throughout the first block becomes a string, and a time column that is
    text becomes a timestamp.

    Parameters
    ----------
    found : Schema
        As the first file has it.
    asked_types : sequence of str
        `column=type` with Spark's names of types.
    time_column : str or None
        The table's time column.
    """
    asked = dict(_asked_type(text, found) for text in asked_types)
    fields = []
    for field in found:
        stored = normal_type(field.type)
        if pa.types.is_null(stored):
            stored = pa.string()
        if field.name == time_column and pa.types.is_string(stored):
            stored = TIMESTAMP
        fields.append(pa.field(field.name, asked.get(field.name, stored)))
    return pa.schema(fields)


def check_types(asked_types: Sequence[str], schema: pa.Schema) -> None:
    """Refuse types that are not those of the table `schema` belongs to.

    Raises
    ------
    InvalidInputError
        PROJSEG_UNKNOWN_COLUMN, PROJSEG_OPTION_CONTRADICTS_TABLE.
    """
    for text in asked_types:
        name, asked = _asked_type(text, schema)
        if (stored := schema.field(name).type) != asked:
            raise InvalidInputError(
                "PROJSEG_OPTION_CONTRADICTS_TABLE",
                f"--type '{text}' contradicts the table, whose column '{name}' is "
                f"{type_name(stored)}; leave the option out or import into another table",
            )


def _asked_type(text: str, found: pa.Schema) -> tuple[str, pa.DataType]:
    name, mark, type_text = text.partition("=")
    if not mark or name not in found.names:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_COLUMN",
            f"--type '{text}' must be column=type with a column of the file"
            f"{did_you_mean(name, found.names)}",
        )
    return name, parse_type(type_text)


def cast_batches(
    path: str, batches: pa.RecordBatchReader, target: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the batches by name in `target`'s types; a column that the file lacks is null.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_INPUT_FILE naming the file, the column and the value that does not fit.
    """
    check_columns(path, batches.schema, target)
    try:
        for batch in batches:
            yield pa.RecordBatch.from_arrays(
                [_cast_column(path, batch, field) for field in target], schema=target
            )
    except (pa.ArrowInvalid, OSError) as error:
        raise bad_file(path, error) from error


def check_columns(path: str, found: pa.Schema, target: pa.Schema) -> None:
    """Refuse a file with a column that a table lacks.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_INPUT_FILE.
    """
    unknown = [name for name in found.names if name not in target.names]
    if unknown:
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE",
            f"{path} has a column '{unknown[0]}' that the table lacks"
            f"{did_you_mean(unknown[0], target.names)}",
        )


def _cast_column(path: str, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(index)
    try:
        return column if column.type == field.type else column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE",
            f"{path}: column '{field.name}' does not fit {type_name(field.type)} "
            f"({str(error).splitlines()[0]}); name a type with --type {field.name}=...",
        ) from error


def bad_file(path: str, error: pa.ArrowInvalid | OSError) -> InvalidInputError:
    """Return the error for a file that cannot be read."""
    problem = getattr(error, "strerror", None) or str(error).splitlines()[0]
    return InvalidInputError("PROJSEG_BAD_INPUT_FILE", f"{path} cannot be read: {problem}")
