"""The rows of a run, made once and read by every engine.

They are staged uncompressed in one Arrow file, which an engine maps instead of reading, so that the
time to load is the engine's own; edits also as Parquet, for those whose only door is a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from projseg.benchmarks.generator import EditStream

__all__ = ["RowsToStage", "Source", "stage"]


class RowsToStage(Protocol):
    """The rows of one dataset, the same at every call."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""

    @property
    def row_count(self) -> int:
        """Number of rows."""

    @property
    def seed(self) -> int:
        """What the rows were drawn from, 0 where nothing was."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order."""


@dataclass(frozen=True, slots=True)
class Source:
    """Staged rows: `rows.arrow` and perhaps `parquet/` in one folder."""

    folder: Path

    @property
    def parquet_folder(self) -> Path:
        """Folder of snappy Parquet files."""
        return self.folder / "parquet"

    def table(self) -> pa.Table:
        """Return all rows, mapped from the file."""
        with pa.memory_map(str(self.folder / "rows.arrow")) as mapped:
            return pa.ipc.open_file(mapped).read_all()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order made, at least 100 k rows at a time but for the last."""
        with pa.memory_map(str(self.folder / "rows.arrow")) as mapped:
            file = pa.ipc.open_file(mapped)
            for batch_index in range(file.num_record_batches):
                yield file.get_batch(batch_index)

    def schema(self) -> pa.Schema:
        """Return the columns."""
        with pa.memory_map(str(self.folder / "rows.arrow")) as mapped:
            return pa.ipc.open_file(mapped).schema

    def reader(self) -> pa.RecordBatchReader:
        """Return the batches as an Arrow reader, to be consumed once."""
        return pa.RecordBatchReader.from_batches(self.schema(), self.batches())


def stage(rows: RowsToStage, folder: Path, *, with_parquet: bool = True) -> Source:
    """Make the rows and write them as Arrow, and edits also as Parquet: about 150 bytes a row."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        pa.OSFile(str(folder / "rows.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, rows.schema) as writer,
    ):
        for batch in rows.batches():
            writer.write_batch(batch)
    source = Source(folder)
    if with_parquet and isinstance(rows, EditStream):
        rows.write_parquet(source.parquet_folder)
    return source
