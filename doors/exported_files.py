"""Rows as files of other tools: written as a stream, and there as a whole or not at all."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from projseg.doors.plain_values import plain_float
from projseg.errors import InvalidInputError, StorageError, UnsupportedFeatureError
from projseg.segment_format.logical_types import type_name

FileFormat = Literal["parquet", "arrow", "csv", "jsonl"]
STANDARD_OUTPUT: Final = "-"
_ENDINGS: Final[dict[str, FileFormat]] = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}


def format_of(file: str, asked: FileFormat | None) -> FileFormat:
    """Return the format asked for, else that of the file's ending; or PROJSEG_BAD_OPTION."""
    found = asked or _ENDINGS.get(Path(file).suffix.lower())
    if found is None:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"the name '{file}' does not say a format; give --format parquet, arrow, csv or jsonl, "
            f"or a name that ends in {', '.join(_ENDINGS)}",
        )
    return found


def write_rows(rows: pa.RecordBatchReader, file: str, kind: FileFormat) -> int:
    """Write rows into a file that appears when all are there, or to standard output (`-`).

    A file of this name is replaced. Return the number of rows. Raises UnsupportedFeatureError
    (PROJSEG_UNSUPPORTED_TYPE) if a column has no form in the format, and StorageError
    (PROJSEG_STORAGE_FAILED) if the file cannot be written; then no file appears.
    """
    if file == STANDARD_OUTPUT:
        count = write_stream(rows, sys.stdout.buffer, kind)
        sys.stdout.buffer.flush()
        return count
    _check_types(rows.schema, kind)
    with _whole(Path(file)) as sink:
        return write_stream(rows, sink, kind)


def write_stream(rows: pa.RecordBatchReader, sink: IO[bytes], kind: FileFormat) -> int:
    """Write rows into an open file, as `write_rows` does."""
    _check_types(rows.schema, kind)
    return _WRITERS[kind](rows, sink)


@contextmanager
def _whole(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to write that takes the path when it is complete and synced."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        os.replace(part, path)
    except OSError as error:
        raise StorageError(
            "PROJSEG_STORAGE_FAILED", f"'{path}' cannot be written: {error.strerror or error}"
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()


def _check_types(schema: pa.Schema, kind: FileFormat) -> None:
    if kind != "csv":
        return
    for field in schema:
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            raise UnsupportedFeatureError(
                "PROJSEG_UNSUPPORTED_TYPE",
                f"column '{field.name}' is {type_name(field.type)}, which CSV has no form for; "
                "export it as parquet, arrow or jsonl, or leave it out with --columns",
            )


def _parquet(rows: pa.RecordBatchReader, sink: IO[bytes]) -> int:
    with pq.ParquetWriter(sink, rows.schema, compression="zstd") as writer:
        return _each(rows, writer.write_batch)


def _arrow(rows: pa.RecordBatchReader, sink: IO[bytes]) -> int:
    make = pa.ipc.new_stream if sink is sys.stdout.buffer else pa.ipc.new_file
    with make(sink, rows.schema) as writer:
        return _each(rows, writer.write_batch)


def _csv(rows: pa.RecordBatchReader, sink: IO[bytes]) -> int:
    """Write texts in quotes, so that an empty one is not a null."""
    with pyarrow.csv.CSVWriter(sink, rows.schema) as writer:
        return _each(rows, writer.write_batch)


def _jsonl(rows: pa.RecordBatchReader, sink: IO[bytes]) -> int:
    """Write an object a line: decimals as numbers of all their digits, bytes in base 64.

    JSON has no NaN and no infinity: they are texts, which `import` reads as numbers again.
    """
    encode = msgspec.json.Encoder(decimal_format="number").encode_lines

    def write(batch: pa.RecordBatch) -> None:
        found = batch.to_pylist(maps_as_pydicts="strict")
        if any(_may_be_infinite(column) for column in batch.columns):
            found = [_finite(row) for row in found]
        sink.write(encode(found))

    return _each(rows, write)


def _may_be_infinite(column: pa.Array) -> bool:
    if pa.types.is_floating(column.type):
        return bool(pc.any(pc.invert(pc.is_finite(column))).as_py())
    return bool(pa.types.is_nested(column.type))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return plain_float(value)
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _each(rows: pa.RecordBatchReader, write: Callable[[pa.RecordBatch], None]) -> int:
    count = 0
    for batch in rows:
        write(batch)
        count += batch.num_rows
    return count


_WRITERS: Final[dict[FileFormat, Callable[[pa.RecordBatchReader, IO[bytes]], int]]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "csv": _csv,
    "jsonl": _jsonl,
}
