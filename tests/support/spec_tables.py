"""The tables of SPEC.md, by section number."""

import re
import struct
from pathlib import Path

SPEC = Path(__file__).parents[2] / "SPEC.md"
STRUCT_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q"}


def section_text(number):
    """The text of a numbered section, without its heading."""
    found = re.search(
        rf"^#+ {re.escape(number)}\.? [^\n]*\n(.*?)(?=^#|\Z)", SPEC.read_text("utf-8"), re.M | re.S
    )
    assert found is not None, f"SPEC.md has no section {number}"
    return found[1]


def section_heading(number):
    """The words of a numbered section's heading."""
    found = re.search(rf"^#+ {re.escape(number)}\.? ([^\n]*)\n", SPEC.read_text("utf-8"), re.M)
    assert found is not None, f"SPEC.md has no section {number}"
    return found[1]


def spec_table(number):
    """The rows of the first table of a section, without its header."""
    lines = [line for line in section_text(number).splitlines() if line.startswith("|")]
    assert len(lines) > 2, f"SPEC.md section {number} has no table"
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def struct_format(number):
    """The `struct` format of the layout in the first table of a section."""
    codes = []
    for _, kind, *_ in spec_table(number):
        codes.append(f"{kind[6:-1]}s" if kind.startswith("bytes") else STRUCT_CODES[kind])
    return struct.Struct("<" + "".join(codes)).format
