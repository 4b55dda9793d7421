"""The verb `inspect`: what is in a segment file or a Bloom file, and the bytes of each part."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa

from projseg.cli.output import OutputFormat, chosen_format, print_fields, print_rows
from projseg.cli.shared_arguments import Output
from projseg.errors import InvalidInputError
from projseg.segment_format.byte_reader import corrupt
from projseg.segment_format.file.description import (
    ColumnDescription,
    SegmentDescription,
    TableDescription,
    describe,
)
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE, TAIL_LAYOUT, parse_tail
from projseg.segment_format.indexes.bloom_file import BLOOM_TAIL_MAGIC, BloomFile
from projseg.segment_format.indexes.index_kinds import read_definition
from projseg.table_layer.storage.local_files import storage_error

_WIDE_FIELDS: Final = frozenset({"kind", "role", "nulls", "raw_bytes", "definition"})

ReadRange = Callable[[int, int], bytes]


def inspect(
    file: Annotated[str, "A segment file (.pseg) or a Bloom file (.pblm)."],
    *,
    output: Output = None,
) -> None:
    """Show a segment's tables, columns, encodings, dictionaries and what each takes.

    Of a Bloom file: what it indexes, its bands and its segments. As JSON, each line says in `part`
    what it describes; as CSV and Markdown, only the columns are printed, or the Bloom file's
    segments.
    """
    read_range, byte_count = opened(file)
    chosen = chosen_format(output)
    is_bloom = _is_bloom_file(read_range, byte_count)
    if is_bloom:
        totals, parts = _bloom_report(read_range, byte_count, file)
    else:
        totals, parts = _segment_report(describe_segment(read_range, byte_count, file))
    if chosen in (OutputFormat.CSV, OutputFormat.MARKDOWN):
        print_rows(parts["segments" if is_bloom else "columns"], chosen)
        return
    is_json = chosen is OutputFormat.JSON
    part = "bloom_file" if is_bloom else "segment"
    print_fields({"part": part, **totals} if is_json else totals, chosen)
    for part, rows in parts.items():
        if rows:
            shown = [{"part": part, **row} for row in rows] if is_json else _narrowed(rows)
            print_rows(shown, chosen, title=part)


def _segment_report(
    segment: SegmentDescription,
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    parts = {
        "tables": table_rows(segment),
        "columns": column_rows(segment),
        "dictionaries": dictionary_rows(segment),
        "postings": postings_rows(segment),
    }
    return summary(segment), parts


def _narrowed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without fields that are too wide for a terminal, or empty in every row."""
    silent = {name for name in rows[0] if all(row[name] is None for row in rows)}
    return [
        {name: value for name, value in row.items() if name not in _WIDE_FIELDS | silent}
        for row in rows
    ]


def describe_segment(read_range: ReadRange, byte_count: int, path: str) -> SegmentDescription:
    """Describe an opened segment file."""
    return describe(SegmentFile.open(read_range, byte_count, path=path))


def opened(path: str) -> tuple[ReadRange, int]:
    """Return what reads a range (offset, size) of a file, and the file's bytes.

    Raises InvalidInputError (PROJSEG_BAD_INPUT_FILE) if there is no file of that name, StorageError
    if it cannot be read.
    """
    if os.path.isdir(path):
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE",
            f"{path} is a directory; inspect one of the segment files in it, such as "
            "data/....pseg of a table, or describe the table",
        )
    try:
        file = pa.OSFile(path)
    except FileNotFoundError as error:
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE",
            f"{path} does not exist; give a segment file, such as `projseg segments` lists",
        ) from error
    except OSError as error:
        raise storage_error(error, "read", path) from error

    def read_range(offset: int, size: int) -> bytes:
        file.seek(offset)
        content: bytes = file.read(size)
        return content

    return read_range, file.size()


def summary(segment: SegmentDescription) -> dict[str, Any]:
    """Return the segment's totals, and its bytes by purpose."""
    return {
        "file": segment.path,
        "format_version": segment.format_version,
        "writer": segment.writer,
        "rows": segment.tables[0].row_count,
        "columns": len(segment.tables[0].columns),
        "projections": len(segment.projections),
        "bytes": segment.byte_count,
        **{
            purpose.replace(",", "").replace(" ", "_"): size
            for purpose, size in segment.bytes_by_purpose.items()
        },
        "bytes_saved_by_shared_dictionaries": segment.bytes_saved_by_sharing,
    }


