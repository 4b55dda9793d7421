"""Measure the size of columns and the speed of decoding them to Arrow, here and in Parquet."""

from __future__ import annotations

import gzip
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from projseg.benchmarks.records import ColumnStorage
from projseg.segment_format.file.description import (
    ColumnDescription,
    DictionaryDescription,
    describe,
)
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.layout.footer import BASE_TABLE
from projseg.table_layer.storage.locate_storage import open_storage

__all__ = ["measure_columns", "read_json_lines"]

_REPEATS: Final = 5


def measure_columns(
    rows_of: str, rows: pa.Table, folder: Path, thread_count: int
) -> list[ColumnStorage]:
    """Store rows in both formats, and measure each column of both.

    A segment's column is its pages, its dictionary with value hashes, and its bitmap index; a
    Parquet column is its chunks in a snappy file of pyarrow's. Speed is Arrow bytes a second over
    the best of five readings of the whole column, by `Table.query` and by `pyarrow.parquet`.

    Parameters
    ----------
    rows_of : str
        Name of the data set.
    rows : pa.Table
        Rows in memory, of types that projseg stores.
    folder : Path
        An empty place for both copies.
    thread_count : int
        Threads of `Table.query`; pyarrow uses as many as there are processors.
    """
    from projseg import (
        Table,
    )  # its compiled kernels load slowly: only for those who measure columns

    folder.mkdir(parents=True, exist_ok=True)
    parquet_path, location = folder / "rows.parquet", folder / "rows"
    pq.write_table(rows, parquet_path, compression="snappy")
    table = Table.create(location, rows.schema)
    table.append(rows)
    stored = dict(_segment_columns(location))
    chunks = _parquet_column_bytes(parquet_path)
    measured = []
    context = {"threads": thread_count}
    for name in rows.column_names:
        arrow_bytes = rows[name].nbytes
        parquet_seconds = _best_seconds(partial(pq.read_table, parquet_path, columns=[name]))
        segment_seconds = _best_seconds(partial(table.query, columns=[name], context=context))
        segment_bytes, encodings = stored[name]
        measured.append(
            ColumnStorage(
                rows_of,
                name,
                arrow_bytes,
                chunks[name],
                arrow_bytes / parquet_seconds,
                segment_bytes,
                arrow_bytes / segment_seconds,
                encodings,
            )
        )
    return measured


def read_json_lines(path: Path) -> pa.Table:
    """Return gzipped JSON lines as a table; a column `time` becomes microseconds UTC."""
    with gzip.open(path) as lines:
        rows = pyarrow.json.read_json(lines)
    arrays = [_plain(name, rows[name]) for name in rows.column_names]
    return pa.table(arrays, names=rows.column_names)


def _plain(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    if name == "time" or pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", tz="UTC"))
    return column


def _segment_columns(location: Path) -> Iterator[tuple[str, tuple[int, str]]]:
    """Yield (column, (bytes, encodings)) of the base rows over all segments."""
    storage = open_storage(location)
    sizes: Counter[str] = Counter()
    encodings: dict[str, Counter[str]] = {}
    for path in sorted(location.rglob("*.pseg")):
        name = path.relative_to(location).as_posix()
        segment = SegmentFile.open(_range_reader(storage, name), storage.size(name), path=name)
        described = describe(segment)
        dictionaries = {one.name: one for one in described.dictionaries}
        for column in described.tables[0].columns:
            dictionary = dictionaries[column.dictionary] if column.dictionary else None
            sizes[column.name] += _stored_bytes(segment, column, dictionary)
            names = encodings.setdefault(column.name, Counter())
            names.update(_prefixed("ids: " if dictionary else "", column.pages.encodings))
            if dictionary:
                names.update(_prefixed("values: ", dictionary.pages.encodings))
    for name, size in sizes.items():
        yield name, (size, ", ".join(found for found, _ in encodings[name].most_common(3)))


def _stored_bytes(
    segment: SegmentFile, column: ColumnDescription, dictionary: DictionaryDescription | None
) -> int:
    """Return the bytes of pages, page directories, dictionary and bitmap index."""
    size = column.pages.stored_bytes + column.bitmap_bytes
    entries = segment.table(BASE_TABLE).columns
    size += sum(len(entry.pages) for entry in entries if entry.name == column.name)
    if dictionary is not None:
        size += dictionary.byte_count
        entries_of = segment.footer.dictionaries
        size += sum(len(entry.pages) for entry in entries_of if entry.name == dictionary.name)
    return size


def _prefixed(prefix: str, counts: dict[str, int]) -> dict[str, int]:
    return {prefix + name: count for name, count in counts.items()}


def _range_reader(storage: Any, name: str) -> Callable[[int, int], bytes]:
    def read_range(offset: int, size: int) -> bytes:
        content: bytes = storage.read_range(name, offset, size)
        return content

    return read_range


def _parquet_column_bytes(path: Path) -> dict[str, int]:
    metadata = pq.read_metadata(path)
    sizes: Counter[str] = Counter()
    for group_index in range(metadata.num_row_groups):
        group = metadata.row_group(group_index)
        for column_index in range(group.num_columns):
            chunk = group.column(column_index)
            sizes[chunk.path_in_schema.split(".")[0]] += chunk.total_compressed_size
    return dict(sizes)


def _best_seconds(task: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - start)
    return best
