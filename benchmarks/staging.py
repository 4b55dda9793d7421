"""The rows of a run, made once and read by every engine.

They are staged uncompressed in one Arrow file, which an engine maps instead of reading, so that the
time to load is the engine's own; and as Parquet, for those whose only door is a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from projseg.benchmarks.generator import SCHEMA, EditStream

__all__ = ["Source", "stage"]


@dataclass(frozen=True, slots=True)
class Source:
    """Staged rows: `edits.arrow` and `parquet/` in one folder."""

    folder: Path

    @property
    def parquet_folder(self) -> Path:
        """Folder of snappy Parquet files."""
        return self.folder / "parquet"

    def table(self) -> pa.Table:
        """Return all rows, mapped from the file."""
        with pa.memory_map(str(self.folder / "edits.arrow")) as mapped:
            return pa.ipc.open_file(mapped).read_all()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order made, at least 100 k rows at a time but for the last."""
        with pa.memory_map(str(self.folder / "edits.arrow")) as mapped:
            file = pa.ipc.open_file(mapped)
            for batch_index in range(file.num_record_batches):
                yield file.get_batch(batch_index)

    def reader(self) -> pa.RecordBatchReader:
        """Return the batches as an Arrow reader, to be consumed once."""
        return pa.RecordBatchReader.from_batches(SCHEMA, self.batches())


def stage(stream: EditStream, folder: Path, *, with_parquet: bool = True) -> Source:
    """Make the rows and write them in both forms, or as Arrow only: about 150 bytes a row."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        pa.OSFile(str(folder / "edits.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, SCHEMA) as writer,
    ):
        for batch in stream.batches():
            writer.write_batch(batch)
    source = Source(folder)
    if with_parquet:
        stream.write_parquet(source.parquet_folder)
    return source
