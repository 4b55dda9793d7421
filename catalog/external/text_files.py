"""CSV and JSON as batches of a table's rows; each line that is no row is known by its number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from projseg.catalog.external.csv_rows import CsvRows
from projseg.catalog.external.input_columns import BadLines, bad_file, check_columns
from projseg.catalog.external.json_rows import JsonRows
from projseg.catalog.external.readings import Reading, TextForm, TypeNote
from projseg.catalog.external.text_blocks import text_blocks
from projseg.errors import ProjsegError
from projseg.evaluation.typed_columns import Casts

_READ_ERRORS: Final = (pa.ArrowException, ProjsegError, OSError, ValueError)


class _Fault(NamedTuple):
    """A line that is no row of a table: broken, or with a value that is not of its column."""

    number: int
    line: bytes
    reason: str
    row: int | None = None
    place: int = 0


class TextFile:
    """One file of lines, `csv` or `json`, whose columns are guessed from its first block.

    `-` is standard input, and the compression Arrow's name of it. `advance` gets the number of
    stored bytes each time some have been read; `opened` has the bytes where `path` only names them.
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
        with _naming(path):
            pieces = text_blocks(path, compression, form.encoding, advance, opened)
            self._rows = (CsvRows if kind == "csv" else JsonRows)(path, pieces, form)
        self._casts = Casts(form.values)
        self._checks = not form.leaves_others

    @property
    def schema(self) -> pa.Schema:
        """The columns as they were guessed."""
        return self._rows.schema

    @property
    def is_empty(self) -> bool:
        """Whether it has neither rows nor names of columns."""
        return self._rows.is_empty

    @property
    def notes(self) -> list[TypeNote]:
        """What a person may not expect of the types."""
        return self._rows.notes

    def rows(
        self, target: pa.Schema, bad: BadLines, *, nulls_bad: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in a table's columns, once, without the lines that `bad` takes.

        With `nulls_bad`, a value that is not of its column is null, and its line good.
        """
        if self._checks:
            check_columns(self.path, self.schema.names, target)
        with _naming(self.path):
            for reading in self._rows.readings(target, self._casts):
                yield self._batch(reading, target, bad, nulls_bad=nulls_bad)

    def _batch(
        self, reading: Reading, target: pa.Schema, bad: BadLines, *, nulls_bad: bool
    ) -> pa.RecordBatch:
        masks = [] if nulls_bad else [one.bad for one in reading.columns]
        found = np.zeros(reading.row_count, bool)
        for mask in masks:
            if mask is not None:
                found |= mask
        columns = [one.values for one in reading.columns]
        faults = [_Fault(*broken) for broken in reading.broken]
        if found.any():
            rows = np.flatnonzero(found).tolist()
            for row, (number, line) in zip(rows, reading.where(rows), strict=True):
                place = next(n for n, mask in enumerate(masks) if mask is not None and mask[row])
                faults.append(_Fault(number, line, "", row, place))
            good = pa.array(~found)
            columns = [column.filter(good) for column in columns]
        for fault in sorted(faults):
            if fault.row is None:
                bad.add(self.path, fault.number, fault.line, fault.reason)
                continue
            field = target.field(fault.place)
            text = reading.cell(fault.row, fault.place)
            bad.add_value(self.path, fault.number, fault.line, field, text, self._casts)
        return pa.record_batch(columns, schema=target)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Say which file it is that cannot be read."""
    try:
        yield
    except ProjsegError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise bad_file(path, error) from error
