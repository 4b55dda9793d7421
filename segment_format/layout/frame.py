"""The two fixed ends of a segment file: the head, and the tail that points at the footer.

head   magic, format version, file id                                   SPEC.md section 2.1
tail   footer's place, version, feature flags, checksum of footer and tail, magic       2.2
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec
import xxhash

from projseg.errors import UnsupportedFeatureError
from projseg.segment_format.layout.byte_reader import ALIGNMENT, ByteReader, corrupt
from projseg.segment_format.layout.format_limits import FOOTER_BYTES_MAX, require_limit

HEAD_MAGIC: Final = b"\x89PSEG\r\n\x1a"  # damaged by a transfer that takes it for text
TAIL_MAGIC: Final = b"PSEGTAIL"
FORMAT_VERSION: Final = 1
ROW_PROJECTIONS: Final = 1  # bit of `required_features`: a projection holds rows, not groups
ZONE_RULES: Final = 2  # a projection names rules of time zones
GROUPS_ONLY: Final = 4  # a part of a view: one table of groups, and no base columns or rows
POSTINGS: Final = 1  # bit of `optional_features`: the footer has postings
REQUIRED_FEATURES_KNOWN: Final = ROW_PROJECTIONS | ZONE_RULES | GROUPS_ONLY
FILE_ID_BYTES: Final = 16

HEAD_LAYOUT: Final = struct.Struct("<8sII16s")  # SPEC.md section 2.1
TAIL_LAYOUT: Final = struct.Struct("<QIIIIQ8s")  # SPEC.md section 2.2
_TAIL_COVERED: Final = struct.Struct("<QIIII")  # the fields of the tail before its checksum


def pack_head(file_id: bytes, magic: bytes = HEAD_MAGIC) -> bytes:
    """Return the first bytes of a segment, or of another kind of file."""
    return HEAD_LAYOUT.pack(magic, FORMAT_VERSION, 0, file_id)


def check_head(
    content: bytes, file_id: bytes, version: int, path: str, magic: bytes = HEAD_MAGIC
) -> None:
    """Refuse a head that does not belong to this footer."""
    if content != HEAD_LAYOUT.pack(magic, version, 0, file_id):
        raise corrupt(path, "head", "differs from what the footer says of this file")


class Tail(msgspec.Struct, frozen=True):
    """The last bytes of the file. Its layout never changes, whatever the format version."""

    footer_offset: int
    footer_bytes: int
    format_version: int = FORMAT_VERSION
    required_features: int = 0  # a reader that does not know one of these bits must refuse
    optional_features: int = 0  # a reader may ignore these

    def _covered(self) -> bytes:
        return _TAIL_COVERED.pack(
            self.footer_offset,
            self.footer_bytes,
            self.format_version,
            self.required_features,
            self.optional_features,
        )

    def checksum(self, footer: bytes | memoryview) -> int:
        """Return xxh3_64 of the footer's bytes followed by the tail's own fields."""
        digest = xxhash.xxh3_64(footer)
        digest.update(self._covered())
        return int(digest.intdigest())

    def pack(self, footer: bytes, magic: bytes = TAIL_MAGIC) -> bytes:
        """Return the tail for this footer."""
        return self._covered() + struct.pack("<Q", self.checksum(footer)) + magic


def parse_tail(
    content: memoryview, file_bytes: int, path: str, magic: bytes = TAIL_MAGIC
) -> tuple[Tail, int]:
    """Read the tail; return it with the checksum it states.

    Raises
    ------
    CorruptSegmentError
        If these bytes are no tail, or the footer would not end where the tail starts.
    """
    reader = ByteReader(content, path=path, part_name="tail")
    *fields, checksum, found = reader.unpack(TAIL_LAYOUT)
    reader.require(found == magic, "no such file ends here: truncated, or of another kind")
    tail = Tail(*fields)
    require_limit("footer's size in bytes", tail.footer_bytes, FOOTER_BYTES_MAX)
    footer_end = tail.footer_offset + tail.footer_bytes
    reader.require(
        HEAD_LAYOUT.size <= tail.footer_offset
        and tail.footer_offset % ALIGNMENT == 0
        and footer_end == file_bytes - TAIL_LAYOUT.size,
        f"footer at [{tail.footer_offset}, {footer_end}) does not end at the tail",
    )
    return tail, int(checksum)


def check_features(tail: Tail, path: str) -> None:
    """Refuse a file from the future.

    Raises
    ------
    UnsupportedFeatureError
        If the format version is not known, or a required feature is not.
    """
    if tail.format_version != FORMAT_VERSION:
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_VERSION",
            f"{path}: segment format version {tail.format_version}; this release reads version"
            f" {FORMAT_VERSION}: use a newer release",
        )
    if unknown := tail.required_features & ~REQUIRED_FEATURES_KNOWN:
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_FEATURE",
            f"{path}: needs features {unknown:#x} that this release does not know: use a newer one",
        )
