"""CSV and JSON as batches of rows, by blocks of whole lines: a bad line is known by its number."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from projseg.catalog.external.input_columns import (
    BadLines,
    bad_file,
    cast_batches,
    check_columns,
    read_problem,
)
from projseg.errors import InvalidInputError, ProjsegError
from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ

STDIN: Final = "-"
BLOCK_BYTES: Final = 16 * 2**20  # types of columns are guessed from the first block
_HAS_ZONE: Final = r"[T ].*([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)$"
_BOM: Final = b"\xef\xbb\xbf"
_READ_ERRORS: Final = (pa.ArrowException, ProjsegError, OSError, ValueError)
_TIMES: Final = (TIMESTAMP, TIMESTAMP_NTZ)


@dataclass(frozen=True)
class TextForm:
    """How a text file is written.

    Parameters
    ----------
    delimiter, quote : str
        Of CSV.
    has_header : bool
        Whether the first line of CSV has the names of columns.
    nulls : tuple of str or None
        Texts that mean null; None: empty ones, NULL, N/A and the like.
    columns : tuple of str or None
        The names of columns of CSV without header; None: they are numbered.
    skipped_lines : int
        Lines before the header or the first row.
    declared : pa.Schema or None
        Types of columns of JSON that the first block does not tell; others are left out.
    """

    delimiter: str = ","
    quote: str = '"'
    has_header: bool = True
    nulls: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    skipped_lines: int = 0
    declared: pa.Schema | None = None


class _Reader(Protocol):
    """Rows of some whole lines."""

    schema: pa.Schema

    def read(self, lines: bytes, texts: frozenset[str]) -> pa.Table:
        """Return the rows; columns in `texts` are read as texts."""


class TextFile:
    """One file of lines, whose columns are guessed from its first block.

    Parameters
    ----------
    path : str
        The file, `-` for standard input.
    kind : str
        `csv` or `json`.
    compression : str or None
        Arrow's name of it.
    form : TextForm
        How it is written.
    advance : callable
        Called with the number of stored bytes each time some have been read.
    opened : file of Arrow or None
        Its bytes, where `path` only names them.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_INPUT_FILE if its first block has no columns.
    """

    def __init__(
        self,
        path: str,
        kind: str,
        compression: str | None,
        form: TextForm,
        advance: Callable[[int], None],
        opened: pa.NativeFile | None = None,
    ) -> None:
        self.path = path
        # A line of delimiters alone is a row of nulls.
        self._blank = b" \t\r\n".replace(form.delimiter.encode(), b"") if kind == "csv" else None
        with _naming(path):
            self._blocks = _blocks(path, compression, advance, opened)
            self._first = next(self._blocks, b"").removeprefix(_BOM)
            self._line = 1
            for _ in range(form.skipped_lines):
                _, mark, self._first = self._first.partition(b"\n")
                self._line += bool(mark)
            if kind == "json" and self._first.lstrip()[:1] == b"[":
                self._first = _lines_of_array(self._first + b"".join(self._blocks))
                self._blocks = iter(())
            if not self._first.strip():
                raise InvalidInputError(
                    "PROJSEG_BAD_INPUT_FILE", f"{path} is empty; give a file with rows"
                )
            self._reader: _Reader
            if kind == "csv":
                header, rest = _split_header(self._first, form)
                self._line += self._first[: len(self._first) - len(rest)].count(b"\n")
                self._first = rest
                self._reader = _Csv(header, rest, form)
            else:
                self._reader = _Json(self._first, form.declared)

    @property
    def schema(self) -> pa.Schema:
        """The columns as they were guessed."""
        return self._reader.schema

    def rows(self, target: pa.Schema, bad: BadLines) -> Iterator[pa.RecordBatch]:
        """Yield the rows in a table's columns, once, without the lines that `bad` takes."""
        check_columns(self.path, self.schema, target)
        number = self._line
        for block in self._all_blocks():
            lines = block.splitlines(keepends=True)
            yield from self._good_rows(lines, number, target, bad)
            number += len(lines)

    def _all_blocks(self) -> Iterator[bytes]:
        yield self._first
        with _naming(self.path):
            yield from self._blocks

    def _good_rows(
        self, lines: list[bytes], number: int, target: pa.Schema, bad: BadLines
    ) -> Iterator[pa.RecordBatch]:
        block = b"".join(lines)
        if not block.strip(self._blank):
            return
        texts = frozenset(f.name for f in target if pa.types.is_string(f.type))
        try:
            rows = self._reader.read(block, texts)
            if isinstance(self._reader, _Csv) and _has_open_quote(rows, lines, self._blank):
                raise ValueError("a quote is left open")
            reader = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())
            batches = list(cast_batches(self.path, reader, target))
        except _READ_ERRORS as error:
            if len(lines) == 1:
                bad.add(self.path, number, lines[0], read_problem(self.path, error))
                return
            half = len(lines) // 2
            yield from self._good_rows(lines[:half], number, target, bad)
            yield from self._good_rows(lines[half:], number + half, target, bad)
            return
        yield from batches


