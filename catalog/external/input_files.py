"""The files of an import, as one stream of rows in bounded memory: Parquet, CSV or JSON."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.parquet

from projseg.catalog.external.input_columns import (
    BadLines,
    bad_file,
    cast_batches,
    merged_schema,
)
from projseg.catalog.external.readings import TextForm, check_names
from projseg.catalog.external.text_blocks import STDIN
from projseg.catalog.external.text_files import TextFile
from projseg.errors import InvalidInputError
from projseg.memory.forks import cached_property

_COMPRESSIONS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_KINDS: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


class Sources:
    """Files to import, and folders of files; `-` is standard input.

    Without a kind, their endings tell what they hold.
    """

    def __init__(self, paths: Sequence[str], kind: str | None, form: TextForm) -> None:
        self.notes: list[str] = []
        self._paths = [file for path in paths for file in self._files_of(path, kind)]
        self._form = form
        stored = [stored_bytes(path) for path in self._paths if path != STDIN]
        self._kinds = [kind_of(path, kind) for path in self._paths]
        self.byte_count = sum(stored) if len(stored) == len(self._paths) else None
        self._stored: list[int] = []
        self._advance: Callable[[int], None] = self._stored.append
        self._is_unread = True

    @property
    def paths(self) -> Sequence[str]:
        """The files, also of folders."""
        return tuple(self._paths)

    def reads(self, form: TextForm) -> None:
        """Read the files of text in another form from now on."""
        self._form = form
        self.__dict__.pop("_first", None)
        self._is_unread = True

    @property
    def schema(self) -> pa.Schema:
        """The columns of the first file that is not empty, as they are guessed."""
        return self._schema(self._first[0], self._first[1])

    @property
    def all_columns(self) -> pa.Schema:
        """The columns of all files; of standard input only where it is first."""
        place, file = self._first
        rest = range(place + 1, len(self._paths))
        later = ((n, self._opened(n, _ignore)) for n in rest if self._paths[n] != STDIN)
        schemas = (self._schema(*one) for one in later if not _is_empty(one[1]))
        return merged_schema(chain([self._schema(place, file)], schemas))

    @cached_property
    def _first(self) -> tuple[int, TextFile | pa.RecordBatchReader]:
        for place in range(len(self._paths)):
            file = self._opened(place, lambda stored: self._advance(stored))
            if not _is_empty(file):
                return place, file
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE", f"{self._paths[0]} is empty; give a file with rows"
        )

    def rows(
        self, schema: pa.Schema, bad: BadLines, advance: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all files in a table's columns; standard input can be read once."""
        start, first = self._first
        is_unread, self._is_unread = self._is_unread, False
        self._advance = advance
        if is_unread:
            advance(sum(self._stored))
        for place in range(start, len(self._paths)):
            path = self._paths[place]
            is_open = place == start and (is_unread or path == STDIN)
            file = first if is_open else self._opened(place, advance)
            if isinstance(file, TextFile):
                self.notes += self._of_types(path, file, schema)
                yield from file.rows(schema, bad)
            else:
                yield from cast_batches(path, file, schema, self._form)

    def _of_types(self, path: str, file: TextFile, schema: pa.Schema) -> Iterator[str]:
        """Yield why columns that nobody declared are texts."""
        texts = {field.name.lower() for field in schema if pa.types.is_string(field.type)}
        texts -= {name.lower() for name in self._form.texts}
        for name, reason in file.notes:
            if name.lower() in texts:
                yield f"{path}: column '{name}' is text, {reason}"

    def _files_of(self, path: str, kind: str | None) -> list[str]:
        """Return a file, or the files below a folder whose endings tell what they hold."""
        if path == STDIN or not os.path.isdir(path):
            return [path]
        found: list[str] = []
        others: list[str] = []
        for folder, inner, names in os.walk(path):
            inner[:] = sorted(name for name in inner if not name.startswith((".", "_")))
            for name in sorted(names):
                if not name.startswith((".", "_")):
                    is_one = kind or _ending(name)[0] in _KINDS
                    (found if is_one else others).append(os.path.join(folder, name))
        if not found:
            raise InvalidInputError(
                "PROJSEG_BAD_INPUT_FILE",
                f"{path} is a directory without files that end in {', '.join(_KINDS)}; name files, "
                "or say their --format",
            )
        if others:
            self.notes.append(
                f"{path}: files left out, as their endings do not tell what they hold: "
                f"{len(others)}, such as {others[0]}; name them with their --format"
            )
        return found

    def _schema(self, place: int, file: TextFile | pa.RecordBatchReader) -> pa.Schema:
        if isinstance(file, TextFile):
            return file.schema
        named = zip(self._form.names(file.schema.names), file.schema.types, strict=True)
        kept = [(name, kind) for name, kind in named if name is not None]
        check_names(self._paths[place], [name for name, _ in kept])
        return pa.schema(kept)

    def _opened(
        self, place: int, advance: Callable[[int], None]
    ) -> TextFile | pa.RecordBatchReader:
        path, (kind, compression) = self._paths[place], self._kinds[place]
        if kind == "parquet":
            return open_parquet(path, advance)
        form = self._form
        if kind == "tsv" and form.delimiter is None:
            form = replace(form, delimiter="\t")
        return TextFile(path, "json" if kind == "json" else "csv", compression, form, advance)


def _ignore(_: int) -> None:
    pass


def _is_empty(file: TextFile | pa.RecordBatchReader) -> bool:
    return isinstance(file, TextFile) and file.is_empty


def stored_bytes(path: str) -> int:
    """Return a file's size in bytes."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise bad_file(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE",
            f"{path} is a directory, a pipe or a device; name files, and send a pipe to standard "
            f"input as {STDIN}",
        )
    return status.st_size


def kind_of(path: str, asked: str | None = None) -> tuple[str, str | None]:
    """Return what a file holds, a value of `_KINDS`, and Arrow's name of its compression."""
    ending, compression = _ending(path)
    kind = asked or _KINDS.get(ending)
    if kind is None:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_FILE_TYPE",
            f"cannot tell what '{path}' holds; its name must end in .parquet, .csv, .tsv, "
            ".json or .jsonl, the text ones also with .gz, .bz2 or .zst, or --format say it",
        )
    return kind, compression


def _ending(path: str) -> tuple[str, str | None]:
    """Return the ending that tells what a file holds, and Arrow's name of its compression."""
    stem, ending = os.path.splitext(path)
    compression = _COMPRESSIONS.get(ending.lower())
    return (os.path.splitext(stem)[1] if compression else ending).lower(), compression


def open_parquet(path: str, advance: Callable[[int], None]) -> pa.RecordBatchReader:
    """Open a file, to be read in batches; `advance` receives the number of stored bytes read."""
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise bad_file(path, error) from error
    share = stored_bytes(path) / max(1, file.metadata.num_rows)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in file.iter_batches():
            advance(int(batch.num_rows * share))
            yield batch

    return pa.RecordBatchReader.from_batches(file.schema_arrow, batches())
