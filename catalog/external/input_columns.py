"""Columns of files as columns of a table: their types, and what is done with lines that fail."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, Self, TextIO

import pyarrow as pa

from projseg.algebra.expressions.sql_words import parse_type
from projseg.errors import InvalidInputError, ProjsegError, StorageError, did_you_mean
from projseg.segment_format.logical_types import TIMESTAMP, normal_type, type_name

FAIL: Final = "fail"
SKIP: Final = "skip"
_ADVICE: Final = "nothing was imported: mend it, or leave such lines out with --on-error"
_ROW_NUMBER: Final = re.compile(r"(in )?[Rr]ow #?\d+:? ?")
_SHOWN: Final = 80  # characters of a line in a message


class BadLines:
    """Counts bad lines, keeps them in a file, or refuses the first or one too many.

    Parameters
    ----------
    on_error : str
        `fail`, `skip`, or the file that gets each line with its number and the reason, as JSON.
    most : int or None
        The most bad lines of an import.
    advice : str
        What the refusal of the first says besides.
    """

    def __init__(
        self, on_error: str = FAIL, most: int | None = None, advice: str = _ADVICE
    ) -> None:
        self.count = 0
        self._on_error = on_error
        self._most = most
        self._advice = advice
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        if self._on_error not in (FAIL, SKIP):
            try:
                self._file = open(self._on_error, "w", encoding="utf-8")
            except OSError as error:
                raise StorageError(
                    "PROJSEG_STORAGE_FAILED",
                    f"--on-error {self._on_error} cannot be written: {error.strerror}",
                    error.errno,
                ) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, path: str, number: int, line: bytes, reason: str) -> None:
        """Take a bad line.

        Parameters
        ----------
        path : str
            Its file.
        number : int
            Its place in the file, from 1.
        line : bytes
            The line.
        reason : str
            Why it is no row.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_INPUT_FILE if none is allowed, or no more.
        """
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        where = f"{path}, line {number}: {reason}; the line begins '{text[:_SHOWN]}'"
        if self._on_error == FAIL:
            raise InvalidInputError("PROJSEG_BAD_INPUT_FILE", f"{where}; {self._advice}")
        self.count += 1
        if self._most is not None and self.count > self._most:
            raise InvalidInputError(
                "PROJSEG_BAD_INPUT_FILE",
                f"{where}; it is bad line {self.count}, and --max-errors allows {self._most}: "
                "nothing was imported",
            )
        if self._file is not None:
            report = {"file": path, "line": number, "reason": reason, "text": text}
            self._file.write(json.dumps(report, ensure_ascii=False) + "\n")


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
            f"--type '{text}' is not COLUMN=TYPE with a column of the file"
            f"{did_you_mean(name, found.names) if mark else ''}; its columns are "
            f"{', '.join(found.names[:12])}{', ...' if len(found.names) > 12 else ''}",
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


def bad_file(path: str, error: Exception) -> InvalidInputError:
    """Return the error for a file that cannot be read."""
    problem = read_problem(path, error)
    if isinstance(error, FileNotFoundError):
        problem = "there is no such file; check the path"
    elif isinstance(error, UnicodeDecodeError):
        problem = "it is not text in UTF-8; convert it, or say its format"
    return InvalidInputError("PROJSEG_BAD_INPUT_FILE", f"{path} cannot be read: {problem}")


def read_problem(path: str, error: Exception) -> str:
    """Return what a reader of a file says, without its path and its own numbers of rows."""
    text = error.message if isinstance(error, ProjsegError) else str(error)
    first = getattr(error, "strerror", None) or (text.splitlines() or [type(error).__name__])[0]
    return _ROW_NUMBER.sub("", first.removeprefix(f"{path}: "))