def _has_open_quote(rows: pa.Table, lines: list[bytes], blank: bytes | None) -> bool:
    """Whether rows of CSV are fewer than lines, or the end of a single line is in its value."""
    if len(rows) != sum(bool(line.strip(blank)) for line in lines):
        return True
    if len(rows) != 1:
        return False
    texts = [column[0].as_py() for column in rows.columns if pa.types.is_string(column.type)]
    return any(text is not None and text.endswith(("\n", "\r")) for text in texts)


class _Csv:
    """Lines of CSV.

    Parameters
    ----------
    header : list of str or None
        The names of columns; None: they are numbered.
    block : bytes
        The first lines, from which types are guessed.
    form : TextForm
        How they are written.
    """

    def __init__(self, header: list[str] | None, block: bytes, form: TextForm) -> None:
        self._form = form
        self._header = header
        self._types: dict[str, pa.DataType] = {}
        if not block.strip():
            self.schema = pa.schema([(name, pa.null()) for name in header or ()])
            return
        self.schema = self._read(block, skips=True).schema
        self._header = self.schema.names
        self._types = {field.name: field.type for field in self.schema}

    def read(self, lines: bytes, texts: frozenset[str]) -> pa.Table:
        """Return the rows; columns in `texts` are read as texts, whatever was guessed."""
        types = {
            name: pa.string() if name in texts else found for name, found in self._types.items()
        }
        return self._read(lines, types)

    def _read(
        self, lines: bytes, types: dict[str, pa.DataType] | None = None, *, skips: bool = False
    ) -> pa.Table:
        form = self._form
        nulls = {} if form.nulls is None else {"null_values": list(form.nulls)}
        return pyarrow.csv.read_csv(
            io.BytesIO(lines),
            read_options=pyarrow.csv.ReadOptions(
                block_size=len(lines) + 1,
                column_names=self._header,
                autogenerate_column_names=self._header is None,
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=form.delimiter,
                quote_char=form.quote or False,
                invalid_row_handler=(lambda _: "skip") if skips else None,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types, strings_can_be_null=True, **nulls
            ),
        )


class _Json:
    """Lines of JSON, an object each.

    Parameters
    ----------
    block : bytes
        The first lines, from which types are guessed.
    declared : pa.Schema or None
        The columns that are read, and their types where the first lines tell none.
    """

    def __init__(self, block: bytes, declared: pa.Schema | None = None) -> None:
        self.schema = _guessed_json(block)
        self._unexpected = "error" if declared is None else "ignore"
        if declared is not None:
            self.schema = pa.schema([_json_field(field, self.schema) for field in declared])

    def read(self, lines: bytes, texts: frozenset[str]) -> pa.Table:
        """Return the rows; times are read as texts first, as their zones would be lost."""
        fields = []
        for field in self.schema:
            is_null = pa.types.is_null(field.type) and field.name in texts
            is_text = field.type in _TIMES or is_null
            fields.append(field.with_type(pa.string()) if is_text else field)
        rows = _read_json(lines, pa.schema(fields), self._unexpected)
        columns = [
            rows[field.name].cast(field.type) if field.type in _TIMES else rows[field.name]
            for field in self.schema
        ]
        return pa.table(columns, names=self.schema.names)


