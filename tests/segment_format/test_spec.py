"""SPEC.md and the code say the same: every layout, directory, limit and number."""

import importlib
import struct
import types
import typing

import numpy as np
import pytest
from annotated_dump import annotated_dump
from golden_files import GOLDEN, read_golden
from spec_tables import section_text, spec_table

from projseg.segment_format import footer, limits
from projseg.segment_format.bitmap_index import INDEX_BLOCK_DTYPE
from projseg.segment_format.description import ENCODING_NAMES
from projseg.segment_format.encodings import decimal_double, nested, plain
from projseg.segment_format.encodings.integers import INTEGER_ENCODINGS
from projseg.segment_format.frame import FORMAT_VERSION, HEAD_LAYOUT, HEAD_MAGIC, TAIL_LAYOUT
from projseg.segment_format.page_directory import PAGE_DTYPE

STRUCT_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q"}
DTYPE_CODES = {"u8": "|u1", "u16": "<u2", "u32": "<u4", "u64": "<u8", "i64": "<i8"}
ENCODING_LAYOUTS = {
    "6.1": "constant",
    "6.2": "frame_of_reference",
    "6.3": "bit_packed",
    "6.4": "patched",
    "6.5": "delta",
    "6.6": "scaled",
    "6.7": "run_length",
    "6.9": "decimal_double",
    "6.10": "text",
    "6.11": "front_coded",
    "6.13": "nested",
}
STRUCTS = {
    "4.1": footer.Footer,
    "4.2": footer.FieldEntry,
    "4.3": footer.DictionaryEntry,
    "4.4": footer.TableEntry,
    "4.5": footer.ColumnEntry,
    "4.6": footer.NotBuiltEntry,
    "4.7": footer.Section,
    "4.8": footer.ExtraSection,
}
TYPE_NAMES = {str: "text", bytes: "bytes", int: "uint", bool: "bool", type(None): "nil"}


def struct_format(number):
    codes = []
    for _, kind, *_ in spec_table(number):
        codes.append(f"{kind[6:-1]}s" if kind.startswith("bytes") else STRUCT_CODES[kind])
    return struct.Struct("<" + "".join(codes))


def type_text(hint):
    if typing.get_origin(hint) is typing.Literal:
        return "text"
    if typing.get_origin(hint) is tuple:
        return f"list of {type_text(typing.get_args(hint)[0])}"
    if isinstance(hint, types.UnionType):
        return " or ".join(type_text(part) for part in typing.get_args(hint))
    return TYPE_NAMES.get(hint) or hint.__name__


@pytest.mark.parametrize(("number", "layout"), [("2.1", HEAD_LAYOUT), ("2.2", TAIL_LAYOUT)])
def test_frame_layouts(number, layout):
    assert struct_format(number).format == layout.format


@pytest.mark.parametrize(("number", "module"), ENCODING_LAYOUTS.items())
def test_encoding_layouts(number, module):
    code = importlib.import_module(f"projseg.segment_format.encodings.{module}")
    assert struct_format(number).format == code._LAYOUT.format


def test_list_layout():
    assert struct_format("6.12").format == nested._LIST_LAYOUT.format


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
    constants = {name: value for name, value in vars(limits).items() if name.endswith("_MAX")}
    assert stated == constants


def test_encoding_numbers():
    stated = {int(number): name for number, name, *_ in spec_table("6")}
    assert stated == {number: name for number, name in ENCODING_NAMES.items() if number}
    assert set(INTEGER_ENCODINGS.encodings) == set(range(1, 8))
    assert plain.PLAIN_ID == 8
    assert decimal_double.DECIMAL_ID == 9


def test_version_and_magic():
    assert HEAD_MAGIC.hex(" ") in section_text("2.1")
    assert f"- **{FORMAT_VERSION}**" in section_text("11")


def test_the_smallest_file_is_shown_as_it_is():
    (shown,) = [block.strip("\n").splitlines() for block in section_text("13").split("```")[1::2]]
    assert shown == annotated_dump(read_golden("smallest"))
    assert (
        min(GOLDEN.glob("*.pseg"), key=lambda path: path.stat().st_size) == GOLDEN / "smallest.pseg"
    )
