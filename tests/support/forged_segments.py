"""Segments made by hand with every checksum right, as an attacker could make them.

`forge` builds a file of one table from pages, given as stored bytes and the fields of their
records; `refooted` changes the footer of a file and repairs its checksum.
"""

import msgspec
import numpy as np
from segment_bytes import FILE_ID

from projseg.segment_format.byte_reader import padding
from projseg.segment_format.checksum_and_compression import file_seed, part_checksum
from projseg.segment_format.footer import (
    TAIL_LAYOUT,
    ColumnEntry,
    DictionaryEntry,
    FieldEntry,
    Footer,
    TableEntry,
    Tail,
    decode_footer,
    encode_footer,
    pack_head,
)
from projseg.segment_format.page_directory import HAS_BOUNDS, PAGE_DTYPE

SEED = file_seed(FILE_ID)


class Forgery:
    """A file under construction: parts with right checksums, and records with the given fields."""

    def __init__(self):
        self.content = bytearray(pack_head(FILE_ID))

    def part(self, stored):
        """Append a part; return (offset, size, checksum)."""
        offset = len(self.content)
        self.content += stored + bytes(padding(len(stored)))
        return offset, len(stored), part_checksum(bytes(stored), SEED, offset)

    def directory(self, pages):
        """Append pages, (stored bytes, record fields) each; return their directory."""
        records = np.zeros(len(pages), PAGE_DTYPE)
        for record, (stored, claims) in zip(records, pages, strict=True):
            offset, size, checksum = self.part(stored)
            record["file_offset"], record["stored_bytes"], record["checksum"] = (
                offset,
                size,
                checksum,
            )
            record["raw_bytes"] = size
            for field, value in claims.items():
                record[field] = value
        return records.tobytes()

    def finish(self, footer):
        """Return the file."""
        encoded = encode_footer(footer)
        tail = Tail(len(self.content), len(encoded))
        return bytes(self.content) + encoded + tail.pack(encoded)


def forge(pages, row_count, *, column_type="bigint", kind="numbers", dictionary=None):
    """Return a file of one column `x` of these pages.

    `dictionary` is (type, cardinality, pages) for ids.
    """
    forgery = Forgery()
    dictionaries = ()
    if dictionary is not None:
        dictionary_type, cardinality, values = dictionary
        directory = forgery.directory(values)
        dictionaries = (DictionaryEntry("x", dictionary_type, cardinality, directory, None),)
    position = None if dictionary is None else 0
    directory = forgery.directory(pages)
    column = ColumnEntry("base", "x", column_type, kind, position, directory, b"")
    return forgery.finish(
        Footer(
            file_id=FILE_ID,
            writer="a stranger",
            fields=(FieldEntry("x", column_type, True),),
            dictionaries=dictionaries,
            tables=(TableEntry("__base", row_count, "", "", (), (column,)),),
            not_built=(),
            extra_sections=(),
        )
    )


def refooted(content, change, required_features=None):
    """Return the file with `change(footer)` as its footer, and a tail that fits."""
    fields = TAIL_LAYOUT.unpack(content[-TAIL_LAYOUT.size :])
    parts = content[: fields[0]]
    footer = decode_footer(memoryview(content)[fields[0] : -TAIL_LAYOUT.size], "test.pseg")
    encoded = encode_footer(change(footer))
    features = fields[3] if required_features is None else required_features
    tail = Tail(len(parts), len(encoded), required_features=features)
    return parts + encoded + tail.pack(encoded)


def with_record(content, page=0, **claims):
    """Return the file with fields of a page record of its first column changed."""

    def change(footer):
        table = footer.tables[0]
        records = np.frombuffer(table.columns[0].pages, PAGE_DTYPE).copy()
        for field, value in claims.items():
            records[field][page] = value
        column = msgspec.structs.replace(table.columns[0], pages=records.tobytes())
        columns = (column, *table.columns[1:])
        table = msgspec.structs.replace(table, columns=columns)
        return msgspec.structs.replace(footer, tables=(table, *footer.tables[1:]))

    return refooted(content, change)


def bounded(minimum, maximum, row_count, encoding, **claims):
    """The fields of the record of a page of integers."""
    return {
        "row_count": row_count,
        "encoding": encoding,
        "flags": HAS_BOUNDS,
        "minimum": minimum,
        "maximum": maximum,
        **claims,
    }
