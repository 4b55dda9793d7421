"""Columns of files as columns of a table: their types, and what is done with lines that fail."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self, TextIO

import pyarrow as pa

from projseg.algebra.expressions.sql_words import parse_type
from projseg.catalog.external.readings import TextForm, check_names
from projseg.errors import InvalidInputError, ProjsegError, StorageError, did_you_mean
from projseg.evaluation.typed_columns import HAS_ZONE, TIMES, Casts
from projseg.segment_format.logical_types import (
    TIMESTAMP,
    TIMESTAMP_NTZ,
    normal_type,
    type_name,
)

FAIL: Final = "fail"
SKIP: Final = "skip"
_ADVICE: Final = "nothing was imported: mend it, or leave such lines out with --on-error"
_ROW_NUMBER: Final = re.compile(r"(in )?[Rr]ow #?\d+:? ?")
_SHOWN: Final = 80  # characters of a line in a message


class BadLines:
    """Counts bad lines, keeps them in a file, or refuses the first or one too many.

    `on_error` is `fail`, `skip`, or the file that gets each line with its number and the reason, as
    JSON; `most` bad lines are allowed in an import. The refusal of the first also gives `advice`.
    With `keeps_codes`, a value is refused with the error of Spark's CAST.
    """

    def __init__(
        self,
        on_error: str = FAIL,
        most: int | None = None,
        advice: str = _ADVICE,
        *,
        keeps_codes: bool = False,
    ) -> None:
        self.count = 0
        self._on_error = on_error
        self._most = most
        self._advice = advice
        self._keeps_codes = keeps_codes
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        if self._on_error == "null":
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                "--on-error null is what definitions of files have; say fail, skip, or a file for "
                "bad lines, such as ./null",
            )
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
        """Take a bad line by its number in the file, from 1, and the reason why it is no row."""
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

    def add_value(
        self, path: str, number: int, line: bytes, field: pa.Field, text: str, casts: Casts
    ) -> None:
        """Take a line for a value that is not of its column, since `casts` did not convert it."""
        if self._keeps_codes:
            error = casts.error(text, field.type)
            where = f"{path}, line {number}, column '{field.name}'"
            raise type(error)(error.code, f"{where}: {error.message}")
        hint = f"name a type with --type {field.name}=..."
        problem = f"'{text[:_SHOWN]}'"
        if field.type in TIMES:
            if field.type == TIMESTAMP_NTZ and re.search(HAS_ZONE, text):
                problem += " has a zone offset"
            hint = "say --time-unit or --time-format, or --cut-times for parts of microseconds"
        elif pa.types.is_decimal(field.type) or pa.types.is_floating(field.type):
            hint += " or --decimal-point"
        self.add(
            path,
            number,
            line,
            f"column '{field.name}' does not fit {type_name(field.type)} ({problem}); {hint}",
        )


def table_schema(
    found: pa.Schema, asked_types: Sequence[str], time_column: str | None
) -> pa.Schema:
    """Return the schema to store: the types found, unless asked otherwise.

    A column that is null throughout the first block becomes a string, and a time column that is
    text becomes a timestamp.
    """
    asked = dict(_asked_type(text, found) for text in asked_types)
    return pa.schema([(f.name, asked.get(f.name) or _stored(f, time_column)) for f in found])


def _stored(field: pa.Field, time_column: str | None) -> pa.DataType:
    try:
        stored = normal_type(field.type)
        if not pa.types.is_null(stored):
            type_name(stored)
    except ProjsegError as error:
        raise type(error)(
            error.code,
            f"column '{field.name}': {error.message}; leave it out with --exclude {field.name}, or "
            f"say --type {field.name}=string",
        ) from error
    if pa.types.is_null(stored):
        stored = pa.string()
    is_time = time_column is not None and field.name.lower() == time_column.lower()
    return TIMESTAMP if is_time and pa.types.is_string(stored) else stored


def merged_schema(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return the columns of several files; the first that has a column says its type."""
    fields: dict[str, pa.Field] = {}
    for schema in schemas:
        for one in schema:
            known = fields.setdefault(one.name.lower(), one)
            if pa.types.is_null(known.type):
                fields[one.name.lower()] = one.with_name(known.name)
    return pa.schema(list(fields.values()))


