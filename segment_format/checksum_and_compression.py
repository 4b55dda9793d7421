"""How parts are stored: their checksums, and pages compressed where that is worth it.

The seed of a checksum mixes the file's id and the part's offset, so a page moved within its file,
or taken from another file, does not verify even though its bytes are whole. SPEC.md section 3.

zstandard takes a whole page, where the saving is worth the time to undo it. SPEC.md 5.2.
"""

from __future__ import annotations

import threading
from typing import Final

import xxhash
import zstandard

from projseg.segment_format.byte_reader import corrupt

NONE: Final = 0
ZSTD: Final = 1
_LEVEL: Final = 1
_BYTES_MIN: Final = 256
_SAMPLE_BYTES: Final = 8192  # a cheap test for pages that will not shrink

# A compressed page costs ten times as long to read: it must be a good deal smaller.
NUMBERS_SHARE_MAX: Final = 0.5
TEXT_SHARE_MAX: Final = 0.75

_thread = threading.local()  # zstandard's contexts are not safe to share between threads


def file_seed(file_id: bytes) -> int:
    """Return the seed of a file: xxh3_64 of its 16-byte id."""
    return int(xxhash.xxh3_64_intdigest(file_id))


def part_checksum(content: bytes | memoryview, seed: int, file_offset: int) -> int:
    """Return the checksum of the part stored at `file_offset` of the file with that seed."""
    return int(xxhash.xxh3_64_intdigest(content, seed=seed ^ file_offset))


def compress_page(raw: bytes, share_max: float) -> tuple[int, bytes]:
    """Return the compression used and the bytes to store.

    A page is compressed if that leaves at most the share `share_max` of its bytes.
    """
    if len(raw) < _BYTES_MIN:
        return NONE, raw
    if not hasattr(_thread, "compressor"):
        _thread.compressor = zstandard.ZstdCompressor(level=_LEVEL)
    if len(raw) > 4 * _SAMPLE_BYTES:
        middle = len(raw) // 2
        sample = raw[middle : middle + _SAMPLE_BYTES]
        if len(_thread.compressor.compress(sample)) > (share_max + 0.1) * _SAMPLE_BYTES:
            return NONE, raw
    packed: bytes = _thread.compressor.compress(raw)
    return (ZSTD, packed) if len(packed) <= share_max * len(raw) else (NONE, raw)


def decompress_page(
    stored: memoryview, compression: int, raw_bytes: int, *, path: str, part_name: str
) -> memoryview:
    """Return exactly `raw_bytes` bytes.

    zstandard allocates what the frame itself declares, so the declaration is compared with the
    directory's (already checked against its limit) before anything is decompressed.
    """
    if compression == NONE:
        if len(stored) != raw_bytes:
            raise corrupt(path, part_name, f"{len(stored)} bytes stored, {raw_bytes} declared")
        return stored
    if compression != ZSTD:
        raise corrupt(path, part_name, f"unknown compression {compression}")
    if not hasattr(_thread, "decompressor"):
        _thread.decompressor = zstandard.ZstdDecompressor()
    try:
        declared = zstandard.get_frame_parameters(stored).content_size
        if declared != raw_bytes:
            raise corrupt(path, part_name, f"frame holds {declared} bytes, {raw_bytes} declared")
        raw = _thread.decompressor.decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise corrupt(path, part_name, f"not a zstandard frame: {error}") from error
    if len(raw) != raw_bytes:
        raise corrupt(path, part_name, f"{len(raw)} bytes decompressed, {raw_bytes} declared")
    return memoryview(raw)
