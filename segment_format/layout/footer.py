"""The directory of a segment file: what it holds and where. SPEC.md section 4.

The footer holds no values and is decoded whole when a file is opened. Fields a reader does not know
are ignored: whatever must be understood sets a bit of the tail's `required_features`.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from projseg.segment_format.layout.byte_reader import corrupt

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


def is_definition_of_rows(definition: str) -> bool:
    """Whether a projection's canonical definition is of rows in an order. SPEC.md section 4.9."""
    return _ORDER_MARK in definition


def has_zone_rules(definition: str) -> bool:
    """Whether a projection's canonical definition names rules of zones. SPEC.md section 4.9."""
    return _ZONE_RULES_MARK in definition


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


class Footer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The whole directory. SPEC.md section 4.1."""

    file_id: bytes
    writer: str
    fields: tuple[FieldEntry, ...]
    dictionaries: tuple[DictionaryEntry, ...]
    tables: tuple[TableEntry, ...]
    not_built: tuple[NotBuiltEntry, ...]
    extra_sections: tuple[ExtraPartEntry, ...]
    postings: tuple[PostingsEntry, ...] = ()


class _AnyPostings(Footer, frozen=True, omit_defaults=True):
    """A directory whose postings may be anything: no answer needs them."""

    postings: Any = ()


_DECODER: Final = msgspec.msgpack.Decoder(Footer)
_DECODER_OF_THE_REST: Final = msgspec.msgpack.Decoder(_AnyPostings)
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


def encode_footer(footer: Footer) -> bytes:
    """Return the footer's bytes."""
    return _ENCODER.encode(footer)


def decode_footer(content: memoryview, path: str) -> Footer:
    """Read a footer: types are proved here, meanings by `footer_checks.check_footer`.

    Raises
    ------
    CorruptSegmentError
        If the bytes are not a footer of the types above.
    """
    try:
        try:
            return _DECODER.decode(content)
        except msgspec.ValidationError:
            fields = msgspec.structs.astuple(_DECODER_OF_THE_REST.decode(content))
            return Footer(*fields[:-1])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise corrupt(path, "footer", f"not a valid directory: {error}") from error
