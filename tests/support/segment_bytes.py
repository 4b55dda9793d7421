"""Build, open and read segments in memory."""

import numpy as np
import pyarrow as pa

from projseg.segment_format.file.file_batch import Ending, FileBatch, StackedIds
from projseg.segment_format.file.segment_encoder import SegmentEncoder
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.vectors import Ids

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
    """Open a segment and decode all of it, as {(table, role, name): Arrow array}.

    What is read of it side by side with other files is compared with that.
    """
    segment = open_segment(content)
    assert_read_alike([content])
    return {
        (table.name, column.role, column.name): segment.column(
            table.name, column.role, column.name
        ).to_arrow()
        for table in segment.tables
        for column in table.columns
    }


def batch_of(contents):
    """Open files in memory side by side."""
    return FileBatch([Ending(one, len(one), "test.pseg", lambda *_: b"") for one in contents])


def assert_read_alike(contents):
    """Read files side by side: a column is as it is in the file alone, or is not decoded."""
    batch, decoded = batch_of(contents), 0
    for content, file in zip(contents, batch.files, strict=True):
        if file is None:
            continue
        segment = open_segment(content)
        assert file.row_counts == [table.row_count for table in segment.tables]
        for table in segment.tables:
            for column in table.columns:
                key = (table.name, column.role, column.name)
                found = batch.column([file], *key)
                if found is not None:
                    decoded += 1
                    assert same_bits(as_arrow(found), segment.column(*key).to_arrow()), key
    return decoded


def as_arrow(found):
    """Return the values of a column that was decoded side by side."""
    if isinstance(found, StackedIds):
        return found.values.take(pa.array(found.ids))
    return found.to_arrow()


def same_bits(left, right):
    """Whether two arrays are equal value for value, NaN and -0.0 bit for bit."""
    if pa.types.is_floating(left.type):
        bits = f"u{left.type.bit_width // 8}"
        valid = np.asarray(left.is_valid())
        found = [np.asarray(a.fill_null(0)).view(bits)[valid] for a in (left, right)]
        return left.is_valid().equals(right.is_valid()) and np.array_equal(*found)
    return left.equals(right)
