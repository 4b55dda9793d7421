"""Read the end of a segment file, which says where everything else lies. SPEC.md sections 3, 4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from projseg.segment_format.layout.byte_reader import corrupt
from projseg.segment_format.layout.footer import Footer, decode_footer
from projseg.segment_format.layout.footer_checks import FooterChecker
from projseg.segment_format.layout.format_limits import SEGMENT_BYTES_MAX, require_limit
from projseg.segment_format.layout.frame import (
    HEAD_LAYOUT,
    TAIL_LAYOUT,
    Tail,
    check_features,
    parse_tail,
)

ReadRange = Callable[[int, int], bytes]  # (offset, size) -> exactly `size` bytes

ENDING_BYTES: Final = 64 * 1024  # one read fetches tail and footer of most files


def read_footer(
    read_range: ReadRange, size: int, path: str, ending: bytes = b""
) -> tuple[Footer, Tail]:
    """Read and prove the directory of a file.

    Parameters
    ----------
    read_range, size, path, ending
        As `SegmentFile.open` takes them.

    Raises
    ------
    CorruptSegmentError, UnsupportedFeatureError, LimitExceededError
        As of `SegmentFile.open`.
    """
    require_limit(f"size in bytes of {path}", size, SEGMENT_BYTES_MAX)
    if size < HEAD_LAYOUT.size + TAIL_LAYOUT.size:
        raise corrupt(path, "file", f"{size} bytes are too few for a segment")
    known = min(size, len(ending) or ENDING_BYTES)
    start = size - known
    read = memoryview(ending or read_exactly(read_range, start, known, path))
    tail, checksum = parse_tail(read[-TAIL_LAYOUT.size :], size, path)
    if tail.footer_offset >= start:
        content = read[tail.footer_offset - start : -TAIL_LAYOUT.size]
    else:
        content = memoryview(read_exactly(read_range, tail.footer_offset, tail.footer_bytes, path))
    if tail.checksum(content) != checksum:
        raise corrupt(path, "footer", "checksum differs from the tail's")
    check_features(tail, path)
    footer = decode_footer(content, path)
    FooterChecker(footer, tail, path).check()
    return footer, tail


def read_exactly(read_range: ReadRange, offset: int, size: int, path: str) -> bytes:
    """Return bytes of a file; CorruptSegmentError if it has fewer."""
    content = read_range(offset, size)
    if len(content) != size:
        problem = f"{size} bytes wanted at byte {offset}, {len(content)} there: truncated?"
        raise corrupt(path, "file", problem)
    return content
