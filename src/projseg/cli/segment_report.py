"""What a segment file holds, as rows: its tables, columns, dictionaries and their bytes."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Final

import numpy as np
import pyarrow as pa

from projseg.segment_format.bitmap_index import INDEX_BLOCK_DTYPE
from projseg.segment_format.encodings.decimal_double import DECIMAL_ID
from projseg.segment_format.encodings.integers import INTEGER_ENCODINGS
from projseg.segment_format.encodings.nested import NESTED_ID
from projseg.segment_format.encodings.plain import PLAIN_ID
from projseg.segment_format.encodings.text import TEXT_ID
from projseg.segment_format.footer import BASE_TABLE, ColumnEntry, TableEntry
from projseg.segment_format.segment_file import SegmentFile

ENCODING_NAMES: Final[dict[int, str]] = {
    **{number: type(one).__name__ for number, one in INTEGER_ENCODINGS.items()},
    PLAIN_ID: "Plain",
    DECIMAL_ID: "DecimalDouble",
    TEXT_ID: "Text",
    NESTED_ID: "Nested",
}


def open_segment_file(path: str) -> SegmentFile:
    """Open any segment file, of a table or on its own."""
    file = pa.OSFile(path)

    def read_range(offset: int, size: int) -> bytes:
        file.seek(offset)
        content: bytes = file.read(size)
        return content

    return SegmentFile.open(read_range, file.size(), path=path)


def summary(segment: SegmentFile) -> dict[str, Any]:
    """Return the segment's totals."""
    base, *projections = segment.tables
    saved = sum(row["bytes_saved"] for row in dictionary_rows(segment))
    return {
        "file": segment.path,
        "writer": segment.footer.writer,
        "rows": base.row_count,
        "columns": len(base.columns),
        "projections": len(projections),
        "footer_bytes": segment.tail.footer_bytes,
        "bytes_saved_by_shared_dictionaries": saved,
    }


def table_rows(segment: SegmentFile) -> list[dict[str, Any]]:
    """Return a row for the base table and each projection, built or not."""
    built = [
        {
            "table": "base rows" if table.name == BASE_TABLE else table.name,
            "rows": table.row_count,
            "columns": len(table.columns),
            "bytes": sum(_stored_bytes(segment, table, column) for column in table.columns),
            "index_bytes": sum(_index_bytes(column) for column in table.columns),
            "sort_order": ", ".join(table.sort_order),
            "definition": table.definition or None,
            "not_built": None,
        }
        for table in segment.tables
    ]
    blank = dict.fromkeys(built[0])
    failed = [
        {**blank, "table": entry.name, "not_built": entry.reason}
        for entry in segment.footer.not_built
    ]
    return [*built, *failed]


def column_rows(segment: SegmentFile) -> list[dict[str, Any]]:
    """Return a row for each stored column of each table."""
    return [
        _column_row(segment, table, column) for table in segment.tables for column in table.columns
    ]


def _column_row(segment: SegmentFile, table: TableEntry, column: ColumnEntry) -> dict[str, Any]:
    records = segment.directory(table.name, column.role, column.name).records
    encodings = Counter(ENCODING_NAMES[int(number)] for number in records["encoding"])
    dictionaries = segment.footer.dictionaries
    dictionary = None if column.dictionary is None else dictionaries[column.dictionary].name
    return {
        "table": "base rows" if table.name == BASE_TABLE else table.name,
        "role": column.role,
        "column": column.name,
        "type": column.type,
        "kind": column.kind,
        "dictionary": dictionary,
        "encodings": ", ".join(f"{name} x {count}" for name, count in encodings.most_common()),
        "compressed_pages": int(np.count_nonzero(records["compression"])),
        "pages": len(records),
        "nulls": int(records["null_count"].sum()),
        "bytes": int(records["stored_bytes"].sum()),
        "raw_bytes": int(records["raw_bytes"].sum()),
        "index_bytes": _index_bytes(column),
    }


def dictionary_rows(segment: SegmentFile) -> list[dict[str, Any]]:
    """Return a row for each dictionary; `bytes_saved` is what copies for each table would take."""
    users: defaultdict[int, set[str]] = defaultdict(set)
    for table in segment.tables:
        for column in table.columns:
            if column.dictionary is not None:
                users[column.dictionary].add(table.name)
    rows = []
    for index, entry in enumerate(segment.footer.dictionaries):
        value_bytes = segment.dictionary_directory(entry).stored_bytes
        hash_bytes = 0 if entry.hashes is None else entry.hashes.byte_count
        rows.append(
            {
                "dictionary": entry.name,
                "type": entry.type,
                "values": entry.cardinality,
                "bytes": value_bytes,
                "hash_bytes": hash_bytes,
                "tables": len(users[index]),
                "bytes_saved": (value_bytes + hash_bytes) * max(0, len(users[index]) - 1),
            }
        )
    return rows


def _stored_bytes(segment: SegmentFile, table: TableEntry, column: ColumnEntry) -> int:
    return segment.column_bytes(table.name, column.role, column.name)


def _index_bytes(column: ColumnEntry) -> int:
    blocks = np.frombuffer(column.index_blocks, INDEX_BLOCK_DTYPE)
    return int(blocks["stored_bytes"].sum())
