"""The files of an import, as one stream of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import pyarrow as pa

from projseg.cli import input_files
from projseg.cli.bad_lines import SKIP, BadLines
from projseg.cli.output import OutputFormat, print_rows
from projseg.cli.text_files import STDIN, TextFile, TextForm
from projseg.memory.lazy import cached_property
from projseg.segment_format.types import type_name


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
        stored = [input_files.stored_bytes(path) for path in paths if path != STDIN]
        self._kinds = [input_files.kind_of(path, kind) for path in paths]
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
                yield from input_files.cast_batches(path, file, schema)

    def _opened(
        self, place: int, advance: Callable[[int], None]
    ) -> TextFile | pa.RecordBatchReader:
        path, (kind, compression) = self._paths[place], self._kinds[place]
        if kind == "parquet":
            return input_files.open_file(path, advance, kind)
        return TextFile(path, kind, compression, self._form, advance)


def show_sample(
    sources: Sources,
    types: Sequence[str],
    time_column: str | None,
    count: int,
    output: OutputFormat | None,
) -> None:
    """Print the columns that a table would have, and its first rows."""
    schema = input_files.table_schema(sources.schema, types, time_column)
    print_rows([{"column": field.name, "type": type_name(field.type)} for field in schema], output)
    rows = sources.rows(schema, BadLines(SKIP), lambda _: None)
    found = pa.Table.from_batches(islice(rows, 1), schema)
    print_rows(found.slice(0, count), output)
