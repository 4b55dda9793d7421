"""Build, open and read segments in memory."""

import numpy as np
import pyarrow as pa

from projseg.segment_format.file.segment_encoder import SegmentEncoder
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.vectors.vectors import Ids

FILE_ID = bytes(range(16))


def build_segment(columns, *, file_id=FILE_ID, projections=None, sort_order=(), definitions=None):
    """Return the bytes of a segment whose base table holds `columns` (vectors by name).

    `projections` is {name: {(role, column name): vector}}, `definitions` {name: (definition, sort
    order)} of some of them. Ids columns that share a dictionary object share the stored one, named
    after the first such column.
    """
    written = []
    schema = pa.schema([pa.field(name, vector.type) for name, vector in columns.items()])
    encoder = SegmentEncoder(written.append, file_id=file_id, schema=schema)
    tables = {"__base": {("base", name): vector for name, vector in columns.items()}}
    tables |= projections or {}
    names = {}
    for table in tables.values():
        for (_, name), vector in table.items():
            if isinstance(vector, Ids) and id(vector.dictionary) not in names:
                names[id(vector.dictionary)] = name
                encoder.add_dictionary(name, vector.dictionary)
    for table_name, table in tables.items():
        row_count = len(next(iter(table.values()))) if table else 0
        definition, order = (definitions or {}).get(table_name, ("", sort_order))
        encoder.begin_table(table_name, row_count, definition=definition, sort_order=order)
        for (role, name), vector in table.items():
            dictionary = names[id(vector.dictionary)] if isinstance(vector, Ids) else None
            encoder.add_column(name, vector, role=role, dictionary=dictionary)
        encoder.end_table()
    summary = encoder.finish()
    content = b"".join(written)
    assert summary.byte_count == len(content)
    return content


def open_segment(content, path="test.pseg"):
    """Open a segment held in memory."""
    return SegmentFile.open(
        lambda offset, size: content[offset : offset + size], len(content), path=path
    )


def read_everything(content):
    """Open a segment and decode all of it, as {(table, role, name): Arrow array}."""
    segment = open_segment(content)
    return {
        (table.name, column.role, column.name): segment.column(
            table.name, column.role, column.name
        ).to_arrow()
        for table in segment.tables
        for column in table.columns
    }


def same_bits(left, right):
    """Whether two arrays are equal value for value, NaN and -0.0 bit for bit."""
    if pa.types.is_floating(left.type):
        bits = f"u{left.type.bit_width // 8}"
        valid = np.asarray(left.is_valid())
        found = [np.asarray(a.fill_null(0)).view(bits)[valid] for a in (left, right)]
        return left.is_valid().equals(right.is_valid()) and np.array_equal(*found)
    return left.equals(right)
