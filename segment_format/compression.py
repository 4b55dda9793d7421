"""zstandard over a whole page, where it saves enough to be worth undoing. SPEC.md section 5.2."""

from __future__ import annotations

import threading
from typing import Final

import zstandard

from projseg.segment_format.byte_reader import corrupt

NONE: Final = 0
ZSTD: Final = 1
_LEVEL: Final = 3
_SHARE_MAX: Final = 0.75  # compressed pages cost time to read: they must be a good deal smaller
_BYTES_MIN: Final = 256

_thread = threading.local()  # zstandard's contexts are not safe to share between threads


def compress_page(raw: bytes, share_max: float = _SHARE_MAX) -> tuple[int, bytes]:
    """Return the compression used and the bytes to store."""
    if len(raw) < _BYTES_MIN:
        return NONE, raw
    if not hasattr(_thread, "compressor"):
        _thread.compressor = zstandard.ZstdCompressor(level=_LEVEL)
    packed: bytes = _thread.compressor.compress(raw)
    return (ZSTD, packed) if len(packed) <= share_max * len(raw) else (NONE, raw)


def decompress_page(
    stored: memoryview, compression: int, raw_bytes: int, *, path: str, section: str
) -> memoryview:
    """Return exactly `raw_bytes` bytes.

    zstandard allocates what the frame itself declares, so the declaration is compared with the
    directory's (already held against its limit) before anything is decompressed.

    Raises
    ------
    CorruptSegmentError
        If the compression is unknown, or the sizes do not agree.
    """
    if compression == NONE:
        if len(stored) != raw_bytes:
            raise corrupt(path, section, f"{len(stored)} bytes stored, {raw_bytes} declared")
        return stored
    if compression != ZSTD:
        raise corrupt(path, section, f"unknown compression {compression}")
    if not hasattr(_thread, "decompressor"):
        _thread.decompressor = zstandard.ZstdDecompressor()
    try:
        declared = zstandard.get_frame_parameters(stored).content_size
        if declared != raw_bytes:
            raise corrupt(path, section, f"frame holds {declared} bytes, {raw_bytes} declared")
        raw = _thread.decompressor.decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise corrupt(path, section, f"not a zstandard frame: {error}") from error
    if len(raw) != raw_bytes:
        raise corrupt(path, section, f"{len(raw)} bytes decompressed, {raw_bytes} declared")
    return memoryview(raw)
