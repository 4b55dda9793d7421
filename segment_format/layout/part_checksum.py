"""Checksums of pages and other parts, which also say where a part belongs.

The seed mixes the file's id and the part's offset, so a page moved within its file, or taken from
another file, does not verify even though its bytes are whole. SPEC.md section 3.
"""

from __future__ import annotations

import xxhash


def file_seed(file_id: bytes) -> int:
    """Return the seed of a file: xxh3_64 of its 16-byte id."""
    return int(xxhash.xxh3_64_intdigest(file_id))


def part_checksum(content: bytes | memoryview, seed: int, file_offset: int) -> int:
    """Return the checksum of the part stored at `file_offset` of the file with that seed."""
    return int(xxhash.xxh3_64_intdigest(content, seed=seed ^ file_offset))