def _json_field(declared: pa.Field, found: pa.Schema) -> pa.Field:
    """Return a declared column as JSON writes it: a type without a form there is a text."""
    place = found.get_field_index(declared.name)
    if place >= 0 and not pa.types.is_null(found.field(place).type):
        return found.field(place)
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_nested)
    is_own = any(kind(declared.type) for kind in kinds)
    return declared if is_own else declared.with_type(pa.string())


def _guessed_json(block: bytes) -> pa.Schema:
    """Return the columns of the first lines; of those that are JSON, and then of fewer."""
    try:
        return _json_schema(block)
    except pa.ArrowInvalid:
        lines = [line for line in block.splitlines(keepends=True) if _is_object(line)]
    while lines:
        try:
            return _json_schema(b"".join(lines))
        except pa.ArrowInvalid:
            lines = lines[: len(lines) // 2]
    raise ValueError("no line of it is a JSON object")


def _json_schema(block: bytes) -> pa.Schema:
    """Return the columns of lines of JSON.

    pyarrow reads a text of whole seconds as a time without a zone, whether it names one or not.
    """
    found = _read_json(block).schema
    times = [field.name for field in found if pa.types.is_timestamp(field.type)]
    if not times:
        return found
    texts = _read_json(block, pa.schema([(name, pa.string()) for name in times]))
    return pa.schema(
        [f.with_type(_time_type(texts[f.name])) if f.name in times else f for f in found]
    )


def _read_json(
    lines: bytes, schema: pa.Schema | None = None, unexpected: str = "infer"
) -> pa.Table:
    return pyarrow.json.read_json(
        io.BytesIO(lines),
        read_options=pyarrow.json.ReadOptions(block_size=len(lines) + 1),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior=unexpected
        ),
    )


def _time_type(texts: pa.ChunkedArray) -> pa.DataType:
    """Return the type that all texts are of; text, where some have a zone and some have none."""
    have_zone = pc.unique(pc.match_substring_regex(texts, _HAS_ZONE).drop_null()).to_pylist()
    if len(have_zone) != 1:
        return pa.string()
    return TIMESTAMP if have_zone[0] else TIMESTAMP_NTZ


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _lines_of_array(text: bytes) -> bytes:
    """Return the items of a JSON array as lines; the whole of it is held in memory."""
    items: list[Any] = json.loads(text)
    return b"".join(json.dumps(item).encode() + b"\n" for item in items)


def _split_header(block: bytes, form: TextForm) -> tuple[list[str] | None, bytes]:
    """Return the names in the first line, and what follows it."""
    if not form.has_header:
        return None if form.columns is None else list(form.columns), block
    lines = block.splitlines(keepends=True)
    place = next((n for n, line in enumerate(lines) if line.strip()), 0)
    line, rest = lines[place], b"".join(lines[place + 1 :])
    options = pyarrow.csv.ParseOptions(delimiter=form.delimiter, quote_char=form.quote or False)
    found = pyarrow.csv.read_csv(io.BytesIO(line.rstrip(b"\r\n") + b"\n"), parse_options=options)
    return found.column_names, rest


def _blocks(
    path: str,
    compression: str | None,
    advance: Callable[[int], None],
    opened: pa.NativeFile | None,
) -> Iterator[bytes]:
    """Yield a file as blocks of whole lines."""
    file: Any = opened
    if file is None:
        file = sys.stdin.buffer if path == STDIN else pa.OSFile(path)
    stream = pa.CompressedInputStream(file, compression) if compression else file
    stored, rest = 0, b""
    while more := stream.read(BLOCK_BYTES):
        if path != STDIN:
            advance(file.tell() - stored)
            stored = file.tell()
        end = more.rfind(b"\n") + 1
        if end:
            yield rest + more[:end]
            rest = more[end:]
        else:
            rest += more
    if rest:
        yield rest


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Say which file it is that cannot be read."""
    try:
        yield
    except InvalidInputError:
        raise
    except _READ_ERRORS as error:
        raise bad_file(path, error) from error
