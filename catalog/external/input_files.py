"""The files of an import, as one stream of rows in bounded memory: Parquet, CSV or JSON."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet

from projseg.catalog.external.input_columns import BadLines, bad_file, cast_batches
from projseg.catalog.external.text_files import STDIN, TextFile, TextForm
from projseg.errors import InvalidInputError
from projseg.memory.forks import cached_property

_COMPRESSIONS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_KINDS: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


class Sources:
    """Files to import.

    Parameters
    ----------
    paths : sequence of str
        The files; `-` is standard input.
    kind : str or None
        What they hold; None: their endings tell it.
    form : TextForm
        How those of text are written.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_INPUT_FILE, PROJSEG_UNKNOWN_FILE_TYPE.
    """

    def __init__(self, paths: Sequence[str], kind: str | None, form: TextForm) -> None:
        self._paths = paths
        self._form = form
        stored = [stored_bytes(path) for path in paths if path != STDIN]
        self._kinds = [kind_of(path, kind) for path in paths]
        self.byte_count = sum(stored) if len(stored) == len(paths) else None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the first file, as they are guessed."""
        return self._first.schema

    @cached_property
    def _first(self) -> TextFile | pa.RecordBatchReader:
        return self._opened(0, lambda _: None)

    def rows(
        self, schema: pa.Schema, bad: BadLines, advance: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all files in a table's columns; standard input can be read once."""
        for place, path in enumerate(self._paths):
            is_open = path == STDIN and place == 0
            file = self._first if is_open else self._opened(place, advance)
            if isinstance(file, TextFile):
                yield from file.rows(schema, bad)
            else:
                yield from cast_batches(path, file, schema)

    def _opened(
        self, place: int, advance: Callable[[int], None]
    ) -> TextFile | pa.RecordBatchReader:
        path, (kind, compression) = self._paths[place], self._kinds[place]
        if kind == "parquet":
            return open_parquet(path, advance)
        return TextFile(path, kind, compression, self._form, advance)


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
        raise bad_file(path, error) from error
    if stat.S_ISDIR(status.st_mode):
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE",
            f"{path} is a directory; name the files in it, such as {path.rstrip('/')}/*.parquet",
        )
    return status.st_size


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
    if kind is None:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_FILE_TYPE",
            f"cannot tell what '{path}' holds; its name must end in .parquet, .csv, .json or "
            ".jsonl, the text ones also with .gz, .bz2 or .zst, or --format say it",
        )
    return kind, compression


def open_parquet(path: str, advance: Callable[[int], None]) -> pa.RecordBatchReader:
    """Open a file, to be read in batches; `advance` receives the number of stored bytes read.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_INPUT_FILE if it cannot be read.
    """
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
