"""SPEC.md and the code say the same: every layout, directory, limit and number."""

import types
import typing

import numpy as np
import pytest
from annotated_dump import annotated_dump
from golden_files import GOLDEN, read_golden
from spec_tables import section_text, spec_table, struct_format

from projseg.segment_format import footer, format_limits
from projseg.segment_format.encodings import nested_encoding
from projseg.segment_format.file.deletion_vector import VECTOR_HEAD_LAYOUT, VECTOR_MAGIC
from projseg.segment_format.footer import FORMAT_VERSION, HEAD_LAYOUT, HEAD_MAGIC, TAIL_LAYOUT
from projseg.segment_format.indexes import bloom_file
from projseg.segment_format.indexes.bitmap_index import INDEX_BLOCK_DTYPE
from projseg.segment_format.page_directory import PAGE_DTYPE

DTYPE_CODES = {"u8": "|u1", "u16": "<u2", "u32": "<u4", "u64": "<u8", "i64": "<i8"}
STRUCTS = {
    "4.1": footer.Footer,
    "4.2": footer.FieldEntry,
    "4.3": footer.DictionaryEntry,
    "4.4": footer.TableEntry,
    "4.5": footer.ColumnEntry,
    "4.6": footer.NotBuiltEntry,
    "4.7": footer.PartEntry,
    "4.8": footer.ExtraPartEntry,
    "17.1": footer.PostingsEntry,
    "15.2": bloom_file.BloomFooter,
    "15.3": bloom_file.Band,
    "15.4": bloom_file.SegmentSlot,
}
TYPE_NAMES = {str: "text", bytes: "bytes", int: "uint", bool: "bool", type(None): "nil"}


def type_text(hint):
    if typing.get_origin(hint) is typing.Literal:
        return "text"
    if typing.get_origin(hint) is tuple:
        return f"list of {type_text(typing.get_args(hint)[0])}"
    if isinstance(hint, types.UnionType):
        return " or ".join(type_text(part) for part in typing.get_args(hint))
    return TYPE_NAMES.get(hint) or hint.__name__


@pytest.mark.parametrize(
    ("number", "layout"), [("2.1", HEAD_LAYOUT), ("2.2", TAIL_LAYOUT), ("14.1", VECTOR_HEAD_LAYOUT)]
)
def test_frame_layouts(number, layout):
    assert struct_format(number) == layout.format


def test_the_layout_of_a_level():
    assert struct_format("6.13") == nested_encoding._LEVEL_LAYOUT.format


@pytest.mark.parametrize(("number", "dtype"), [("5.1", PAGE_DTYPE), ("8.1", INDEX_BLOCK_DTYPE)])
def test_directory_records(number, dtype):
    expected = [(name, DTYPE_CODES[kind]) for name, kind, *_ in spec_table(number)]
    assert expected == dtype.descr
    assert dtype.itemsize == sum(np.dtype(kind).itemsize for _, kind in expected)


@pytest.mark.parametrize(("number", "structure"), STRUCTS.items())
def test_footer_structs(number, structure):
    expected = [(name, kind) for name, kind, *_ in spec_table(number)]
    hints = typing.get_type_hints(structure)
    assert expected == [(n, type_text(hints[n])) for n in structure.__struct_fields__]


def test_limits():
    stated = {name: int(value.replace(",", "")) for name, value, *_ in spec_table("9")}
    constants = {
        name: value for name, value in vars(format_limits).items() if name.endswith("_MAX")
    }
    assert stated == constants


def test_version_and_magic():
    assert HEAD_MAGIC.hex(" ") in section_text("2.1")
    assert VECTOR_MAGIC.hex(" ") in section_text("14.1")
    assert bloom_file.BLOOM_HEAD_MAGIC.hex(" ") in section_text("15")
    assert bloom_file.BLOOM_TAIL_MAGIC.hex(" ") in section_text("15")
    assert f"- **{FORMAT_VERSION}**" in section_text("11")


def test_the_smallest_file_is_shown_as_it_is():
    (shown,) = [block.strip("\n").splitlines() for block in section_text("13").split("```")[1::2]]
    assert shown == annotated_dump(read_golden("smallest"))
    assert (
        min(GOLDEN.glob("*.pseg"), key=lambda path: path.stat().st_size) == GOLDEN / "smallest.pseg"
    )
