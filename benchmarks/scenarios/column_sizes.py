"""The size of columns and the speed of decoding them to Arrow, here and in Parquet.

A segment's column is its pages, its dictionary with value hashes, and its bitmap index; a Parquet
column is its chunks in a snappy file of pyarrow's. Speed is that of the best of five readings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

import projseg
from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.runner.machine import best_seconds
from projseg.benchmarks.runner.scenario import Bench, Scenario
from projseg.segment_format.file.description import describe
from projseg.table_layer.metadata.footer_match import open_uncached

__all__ = ["COLUMN_SIZES"]


def _run(bench: Bench) -> None:
    rows = EditStream(bench["rows"]).table()
    path = bench.folder / "rows.parquet"
    pq.write_table(rows, path, compression="snappy")
    table = projseg.Table.create(bench.folder / "rows", rows.schema)
    table.append(rows)
    chunks, context = _parquet_column_bytes(path), {"threads": bench["threads"]}
    bench.peers.append("parquet")
    for name, (size, encodings) in _segment_columns(table):
        gigabytes = rows[name].nbytes / 1e9
        speed = gigabytes / best_seconds(partial(table.query, columns=[name], context=context))
        values = {"stored bytes": size, "GB per s": speed, "encodings": encodings}
        bench.add("columns", name, "projseg", values)
        speed = gigabytes / best_seconds(partial(pq.read_table, path, columns=[name]))
        values = {"stored bytes": chunks[name], "GB per s": speed}
        bench.add("columns", name, "parquet", values)


def _segment_columns(table: projseg.Table) -> Iterator[tuple[str, tuple[int, str]]]:
    """Yield (column, (bytes, encodings)) of the base rows over all segments."""
    sizes: Counter[str] = Counter()
    encodings: dict[str, Counter[str]] = {}
    for listed in table.snapshot.segments:
        described = describe(open_uncached(table.snapshot.storage, listed))
        dictionaries = {one.name: one for one in described.dictionaries}
        for column in described.tables[0].columns:
            sizes[column.name] += column.pages.stored_bytes + column.bitmap_bytes
            names = encodings.setdefault(column.name, Counter())
            prefix = "ids: " if column.dictionary else ""
            names.update(f"{prefix}{name}" for name in column.pages.encodings)
            if column.dictionary:
                dictionary = dictionaries[column.dictionary]
                sizes[column.name] += dictionary.byte_count
                names.update(f"values: {name}" for name in dictionary.pages.encodings)
    for name, size in sizes.items():
        yield name, (size, ", ".join(found for found, _ in encodings[name].most_common(3)))


def _parquet_column_bytes(path: Path) -> Counter[str]:
    metadata = pq.read_metadata(path)
    sizes: Counter[str] = Counter()
    for group_index in range(metadata.num_row_groups):
        group = metadata.row_group(group_index)
        for column_index in range(group.num_columns):
            chunk = group.column(column_index)
            sizes[chunk.path_in_schema.split(".")[0]] += chunk.total_compressed_size
    return sizes


COLUMN_SIZES: Final = Scenario(
    "column-sizes",
    "Stored bytes and decoding speed of each column of edits, here and in Parquet.",
    {"rows": 3_000_000, "threads": 2},
    _run,
    {"rows": 3000},
)
