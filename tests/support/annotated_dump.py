"""Render a segment file as SPEC.md section 13 shows it: offset, bytes, meaning."""

import struct

from segment_bytes import open_segment
from spec_tables import spec_table

from projseg.segment_format.file.verify_file import part_places
from projseg.segment_format.footer import HEAD_LAYOUT, TAIL_LAYOUT

ROW = 16


def annotated_dump(content):
    """Return the lines of the dump."""
    segment = open_segment(content)
    lines = _fields("head", HEAD_LAYOUT, "2.1", 0)
    for part in part_places(segment):
        lines.append((part.file_offset, part.byte_count, part.owner))
        lines.append((part.file_offset + part.byte_count, -part.byte_count % 8, "padding"))
    tail = segment.tail
    lines.append((tail.footer_offset, tail.footer_bytes, "footer (MessagePack)"))
    lines += _fields("tail", TAIL_LAYOUT, "2.2", len(content) - TAIL_LAYOUT.size)
    return [text for line in lines for text in _rows(content, *line)]


def _fields(owner, layout, section, offset):
    found = []
    for name, kind, *_ in spec_table(section):
        size = int(kind[6:-1]) if kind.startswith("bytes") else int(kind[1:]) // 8
        found.append((offset, size, f"{owner}: {name}"))
        offset += size
    assert sum(size for _, size, _ in found) == struct.calcsize(layout.format)
    return found


def _rows(content, offset, size, label):
    for start in range(offset, offset + size, ROW):
        piece = content[start : min(start + ROW, offset + size)]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        yield f"{start:6d}  {piece.hex(' '):<47}  {text:<16}  {label}".rstrip()
        label = ""
