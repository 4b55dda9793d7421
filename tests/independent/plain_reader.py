"""A second reader of segment files, written from SPEC.md alone to prove that the document suffices.

It decodes one value at a time and checks what it reads with assertions. It uses none of the
project's code, so the two agree only where the document is right.
"""

import struct
from typing import NamedTuple

import msgspec
import xxhash
import zstandard
from plain_encodings import page_rows, signed
from plain_sketches import value_hash

MAGIC, TAIL_MAGIC = bytes.fromhex("89 50 53 45 47 0d 0a 1a"), b"PSEGTAIL"


class PageRecord(NamedTuple):
    """A record of a page directory (5.1)."""

    file_offset: int
    stored_bytes: int
    raw_bytes: int
    row_count: int
    null_count: int
    encoding: int
    compression: int
    validity: int
    flags: int
    reserved: int
    minimum: int
    maximum: int
    checksum: int


class BlockRecord(NamedTuple):
    """A record of a bitmap index directory (8.1)."""

    file_offset: int
    stored_bytes: int
    first_id: int
    id_count: int
    reserved: int
    checksum: int


def records(directory, form, record):
    return [record(*fields) for fields in struct.iter_unpack("<" + form, directory)]


class PlainSegment:
    """A segment file held in memory."""

    def __init__(self, content):
        self.content, self.parts = content, {}
        offset, size, version, required, _, checksum, magic = struct.unpack(
            "<QIIIIQ8s", content[-40:]
        )
        assert (magic, version) == (TAIL_MAGIC, 1)
        assert offset % 8 == 0
        assert offset + size == len(content) - 40
        assert xxhash.xxh3_64_intdigest(content[offset:-16]) == checksum
        self.footer_offset, self.footer_checksum = offset, checksum
        self.footer = msgspec.msgpack.decode(content[offset : offset + size])
        of_rows = any("orderBy" in table["definition"] for table in self.footer["tables"])
        of_zones = any('"timeZones":{' in table["definition"] for table in self.footer["tables"])
        base, *others = self.footer["tables"]
        has_no_column = bool(others) and not base["columns"]
        self.is_companion = bool(required & 8)
        of_groups = has_no_column and not self.is_companion
        # Bit 0: a projection of rows; 1: rules of zones; 2: a view's part, which has groups alone;
        # 3: a companion, whose base rows are in a file of others.
        assert required == of_rows + 2 * of_zones + 4 * of_groups + 8 * self.is_companion
        self.file_id = self.footer["file_id"]
        assert content[:32] == MAGIC + struct.pack("<II", 1, 0) + self.file_id
        self.dictionaries = [
            self._rows(d["pages"], d["type"], d["type"] in ("string", "binary"))
            for d in self.footer["dictionaries"]
        ]
        for entry, values in zip(self.footer["dictionaries"], self.dictionaries, strict=True):
            assert len(values) == entry["cardinality"]
            assert None not in values[1:]

    def part(self, offset, size, checksum):
        """The bytes of a part, after checking its checksum (3)."""
        assert offset % 8 == 0
        # A page of nulls may be empty, and then another part is at the same place.
        self.parts[offset] = max(size, self.parts.get(offset, 0))
        stored = self.content[offset : offset + size]
        seed = xxhash.xxh3_64_intdigest(self.file_id) ^ offset
        assert xxhash.xxh3_64_intdigest(stored, seed) == checksum, f"checksum at {offset}"
        return stored

    def _rows(self, directory, type_name, without_bounds):
        rows = []
        for page in records(directory, "QIIIIBBBBIqqQ", PageRecord):
            stored = self.part(page.file_offset, page.stored_bytes, page.checksum)
            if page.compression == 1:
                assert zstandard.frame_content_size(stored) == page.raw_bytes
                stored = zstandard.ZstdDecompressor().decompress(stored)
            assert len(stored) == page.raw_bytes
            assert page.reserved == 0
            found = page_rows(stored, type_name, page.encoding, page.validity, page.row_count)
            check_bounds(page, found, type_name, without_bounds)
            rows += found
        return rows

    def table(self, name):
        """The table's entry in the footer."""
        (entry,) = [t for t in self.footer["tables"] if t["name"] == name]
        return entry

    def ids(self, column):
        """The dictionary ids of a column of kind `ids`."""
        return self._rows(column["pages"], "id", False)

    def values(self, table, column):
        """The values of a column; `table` and `column` are entries of the footer."""
        if column["kind"] == "ids":
            dictionary = self.dictionaries[column["dictionary"]]
            values = [dictionary[i] for i in self.ids(column)]
        else:
            values = self._rows(column["pages"], column["type"], column["kind"] == "opaque")
        assert len(values) == table["row_count"]
        return values

    def read_table(self, name):
        """{(role, name): values} of a table."""
        table = self.table(name)
        return {(c["role"], c["name"]): self.values(table, c) for c in table["columns"]}

    def hashes(self, number):
        """The stored value hashes (7) of a dictionary, or None."""
        section = self.footer["dictionaries"][number]["hashes"]
        if section is None:
            return None
        stored = self.part(section["file_offset"], section["byte_count"], section["checksum"])
        return [found for (found,) in struct.iter_unpack("<Q", stored)]

    def own_hashes(self, number):
        """The value hashes of a dictionary, computed from its values."""
        type_name = self.footer["dictionaries"][number]["type"]
        return [value_hash(value, type_name) for value in self.dictionaries[number]]

    def bitmaps(self, column):
        """The rows of each id in the column's bitmap index (8); empty without an index."""
        bitmaps = []
        for block in records(column["index_blocks"], "QIIIIQ", BlockRecord):
            assert (block.first_id, block.reserved) == (len(bitmaps), 0)
            stored = self.part(block.file_offset, block.stored_bytes, block.checksum)
            sizes = struct.unpack_from(f"<{block.id_count}I", stored)
            at = 4 * block.id_count + -4 * block.id_count % 8
            for size in sizes:
                bitmaps.append(roaring(stored[at : at + size]))
                at += size
            assert at == len(stored)
        return bitmaps

    def check_layout(self):
        """Check, after all was read, that parts and zeros cover the file from head to footer."""
        for extra in self.footer["extra_sections"]:
            section = extra["section"]
            self.part(section["file_offset"], section["byte_count"], section["checksum"])
        at = 32
        for offset, size in sorted(self.parts.items()):
            assert self.content[at:offset] == bytes(offset - at)
            assert offset - at < 8
            at = offset + size
        assert self.content[at : self.footer_offset] == bytes(self.footer_offset - at)
        assert self.footer_offset - at < 8