def check_types(asked_types: Sequence[str], schema: pa.Schema) -> None:
    """Refuse types that are not those of the table `schema` belongs to."""
    for text in asked_types:
        name, asked = _asked_type(text, schema)
        if (stored := schema.field(name).type) != asked:
            raise InvalidInputError(
                "PROJSEG_OPTION_CONTRADICTS_TABLE",
                f"--type '{text}' contradicts the table, whose column '{name}' is "
                f"{type_name(stored)}; leave the option out or import into another table",
            )


def _asked_type(text: str, found: pa.Schema) -> tuple[str, pa.DataType]:
    asked, mark, type_text = text.partition("=")
    name = next((name for name in found.names if name.lower() == asked.lower()), None)
    if not mark or name is None:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_COLUMN",
            f"--type '{text}' is not COLUMN=TYPE with a column of the file"
            f"{did_you_mean(asked, found.names) if mark else ''}; its columns are "
            f"{', '.join(found.names[:12])}{', ...' if len(found.names) > 12 else ''}",
        )
    return name, parse_type(type_text)


def cast_batches(
    path: str, batches: pa.RecordBatchReader, target: pa.Schema, form: TextForm
) -> Iterator[pa.RecordBatch]:
    """Yield the batches by name in `target`'s types; a column that the file lacks is null."""
    casts = Casts(form.values)
    names = form.names(batches.schema.names)
    kept = [name for name in names if name is not None]
    check_names(path, kept)
    check_columns(path, kept, target)
    own = {name.lower(): place for place, name in enumerate(names) if name is not None}
    before = 0
    try:
        for batch in batches:
            columns = []
            for field in target:
                place = own.get(field.name.lower())
                if place is None:
                    columns.append(pa.nulls(batch.num_rows, field.type))
                else:
                    columns.append(_cast(path, batch.column(place), field, casts, before))
            before += batch.num_rows
            yield pa.RecordBatch.from_arrays(columns, schema=target)
    except (pa.ArrowInvalid, OSError) as error:
        raise bad_file(path, error) from error


def check_columns(path: str, found: Sequence[str], target: pa.Schema) -> None:
    """Refuse a file with a column that a table lacks."""
    known = {name.lower() for name in target.names}
    if (unknown := next((name for name in found if name.lower() not in known), None)) is not None:
        raise unknown_column(path, unknown, target)


def unknown_column(where: str, name: str, target: pa.Schema) -> InvalidInputError:
    """Return the error for a column that a table lacks."""
    return InvalidInputError(
        "PROJSEG_BAD_INPUT_FILE",
        f"{where} has a column '{name}' that the table lacks{did_you_mean(name, target.names)}; "
        f"leave it out with --exclude {name}, say which it is with --rename {name}=..., or add it "
        "by import --merge-schema",
    )


def _cast(path: str, array: pa.Array, field: pa.Field, casts: Casts, before: int) -> pa.Array:
    try:
        column = casts.arrow(array, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        is_time = "timestamp[ns" in str(array.type)
        hint = "cut it with --cut-times" if is_time else f"name a type with --type {field.name}=..."
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE",
            f"{path}: column '{field.name}' does not fit {type_name(field.type)} "
            f"({str(error).splitlines()[0]}); {hint}",
        ) from error
    if column.bad is not None:
        row = int(column.bad.argmax())
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE",
            f"{path}, row {before + row + 1}: column '{field.name}' does not fit "
            f"{type_name(field.type)} ('{array[row]}'); say --time-unit or --time-format",
        )
    return column.values


def bad_file(path: str, error: Exception) -> InvalidInputError:
    """Return the error for a file that cannot be read."""
    problem = read_problem(path, error)
    if isinstance(error, FileNotFoundError):
        problem = "there is no such file; check the path"
    elif isinstance(error, UnicodeDecodeError):
        problem = "it is not text in UTF-8; say its --encoding or --format"
    return InvalidInputError("PROJSEG_BAD_INPUT_FILE", f"{path} cannot be read: {problem}")


def read_problem(path: str, error: Exception) -> str:
    """Return what a reader of a file says, without its path and its own numbers of rows."""
    text = error.message if isinstance(error, ProjsegError) else str(error)
    first = getattr(error, "strerror", None) or (text.splitlines() or [type(error).__name__])[0]
    return _ROW_NUMBER.sub("", first.removeprefix(f"{path}: "))
