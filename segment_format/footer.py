"""The frame of a segment file: head, footer, and the tail that points at the footer.

head     magic, format version, file id                                 SPEC.md section 2.1
footer   the directory of the file: what it holds and where             SPEC.md section 4
tail     footer's place, version, feature flags, checksum of footer and tail, magic     2.2

The footer holds no values and is decoded whole when a file is opened. Fields a reader does not know
are ignored: whatever must be understood sets a bit of the tail's `required_features`.
"""

from __future__ import annotations

import struct
from typing import Any, Final, Literal

import msgspec
import xxhash

from projseg.errors import UnsupportedFeatureError
from projseg.memory.forks import cached_property
from projseg.segment_format.byte_reader import ALIGNMENT, corrupt
from projseg.segment_format.format_limits import FOOTER_BYTES_MAX, require_limit

HEAD_MAGIC: Final = b"\x89PSEG\r\n\x1a"  # damaged by a transfer that takes it for text
TAIL_MAGIC: Final = b"PSEGTAIL"
FORMAT_VERSION: Final = 1
ROW_PROJECTIONS: Final = 1  # bit of `required_features`: a projection holds rows, not groups
ZONE_RULES: Final = 2  # a projection names rules of time zones
GROUPS_ONLY: Final = 4  # a part of a view: one table of groups, and no base columns or rows
POSTINGS: Final = 1  # bit of `optional_features`: the footer has postings
FOREIGN_ROWS: Final = 8  # the base rows are in a file of others: no base column, any projections
REQUIRED_FEATURES_KNOWN: Final = ROW_PROJECTIONS | ZONE_RULES | GROUPS_ONLY | FOREIGN_ROWS
FILE_ID_BYTES: Final = 16

HEAD_LAYOUT: Final = struct.Struct("<8sII16s")  # SPEC.md section 2.1
TAIL_LAYOUT: Final = struct.Struct("<QIIIIQ8s")  # SPEC.md section 2.2
_TAIL_COVERED: Final = struct.Struct("<QIIII")  # the fields of the tail before its checksum

BASE_TABLE: Final = "__base"
ABANDONED: Final = "abandoned"  # kind of the parts of a table that was given up while written

ROW_NUMBER: Final = "row number"
"""The column of role `state` of a projection of rows: which base row each is. No canonical text."""
ORDER_KEY: Final = "orderBy"
_ORDER_MARK: Final = f'"{ORDER_KEY}":['  # a name's quotes are escaped, so no name contains it
ZONE_RULES_KEY: Final = "timeZones"
_ZONE_RULES_MARK: Final = f'"{ZONE_RULES_KEY}":{{'

Role = Literal["base", "grouping", "state"]
ColumnKind = Literal["ids", "numbers", "opaque"]
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


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
    """Read the tail; return it with the checksum it states."""
    if len(content) != TAIL_LAYOUT.size:
        raise corrupt(path, "tail", f"{len(content)} bytes of {TAIL_LAYOUT.size}")
    *fields, checksum, found = TAIL_LAYOUT.unpack(content)
    if found != magic:
        raise corrupt(path, "tail", "no such file ends here: truncated, or of another kind")
    tail = Tail(*fields)
    require_limit("footer's size in bytes", tail.footer_bytes, FOOTER_BYTES_MAX)
    start, end = tail.footer_offset, tail.footer_offset + tail.footer_bytes
    is_aligned = start >= HEAD_LAYOUT.size and start % ALIGNMENT == 0
    if not is_aligned or end != file_bytes - TAIL_LAYOUT.size:
        raise corrupt(path, "tail", f"footer at [{start}, {end}) does not end at the tail")
    return tail, int(checksum)


def check_features(tail: Tail, path: str) -> None:
    """Refuse a file from the future."""
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


class PartEntry(msgspec.Struct, frozen=True):
    """A checksummed byte range. SPEC.md section 4.7."""

    file_offset: int
    byte_count: int
    checksum: int


class FieldEntry(msgspec.Struct, frozen=True):
    """A column of the table's schema. SPEC.md section 4.2."""

    name: str
    type: str
    nullable: bool


class DictionaryEntry(msgspec.Struct, frozen=True):
    """A value dictionary. SPEC.md section 4.3."""

    name: str
    type: str
    cardinality: int
    pages: bytes
    hashes: PartEntry | None


class ColumnEntry(msgspec.Struct, frozen=True):
    """A stored column; (role, name) identifies it within its table. SPEC.md section 4.5."""

    role: Role
    name: str
    type: str
    kind: ColumnKind
    dictionary: int | None
    pages: bytes
    index_blocks: bytes


class TableEntry(msgspec.Struct, frozen=True):
    """The base table or a projection. SPEC.md section 4.4."""

    name: str
    row_count: int
    definition: str
    definition_hash: str
    sort_order: tuple[str, ...]
    columns: tuple[ColumnEntry, ...]

    @property
    def holds_rows(self) -> bool:
        """Whether it is a projection of rows, and not of groups."""
        return is_definition_of_rows(self.definition)


class NotBuiltEntry(msgspec.Struct, frozen=True):
    """A projection this segment lacks, and why. SPEC.md section 4.6."""

    name: str
    definition_hash: str
    reason: str


class ExtraPartEntry(msgspec.Struct, frozen=True):
    """A part for readers that know its kind; others skip it. SPEC.md section 4.8."""

    kind: str
    section: PartEntry


class PostingsEntry(msgspec.Struct, frozen=True):
    """Which values of a column hold a key. SPEC.md section 17.1."""

    definition: str
    definition_hash: str
    of: str
    count: int
    table: TableEntry


class Footer(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """The whole directory. SPEC.md section 4.1."""

    file_id: bytes
    writer: str
    fields: tuple[FieldEntry, ...]
    dictionaries: tuple[DictionaryEntry, ...]
    tables: tuple[TableEntry, ...]
    not_built: tuple[NotBuiltEntry, ...]
    extra_sections: tuple[ExtraPartEntry, ...]
    postings: tuple[PostingsEntry, ...] = ()

    @cached_property
    def field_names(self) -> frozenset[str]:
        """The names of the table's columns in the file."""
        return frozenset(field.name for field in self.fields)


def is_definition_of_rows(definition: str) -> bool:
    """Whether a projection's canonical definition is of rows in an order. SPEC.md section 4.9."""
    return _ORDER_MARK in definition


def has_zone_rules(definition: str) -> bool:
    """Whether a projection's canonical definition names rules of zones. SPEC.md section 4.9."""
    return _ZONE_RULES_MARK in definition


class _AnyPostings(Footer, frozen=True, omit_defaults=True):
    """A directory whose postings may be anything: no answer needs them."""

    postings: Any = ()


_DECODER: Final = msgspec.msgpack.Decoder(Footer)
_DECODER_OF_THE_REST: Final = msgspec.msgpack.Decoder(_AnyPostings)


def encode_footer(footer: Footer) -> bytes:
    """Return the footer's bytes."""
    return _ENCODER.encode(footer)


def decode_footer(content: memoryview, path: str) -> Footer:
    """Read a footer: types are proved here, meanings by `footer_checks.check_footer`."""
    try:
        try:
            return _DECODER.decode(content)
        except msgspec.ValidationError:
            fields = msgspec.structs.astuple(_DECODER_OF_THE_REST.decode(content))
            return Footer(*fields[:-1])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise corrupt(path, "footer", f"not a valid directory: {error}") from error