def check_bounds(page, rows, type_name, without_bounds):
    """Check what a page's record says of its rows (5.1)."""
    is_float = type_name in ("float", "double")
    held = [value for value in rows if value is not None]
    kept = [value for value in held if value == value] if not without_bounds else []
    if any(isinstance(value, int) and value != signed(value) for value in kept):
        kept = []
    bounds = [min(kept), max(kept)] if kept else [0, 0]
    if is_float:
        bounds = list(struct.unpack("<2q", struct.pack("<2d", *(bound + 0.0 for bound in bounds))))
    assert [page.minimum, page.maximum] == bounds
    assert page.flags == bool(kept) + 2 * (is_float and len(held) > len(kept))
    if type_name == "id":  # id 0 is null, or a value if the dictionary has no null
        assert page.null_count in (0, rows.count(0))
    else:
        assert page.null_count == len(rows) - len(held)


def roaring(content):
    """The values of a Roaring bitmap, whose containers must have their smallest form (8.3)."""
    (cookie,) = struct.unpack_from("<I", content)
    if cookie & 0xFFFF == 12347:
        count = (cookie >> 16) + 1
        flags = int.from_bytes(content[4 : 4 + -(-count // 8)], "little")
        at = 4 + -(-count // 8)
    else:
        assert cookie == 12346
        (count,) = struct.unpack_from("<I", content, 4)
        flags, at = 0, 8
    headers = struct.unpack_from(f"<{2 * count}H", content, at)
    at += 4 * count
    offsets = None
    if cookie == 12346 or count >= 4:
        offsets = struct.unpack_from(f"<{count}I", content, at)
        at += 4 * count
    values = []
    for number in range(count):
        high, cardinality = headers[2 * number] << 16, headers[2 * number + 1] + 1
        assert offsets is None or offsets[number] == at
        if flags >> number & 1:
            (runs,) = struct.unpack_from("<H", content, at)
            pairs = struct.unpack_from(f"<{2 * runs}H", content, at + 2)
            low = [
                start + step
                for start, more in zip(pairs[::2], pairs[1::2], strict=True)
                for step in range(more + 1)
            ]
            size = 2 + 4 * runs
        elif cardinality <= 4096:
            low, size = struct.unpack_from(f"<{cardinality}H", content, at), 2 * cardinality
        else:
            bits, size = int.from_bytes(content[at : at + 8192], "little"), 8192
            low = [value for value in range(65536) if bits >> value & 1]
        assert len(low) == cardinality
        starts = len(set(low) - {value + 1 for value in low})
        assert (flags >> number & 1) == (2 + 4 * starts < min(2 * cardinality, 8192))
        values += [high + value for value in low]
        at += size
    assert at == len(content)
    return values