def table_rows(segment: SegmentDescription) -> list[dict[str, Any]]:
    """Return a row for the base table and each projection, built or not."""
    built = [
        {
            "table": _name_of(table),
            "rows": table.row_count,
            "columns": len(table.columns),
            "bytes": sum(column.pages.stored_bytes for column in table.columns),
            "index_bytes": sum(column.bitmap_bytes for column in table.columns),
            "sort_order": ", ".join(table.sort_order),
            "definition": table.definition or None,
            "not_built": None,
        }
        for table in segment.tables
    ]
    blank = dict.fromkeys(built[0])
    failed = [{**blank, "table": name, "not_built": why} for name, why in segment.not_built]
    return [*built, *failed]


def column_rows(segment: SegmentDescription) -> list[dict[str, Any]]:
    """Return a row for each stored column of each table."""
    return [_column_row(table, column) for table in segment.tables for column in table.columns]


def _column_row(table: TableDescription, column: ColumnDescription) -> dict[str, Any]:
    return {
        "table": _name_of(table),
        "role": column.role,
        "column": column.name,
        "type": column.type,
        "kind": column.kind,
        "dictionary": column.dictionary,
        "encodings": _counted(column.pages.encodings),
        "pages": column.pages.page_count,
        "nulls": column.null_count,
        "bytes": column.pages.stored_bytes,
        "raw_bytes": column.pages.raw_bytes,
        "index_bytes": column.bitmap_bytes,
    }


def _name_of(table: TableDescription) -> str:
    return "base rows" if table.name == BASE_TABLE else table.name


def dictionary_rows(segment: SegmentDescription) -> list[dict[str, Any]]:
    """Return a row for each dictionary; `bytes_saved` is what copies for each table would take."""
    return [
        {
            "dictionary": dictionary.name,
            "type": dictionary.type,
            "values": dictionary.cardinality,
            "bytes": dictionary.pages.stored_bytes,
            "hash_bytes": dictionary.hash_bytes,
            "tables": len({table for table, _ in dictionary.used_by}),
            "bytes_saved": dictionary.bytes_saved,
        }
        for dictionary in segment.dictionaries
    ]


def postings_rows(segment: SegmentDescription) -> list[dict[str, Any]]:
    """Return a row for each index whose postings the segment holds."""
    return [
        {
            "index": one.kind,
            "column": one.column,
            "keys": one.key_count,
            "rows": one.row_count,
            "bytes": one.byte_count,
            "dictionary": one.dictionary,
        }
        for one in segment.postings
    ]


def _counted(names: Mapping[str, int]) -> str:
    """Return names with their counts, or the one name there is."""
    if len(names) == 1:
        return next(iter(names))
    return ", ".join(f"{name} x {count}" for name, count in names.items())


def _is_bloom_file(read_range: ReadRange, byte_count: int) -> bool:
    """Whether a file ends as Bloom files do."""
    size = len(BLOOM_TAIL_MAGIC)
    return byte_count >= size and read_range(byte_count - size, size) == BLOOM_TAIL_MAGIC


def _bloom_report(
    read_range: ReadRange, byte_count: int, path: str
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Return a Bloom file's totals, and a row for each of its bands and segments."""
    start = max(0, byte_count - TAIL_LAYOUT.size)
    content = memoryview(read_range(start, byte_count - start))
    tail, _ = parse_tail(content, byte_count, path, BLOOM_TAIL_MAGIC)
    ending = read_range(tail.footer_offset, byte_count - tail.footer_offset)
    file = BloomFile.open(ending, byte_count, path)
    file.verify(read_range)
    footer = file.footer
    try:
        definition = read_definition(footer.definition)
    except (ValueError, msgspec.MsgspecError) as error:
        raise corrupt(path, "definition", str(error)) from error
    keys = sum(one.key_count for one in footer.segments)
    totals = {
        "file": path,
        **msgspec.structs.asdict(definition),
        "definition_hash": footer.definition_hash,
        "segments": len(footer.segments),
        "keys": keys,
        "bytes": byte_count,
        "bits_per_key": round(8 * byte_count / keys, 1) if keys else None,
    }
    bands = [
        {
            "band": number,
            "blocks": band.blocks,
            "segments": band.segment_count,
            "rows_per_page": band.page_rows,
            "bytes": band.byte_count,
        }
        for number, band in enumerate(footer.bands)
    ]
    segments = [
        {
            "segment": one.file,
            "status": one.status,
            "keys": one.key_count,
            "band": one.band,
            "slot": one.slot,
            "postings": one.postings,
        }
        for one in footer.segments
    ]
    return totals, {"bands": bands, "segments": segments}
