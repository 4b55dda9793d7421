"""Rebuilding a segment is copying: parts stay as they are, wherever they come to lie."""

import pyarrow as pa
import pytest
from golden_files import BUILDERS, read_golden
from segment_bytes import open_segment, read_everything, same_bits

from projseg.errors import CorruptSegmentError, InvalidInputError
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.file.segment_encoder import SegmentEncoder
from projseg.segment_format.file.verify_file import verify_segment
from projseg.segment_format.vectors import Numbers

NEW_ID = b"a copy has its id"[:16]


def copied(source, tables, *, dictionaries=None, extra=None):
    """The bytes of a segment with some tables of another, and `extra` columns by table name."""
    written = []
    encoder = SegmentEncoder(written.append, file_id=NEW_ID, schema=source.schema)
    names = [entry.name for entry in source.footer.dictionaries]
    for name in names if dictionaries is None else dictionaries:
        encoder.copy_dictionary(source, name)
    for name in tables:
        encoder.copy_table(source, name)
    for name, columns in (extra or {}).items():
        encoder.begin_table(name, len(next(iter(columns.values()))))
        for column, vector in columns.items():
            encoder.add_column(column, vector, role="state")
        encoder.end_table()
    summary = encoder.finish()
    assert summary.byte_count == sum(len(piece) for piece in written)
    return b"".join(written)


@pytest.mark.parametrize("name", BUILDERS)
def test_a_copied_segment_holds_the_same(name):
    source = open_segment(read_golden(name))
    content = copied(source, [table.name for table in source.tables])
    verify_segment(open_segment(content))
    found, expected = read_everything(content), read_everything(read_golden(name))
    assert found.keys() == expected.keys()
    assert all(same_bits(found[key], array) for key, array in expected.items())
    assert len(content) == len(read_golden(name))


def test_dropping_a_projection_copies_the_rest():
    source = open_segment(read_golden("projections"))
    content = copied(source, ["__base", "by_word"])
    segment = open_segment(content)
    verify_segment(segment)
    assert [table.name for table in segment.tables] == ["__base", "by_word"]
    assert len(content) < len(read_golden("projections"))
    index = segment.bitmap_index("__base", "base", "word")
    assert index.count([3]) == source.bitmap_index("__base", "base", "word").count([3])


def test_adding_a_projection_copies_the_base():
    source = open_segment(read_golden("smallest"))
    total = Numbers(source.column("__base", "base", "n").wide(), pa.int64())
    segment = open_segment(copied(source, ["__base"], extra={"total": {"sum(n)": total}}))
    verify_segment(segment)
    assert segment.column("total", "state", "sum(n)").to_arrow().to_pylist() == [7]


def test_a_damaged_part_is_not_copied():
    content = bytearray(read_golden("projections"))
    record = open_segment(bytes(content)).directory("by_word", "grouping", "word").records[0]
    content[int(record["file_offset"])] ^= 1
    with pytest.raises(CorruptSegmentError, match="checksum"):
        copied(open_segment(bytes(content)), ["__base", "by_word"])


def test_a_table_needs_its_dictionaries():
    source = open_segment(read_golden("projections"))
    with pytest.raises(InvalidInputError, match="not added"):
        copied(source, ["__base"], dictionaries=["word"])


def test_another_dictionary_of_that_name_does_not_do():
    source = open_segment(read_golden("projections"))
    encoder = SegmentEncoder(lambda content: None, file_id=NEW_ID, schema=source.schema)
    encoder.add_dictionary("word", Dictionary(pa.array(["a", "b"])))
    with pytest.raises(InvalidInputError, match="not the one"):
        encoder.copy_table(source, "__base")
