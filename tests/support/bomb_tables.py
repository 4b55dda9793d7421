"""Tables of one small, valid segment file whose columns decode to very many values.

`write_bomb` writes a table that verification accepts.
"""

import struct
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import zstandard
from encoding_pages import text_page
from forged_segments import Forgery, bounded
from segment_bytes import FILE_ID

from projseg.kernels.integer_codes import pack_bits
from projseg.segment_format.footer import (
    TAIL_LAYOUT,
    ColumnEntry,
    DictionaryEntry,
    FieldEntry,
    Footer,
    TableEntry,
)
from projseg.segment_format.logical_types import parse_type_name
from projseg.table_layer.commits.commit import commit, create_table
from projseg.table_layer.metadata.change import Append
from projseg.table_layer.metadata.segment_entry import ColumnZone, SegmentEntry
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.paths import new_write_id, segment_name

PAGE_ROWS = 65_536


@dataclass
class BombColumn:
    """A column of equal pages, and the pages of its dictionary if it has one."""

    type: str
    kind: str
    page: tuple[bytes, dict]
    dictionary: tuple[int, list] | None = None


def constant(value, row_count=PAGE_ROWS):
    """A page of one integer."""
    return struct.pack("<q", value), bounded(value, value, row_count, 1)


def constant_double(value):
    bits = struct.unpack("<q", struct.pack("<d", value))[0]
    return struct.pack("<q", bits), bounded(bits, bits, PAGE_ROWS, 1)


def steps(row_count=PAGE_ROWS):
    """A page of 0, 1, 2 and so on, whose equal differences take no bits."""
    return struct.pack("<qqII", 0, 1, 0, 0), bounded(0, row_count - 1, row_count, 5)


def two_runs():
    """A page of two runs: zeros, then ones."""
    half = struct.pack("<q", PAGE_ROWS // 2)
    values = struct.pack("<qqII", 0, 1, 0, 0)
    return struct.pack("<IHH", 2, 1, 5) + half + values, bounded(0, 1, PAGE_ROWS, 7)


def nothing():
    """A page of nulls, whose values are zeros."""
    claims = {"row_count": PAGE_ROWS, "null_count": PAGE_ROWS, "encoding": 1, "validity": 1}
    return struct.pack("<q", 0), claims


def wide_decimal():
    """A compressed page of one integer of more than 64 bits, repeated."""
    part = (10**30).to_bytes(16, "little") * PAGE_ROWS
    return squeezed(part, {"row_count": PAGE_ROWS, "encoding": 8})


def word():
    """A dictionary page of one short text."""
    return text_page(pa.array(["a"]))


def long_texts(count=40):
    """A dictionary of long texts that differ only in their last bytes."""
    pages = []
    for number in range(count):
        text = b"x" * (2**24 - 8) + f"{number:08d}".encode()
        part = struct.pack("<II", 1, 0) + struct.pack("<q", len(text)) + text
        pages.append(squeezed(part, {"row_count": 1, "encoding": 10}))
    return count, pages


def ascending_dictionary(page_count):
    """A dictionary of 0, 1, 2 and so on."""
    pages = []
    for number in range(page_count):
        first = number * PAGE_ROWS
        facts = bounded(first, first + PAGE_ROWS - 1, PAGE_ROWS, 5)
        pages.append((struct.pack("<qqII", first, 1, 0, 0), facts))
    return page_count * PAGE_ROWS, pages


def squeezed_zeros():
    """A compressed bit-packed page of zeros, one bit for each value."""
    words = pack_bits(np.zeros(PAGE_ROWS, np.uint64), 1).tobytes()
    part = struct.pack("<qII", 0, 1, 0) + words
    return squeezed(part, bounded(0, 0, PAGE_ROWS, 3))


def squeezed(part, claims):
    """A page compressed as far as zstandard can."""
    packed = zstandard.ZstdCompressor(level=19).compress(part)
    return packed, {**claims, "compression": 1, "raw_bytes": len(part)}


def long_text(byte_count):
    """A page of one text."""
    part = struct.pack("<II", 1, 0) + struct.pack("<q", byte_count) + b"x" * byte_count
    return squeezed(part, {"row_count": 1, "encoding": 10})


def equal_lists(depth, item_count):
    """A page of one row: a list of many items, each a nest of lists of one item."""
    part = struct.pack("<II", 1, item_count) + struct.pack("<q", item_count)
    for _ in range(depth - 1):
        part += struct.pack("<BBHI", 12, 0, 0, 0)
        part += struct.pack("<II", 1, item_count) + struct.pack("<q", 1)
    part += struct.pack("<BBHI", 1, 0, 0, 0) + struct.pack("<q", 7)
    return part, {"row_count": 1, "encoding": 12}


def write_bomb(location, row_count, columns):
    """Create a table of one segment; return the bytes of its file.

    `columns` are `BombColumn` by name; each has as many equal pages as the rows need.
    """
    forgery = Forgery()
    dictionaries, entries = [], []
    for name, column in columns.items():
        position = None
        if column.dictionary is not None:
            position = len(dictionaries)
            cardinality, pages = column.dictionary
            directory = forgery.directory(pages)
            dictionaries.append(DictionaryEntry(name, column.type, cardinality, directory, None))
        page_rows = column.page[1]["row_count"]
        assert row_count % page_rows == 0
        directory = forgery.directory([column.page] * (row_count // page_rows))
        entries.append(
            ColumnEntry("base", name, column.type, column.kind, position, directory, b"")
        )
    content = forgery.finish(
        Footer(
            file_id=FILE_ID,
            writer="a stranger",
            fields=tuple(FieldEntry(name, c.type, True) for name, c in columns.items()),
            dictionaries=tuple(dictionaries),
            tables=(TableEntry("__base", row_count, "", "", (), tuple(entries)),),
            not_built=(),
            extra_sections=(),
        )
    )
    schema = pa.schema([pa.field(name, parse_type_name(c.type)) for name, c in columns.items()])
    storage = open_storage(location)
    snapshot = create_table(storage, TableProperties.declare(schema))
    write_id = new_write_id()
    entry = SegmentEntry(
        file=segment_name(write_id, 0, 0, 0),
        write_id=write_id,
        row_count=row_count,
        byte_count=len(content),
        footer_checksum=TAIL_LAYOUT.unpack(content[-TAIL_LAYOUT.size :])[5],
        columns={name: _zone(column, row_count) for name, column in columns.items()},
    )
    with storage.create(entry.file) as sink:
        sink.write(content)
        sink.commit()
    commit(storage, snapshot, Append((entry,)), write_id=write_id, operation="append")
    return len(content)


def _zone(column, row_count):
    """What a manifest says of the column: its nulls and bytes, without bounds."""
    part, claims = column.page
    page_count = row_count // claims["row_count"]
    null_count = page_count * claims.get("null_count", 0)
    return ColumnZone(None, None, null_count, False, False, page_count * len(part))
