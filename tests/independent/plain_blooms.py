"""A reader of Bloom files made from SPEC.md alone: sections 2, 3 and 15, and "Table", indexes."""

import json
import struct

import msgspec
import xxhash
from plain_sketches import value_hash

SALTS = [
    int(text, 16)
    for text in [
        "47b6137b",
        "44974d91",
        "8824ad5b",
        "a2b7289d",
        "705495c7",
        "2df1424b",
        "9efc4947",
        "5c6bfb31",
    ]
]


def mixed(word):
    """The finaliser of MurmurHash3, fmix64."""
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD % 2**64
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 % 2**64
    return word ^ word >> 33


def indexes(table, version):
    """What a snapshot says of indexes, its definitions proved."""
    found = json.loads((table / f"_projseg/{version:020}.json").read_text())["indexes"]
    for digest, text in found["definitions"].items():
        items = ", ".join(json.dumps(value) for value in json.loads(text).values())
        assert xxhash.xxh3_128_hexdigest(f"[{items}]".encode()) == digest
    return found


class PlainBloomFile:
    """One listed file."""

    def __init__(self, table, reference):
        self.definition_hash, name, size, footer_offset, checksum, segment_count, *_ = reference
        self.content = (table / name).read_bytes()
        assert len(self.content) == size
        *fields, stated, magic = struct.unpack("<QIIIIQ8s", self.content[-40:])
        assert (magic, fields[0], stated) == (b"PBLMTAIL", footer_offset, checksum)
        footer = self.content[footer_offset:-40]
        assert xxhash.xxh3_64_intdigest(footer + self.content[-40:-16]) == stated
        self.footer = msgspec.msgpack.decode(footer)
        assert self.content[:8] == b"\x89PSEGBLM"
        assert self.content[16:32] == self.footer["file_id"]
        assert self.footer["definition_hash"] == self.definition_hash
        assert len(self.footer["segments"]) == segment_count

    def row(self, band, number):
        """The blocks of one row, the checksum of its page proved."""
        blocks, count, offset = band
        page_rows = max(1, 32_768 // (32 * count))
        page = number // page_rows
        start = offset + page * (page_rows * 32 * count + 8)
        rows = min(page_rows, blocks - page * page_rows)
        content = self.content[start : start + rows * 32 * count]
        seed = xxhash.xxh3_64_intdigest(self.footer["file_id"]) ^ start
        (stated,) = struct.unpack("<Q", self.content[start + len(content) :][:8])
        assert xxhash.xxh3_64_intdigest(content, seed=seed) == stated
        at = number % page_rows * 32 * count
        words = struct.unpack(f"<{8 * count}I", content[at : at + 32 * count])
        return [words[8 * n : 8 * n + 8] for n in range(count)]

    def may_hold(self, value, type_name):
        """The segments that may hold a value."""
        x = mixed(value_hash(value, type_name))
        bits = [(x % 2**32 * salt % 2**32) >> 27 for salt in SALTS]
        found = set()
        for number, band in enumerate(self.footer["bands"]):
            row = self.row(band, (x >> 32) * band[0] >> 32)
            for file, in_band, slot, _, status, *_ in self.footer["segments"]:
                if in_band == number and all(
                    w >> b & 1 for w, b in zip(row[slot], bits, strict=True)
                ):
                    assert status == "built"
                    found.add(file)
        return found


def postings(segment, digest):
    """{key: places} of a segment's postings of a definition (17); None where it tells nothing."""
    (entry,) = [one for one in segment.footer["postings"] if one["definition_hash"] == digest]
    assert json.loads(entry["definition"])["postings"] is True
    assert entry["of"] == "ids"
    table = entry["table"]
    keys, places = (segment.values(table, column) for column in table["columns"])
    pairs = list(zip(segment.ids(table["columns"][0]), places, strict=True))
    assert pairs == sorted(set(pairs))
    assert all(0 <= place < entry["count"] for place in places)
    found = {}
    for key, place in zip(keys, places, strict=True):
        found.setdefault(key, []).append(place)
    known = segment.dictionaries[table["columns"][0]["dictionary"]]
    return {key: found.get(key) for key in known}
