"""What the verb `inspect` says of a Bloom file: its definition, bands and segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from projseg.segment_format.byte_reader import corrupt
from projseg.segment_format.footer import TAIL_LAYOUT, parse_tail
from projseg.segment_format.indexes.bloom_file import BLOOM_TAIL_MAGIC, BloomFile
from projseg.segment_format.indexes.index_kinds import read_definition

ReadRange = Callable[[int, int], bytes]


def is_bloom_file(read_range: ReadRange, byte_count: int) -> bool:
    """Whether a file ends as Bloom files do."""
    size = len(BLOOM_TAIL_MAGIC)
    return byte_count >= size and read_range(byte_count - size, size) == BLOOM_TAIL_MAGIC


def bloom_report(
    read_range: ReadRange, byte_count: int, path: str
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Return a Bloom file's totals, and a row for each of its bands and segments.

    Raises
    ------
    CorruptSegmentError, LimitExceededError, UnsupportedFeatureError
        If it is damaged, or of a later release.
    """
    start = max(0, byte_count - TAIL_LAYOUT.size)
    content = memoryview(read_range(start, byte_count - start))
    tail, _ = parse_tail(content, byte_count, path, BLOOM_TAIL_MAGIC)
    ending = read_range(tail.footer_offset, byte_count - tail.footer_offset)
    file = BloomFile.open(ending, byte_count, path)
    file.verify(read_range)
    footer = file.footer
    try:
        definition = read_definition(footer.definition)
    except (ValueError, msgspec.MsgspecError) as error:
        raise corrupt(path, "definition", str(error)) from error
    keys = sum(one.key_count for one in footer.segments)
    totals = {
        "file": path,
        **msgspec.structs.asdict(definition),
        "definition_hash": footer.definition_hash,
        "segments": len(footer.segments),
        "keys": keys,
        "bytes": byte_count,
        "bits_per_key": round(8 * byte_count / keys, 1) if keys else None,
    }
    bands = [
        {
            "band": number,
            "blocks": band.blocks,
            "segments": band.segment_count,
            "rows_per_page": band.page_rows,
            "bytes": band.byte_count,
        }
        for number, band in enumerate(footer.bands)
    ]
    segments = [
        {
            "segment": one.file,
            "status": one.status,
            "keys": one.key_count,
            "band": one.band,
            "slot": one.slot,
            "postings": one.postings,
        }
        for one in footer.segments
    ]
    return totals, {"bands": bands, "segments": segments}
