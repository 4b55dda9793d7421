"""Reads Parquet, CSV and JSON files as streams of Arrow batches, in bounded memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from projseg.algebra.expressions.type_text import parse_type
from projseg.cli.json_times import open_json
from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.types import TIMESTAMP, normal_type, type_name

BLOCK_BYTES: Final = 16 * 2**20  # types of CSV and JSON columns are guessed from the first block

_COMPRESSIONS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


class ProgressFile:
    """A binary file that tells how many stored bytes have been read; pyarrow reads through it."""

    def __init__(self, path: str, advance: Callable[[int], None]) -> None:
        self._file = pa.OSFile(path)
        self._advance = advance
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes."""
        block: bytes = self._file.read(None if size < 0 else size)
        self._advance(len(block))
        return block

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self.closed = True


def stored_bytes(path: str) -> int:
    """Return a file's size in bytes.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_INPUT_FILE if there is no such file, or it is a directory.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        raise _bad_file(path, error) from error
    if stat.S_ISDIR(status.st_mode):
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE",
            f"{path} is a directory; name the files in it, such as {path.rstrip('/')}/*.parquet",
        )
    return status.st_size


def open_file(
    path: str, advance: Callable[[int], None], asked: str | None = None
) -> pa.RecordBatchReader:
    """Open one file by its name's ending: .parquet, .csv or .json, the last two also compressed.

    Parameters
    ----------
    path : str
        The file.
    advance : callable
        Told the number of stored bytes each time some have been read.
    asked : str or None
        What it holds, whatever its ending.

    Raises
    ------
    InvalidInputError
        PROJSEG_UNKNOWN_FILE_TYPE for another ending, PROJSEG_BAD_INPUT_FILE if it cannot be read.
    """
    kind, compression = kind_of(path, asked)
    try:
        return _OPENERS[kind](path, compression, advance)
    except (pa.ArrowInvalid, OSError) as error:
        raise _bad_file(path, error) from error


def kind_of(path: str, asked: str | None = None) -> tuple[str, str | None]:
    """Return what a file holds, `parquet`, `csv` or `json`, and Arrow's name of its compression.

    Parameters
    ----------
    path : str
        The file, whose ending tells it.
    asked : str or None
        What it holds, whatever its ending.

    Raises
    ------
    InvalidInputError
        PROJSEG_UNKNOWN_FILE_TYPE.
    """
    stem, ending = os.path.splitext(path)
    compression = _COMPRESSIONS.get(ending.lower())
    kind = asked or _KINDS.get((os.path.splitext(stem)[1] if compression else ending).lower())
    if kind not in _OPENERS:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_FILE_TYPE",
            f"cannot tell what '{path}' holds; its name must end in .parquet, .csv, .json or "
            ".jsonl, the text ones also with .gz, .bz2 or .zst, or --format say it",
        )
    return kind, compression


def _open_parquet(
    path: str, _compression: str | None, advance: Callable[[int], None]
) -> pa.RecordBatchReader:
    file = pyarrow.parquet.ParquetFile(path)
    share = stored_bytes(path) / max(1, file.metadata.num_rows)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in file.iter_batches():
            advance(int(batch.num_rows * share))
            yield batch

    return pa.RecordBatchReader.from_batches(file.schema_arrow, batches())


def _open_csv(
    path: str, compression: str | None, advance: Callable[[int], None]
) -> pa.RecordBatchReader:
    options = pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES)
    convert = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    stream = open_stream(path, compression, advance)
    return pyarrow.csv.open_csv(stream, read_options=options, convert_options=convert)


def _open_json(
    path: str, compression: str | None, advance: Callable[[int], None]
) -> pa.RecordBatchReader:
    return open_json(
        lambda: open_stream(path, compression, lambda _: None),
        lambda: open_stream(path, compression, advance),
        BLOCK_BYTES,
    )


def open_stream(
    path: str, compression: str | None, advance: Callable[[int], None]
) -> pa.NativeFile:
    """Open a file to be read, and unpacked; `advance` is told of the stored bytes."""
    plain = pa.PythonFile(ProgressFile(path, advance), mode="r")
    return pa.CompressedInputStream(plain, compression) if compression else plain


_OPENERS: Final[
    dict[str, Callable[[str, str | None, Callable[[int], None]], pa.RecordBatchReader]]
] = {
    "parquet": _open_parquet,
    "csv": _open_csv,
    "json": _open_json,
}
_KINDS: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


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
        raise _bad_file(path, error) from error


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


def _bad_file(path: str, error: pa.ArrowInvalid | OSError) -> InvalidInputError:
    problem = getattr(error, "strerror", None) or str(error).splitlines()[0]
    return InvalidInputError("PROJSEG_BAD_INPUT_FILE", f"{path} cannot be read: {problem}")
