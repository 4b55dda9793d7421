"""The rows of a run, made once and read by every engine.

They are staged uncompressed in one Arrow file, which an engine maps instead of reading, so that the
time to load is the engine's own; as Parquet for those whose only door is a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

_GROUP_ROWS: Final = 1 << 20  # pyarrow's own default


class RowsToStage(Protocol):
    """The rows of one table, the same at every call."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""

    @property
    def row_count(self) -> int:
        """Number of rows."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order."""


@dataclass(frozen=True, slots=True)
class Source:
    """Staged rows: `rows.arrow` and perhaps `parquet/` in one folder."""

    folder: Path

    @property
    def parquet_folder(self) -> Path:
        """Folder of a snappy Parquet file."""
        return self.folder / "parquet"

    def table(self) -> pa.Table:
        """Return all rows, mapped from the file."""
        with pa.memory_map(str(self.folder / "rows.arrow")) as mapped:
            return pa.ipc.open_file(mapped).read_all()

    def reader(self) -> pa.RecordBatchReader:
        """Return the batches in the order made, to be consumed once."""
        return self.table().to_reader()


def stage(rows: RowsToStage, folder: Path, *, with_parquet: bool = True) -> Source:
    """Make the rows and write them as Arrow, and as Parquet: about 150 bytes a row."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        pa.OSFile(str(folder / "rows.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, rows.schema) as writer,
    ):
        for batch in rows.batches():
            writer.write_batch(batch)
    source = Source(folder)
    if with_parquet:
        write_parquet(source.reader(), source.parquet_folder / "rows.parquet")
    return source


def write_parquet(rows: pa.RecordBatchReader, path: Path) -> None:
    """Write a snappy file, as Spark's default is, of row groups of a million rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, rows.schema, compression="snappy") as writer:
        for batch in _grouped(rows):
            writer.write_table(batch)


def _grouped(rows: pa.RecordBatchReader) -> Iterator[pa.Table]:
    batches: list[pa.RecordBatch] = []
    for batch in rows:
        batches.append(batch)
        if sum(map(len, batches)) >= _GROUP_ROWS:
            yield pa.Table.from_batches(batches)
            batches = []
    if batches:
        yield pa.Table.from_batches(batches)
