"""Tables with false values in them and every checksum right, as an attacker could make them.

`Original` takes a table apart into plain values: the snapshot, its manifests, the footers and the
bytes of the parts. `lies` chooses fields and other values for them; `Original.forged` writes the
table with these lies, each file sealed again and listed with its new checksum and size.
"""

import json
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import xxhash

from projseg.segment_format.checksum_and_compression import file_seed, part_checksum
from projseg.segment_format.footer import TAIL_LAYOUT, Tail
from projseg.segment_format.indexes.bitmap_index import INDEX_BLOCK_DTYPE
from projseg.segment_format.page_directory import PAGE_DTYPE

DTYPES = {"pages": PAGE_DTYPE, "index_blocks": INDEX_BLOCK_DTYPE}
INTEGERS = [
    *(-1, 0, 1, 2, 7, 255, 65_535, 65_537, 2**31 - 1, 2**32 - 1, 2**32, 2**40, 2**62),
    *(2**63 - 1, -(2**63), 2**63, 2**64 - 1),
]
TEXTS = [
    *("", "x", "\0", "\x1b[31m" * 50, "x" * 300, "e\u0301", "__base", "../../etc", "[" * 3000),
    *("null", "bigint", "decimal(38,2)", "array<" * 40 + "int" + ">" * 40, "timestamp", "9" * 400),
    *("base", "grouping", "state", "ids", "numbers", "opaque", "day", "PT0S", "time", "channel"),
    '{"name":"x","timeColumn":"time","groupBy":[],"aggregators":[["n","count(*)"]],"filter":null}',
]  # fmt: skip


@dataclass(frozen=True)
class Lie:
    """Another value for one field, or for bytes of a part; the place is the file, then keys."""

    place: tuple
    value: object

    def __str__(self):
        return f"{'/'.join(map(str, self.place))} = {str(self.value)[:80]!r}"


class Original:
    """A valid table in a folder, as plain values.

    Attributes
    ----------
    documents : dict
        By file: the snapshot and manifests as JSON gives them, footers of segments as dicts.
    """

    def __init__(self, location):
        self.location = Path(location)
        names = sorted((self.location / "_projseg").glob("*.json"))
        self.snapshot = f"_projseg/{names[-1].name}"
        self.documents = {self.snapshot: json.loads(names[-1].read_bytes())}
        self.manifests = [r[0] for r in self.documents[self.snapshot]["manifests"]]
        self.parts = {}
        for name in self.manifests:
            self.documents[name] = json.loads((self.location / name).read_bytes())
            for entry in self.documents[name]["entries"]:
                self._take_segment(entry[0])

    def _take_segment(self, name):
        content = (self.location / name).read_bytes()
        offset = TAIL_LAYOUT.unpack(content[-TAIL_LAYOUT.size :])[0]
        footer = msgspec.msgpack.decode(content[offset : -TAIL_LAYOUT.size])
        _open_directories(footer)
        self.parts[name], self.documents[name] = content[:offset], footer

    def forged(self, location, lies):
        """Write the table, with these lies, to another folder."""
        location = Path(location)
        for folder in ("data", "_projseg/manifests"):
            (location / folder).mkdir(parents=True)
        ends = {name: self._write_segment(location, name, lies) for name in self.parts}
        seals = {name: self._write_manifest(location, name, ends, lies) for name in self.manifests}
        snapshot = deepcopy(self.documents[self.snapshot])
        for reference in snapshot["manifests"]:
            reference[1:4] = seals[reference[0]]
        _apply(snapshot, self.snapshot, lies)
        (location / self.snapshot).write_bytes(sealed(snapshot))

    def _write_segment(self, location, name, lies):
        footer, parts = deepcopy(self.documents[name]), bytearray(self.parts[name])
        seed = file_seed(footer["file_id"])
        for lie in lies:
            if lie.place[:2] == (name, "bytes"):
                _change_part(footer, parts, seed, lie)
        _apply(footer, name, lies)
        _close_directories(footer)
        encoded = msgspec.msgpack.encode(footer)
        tail = Tail(len(parts), len(encoded), optional_features=int("postings" in footer))
        content = bytes(parts) + encoded + tail.pack(encoded)
        (location / name).write_bytes(content)
        return [len(content), tail.checksum(encoded)]

    def _write_manifest(self, location, name, ends, lies):
        manifest = deepcopy(self.documents[name])
        for entry in manifest["entries"]:
            entry[3:5] = ends[entry[0]]
        _apply(manifest, name, lies)
        payload = sealed(manifest)
        (location / name).write_bytes(payload)
        return [len(payload), payload[13:45].decode(), len(manifest["entries"] or ())]

    def places(self):
        """Return every place a lie can be at, with the value there."""
        return [
            ((name, *path), value)
            for name, document in self.documents.items()
            for path, value in _leaves(document)
        ]

    def kind(self, place):
        """Return the kind of a place: the kind of its file, and its keys without positions."""
        name = place[0]
        kind = "snapshot" if name == self.snapshot else "manifest"
        kind = "segment" if name in self.parts else kind
        return (kind, *(key for key in place[1:] if isinstance(key, str)))

    def lies(self, random, count):
        """Return `count` random lies, spread evenly over the kinds of places."""
        by_kind = {}
        for place, value in self.places():
            by_kind.setdefault(self.kind(place), []).append((place, value))
        kinds = sorted(by_kind)
        random.shuffle(kinds)
        found = []
        while len(found) < count:
            kind = kinds[len(found) % len(kinds)]
            place, value = random.choice(by_kind[kind])
            if random.random() < 0.2:
                found.append(self.byte_lie(random))
            else:
                found.append(Lie(place, random.choice(other_values(value, random))))
        return found

    def byte_lie(self, random):
        """Return a change of bytes inside a part, whose checksum is then repaired."""
        name = random.choice(list(self.parts))
        records = list(_records(self.documents[name]))
        record = random.choice(records)
        sizes = [key for key in ("stored_bytes", "byte_count") if key in record]
        size = record[sizes[0]]
        start = record["file_offset"]
        at = random.randrange(min(size, 40)) if random.random() < 0.7 else random.randrange(size)
        values = [0, 1, 7, 32, 64, 65, 127, 128, 255, random.randrange(256)]
        change = bytes(random.choice(values) for _ in range(random.choice([1, 1, 2, 4, 8])))
        return Lie((name, "bytes", start, at), change[: size - at])


def other_values(value, random):
    """Return values to put in place of this one."""
    match value:
        case bool():
            return [not value, None, 1]
        case int():
            near = [value - 1, value + 1, value // 2, -value]
            near = [n for n in near if abs(n) < 2**63]
            return [*near, *near, *INTEGERS, None, "1", 1.5]
        case float():
            return [0.0, -0.0, 1e308, value + 1, 3, "Infinity", "NaN", None]
        case str():
            return [*TEXTS, value[:-1], value + value, value.swapcase(), None, 1]
        case bytes():
            return [b"", value[:-1], value * 2, bytes(len(value)), None]
        case list() if value:
            at = random.randrange(len(value))
            dropped, doubled = value[:at] + value[at + 1 :], [*value, value[at]]
            return [[], dropped, doubled, value[::-1], None]
        case dict() if value:
            key = random.choice(list(value))
            dropped = {k: v for k, v in value.items() if k != key}
            renamed = {("x" if k == key else k): v for k, v in value.items()}
            return [{}, dropped, renamed, None]
        case _:
            return [0, 1, -1, 2**62, "", "x", [], [0, 1], {}, True, None]


def _leaves(value, path=()):
    """Yield (path, value) of everything inside a document."""
    items = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        yield (*path, key), item
        yield from _leaves(item, (*path, key))


def _apply(document, name, lies):
    for lie in lies:
        if lie.place[0] != name or lie.place[1] == "bytes":
            continue
        *path, last = lie.place[1:]
        inner = document
        try:
            for key in path:
                inner = inner[key]
            inner[last] = lie.value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier lie took the place away


def _records(value):
    """Yield the record of every part that holds bytes, in a footer with open directories."""
    if isinstance(value, dict):
        if value.get("stored_bytes", value.get("byte_count", 0)):
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _records(item)


def _change_part(footer, parts, seed, lie):
    _, _, offset, at = lie.place
    parts[offset + at : offset + at + len(lie.value)] = lie.value
    for record in _records(footer):
        if record["file_offset"] == offset:
            size = record["stored_bytes"] if "stored_bytes" in record else record["byte_count"]
            record["checksum"] = part_checksum(bytes(parts[offset : offset + size]), seed, offset)


def _open_directories(value):
    """Turn directories from bytes into lists of records, in place."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, bytes) and key in DTYPES:
            records = np.frombuffer(item, DTYPES[key])
            value[key] = [dict(zip(records.dtype.names, r, strict=True)) for r in records.tolist()]
        elif isinstance(item, dict | list):
            _open_directories(item)


def _close_directories(value):
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, list) and key in DTYPES:
            value[key] = b"".join(_record(record, DTYPES[key]) for record in item)
        elif isinstance(item, dict | list):
            _close_directories(item)


def _record(record, dtype):
    """Return a record's bytes, with each field cut to its width; of anything else, junk."""
    if not isinstance(record, dict):
        return b"junk"
    found = np.zeros(1, dtype)
    for name in dtype.names:
        value = record.get(name)
        number = value if isinstance(value, int) else 0
        width = dtype[name].itemsize
        raw = (number % (1 << 8 * width)).to_bytes(width, "little")
        found[name] = np.frombuffer(raw, dtype[name])[0]
    return found.tobytes()


def sealed(document):
    """Return a document of a table as its file, with the checksum of what it says."""
    payload = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(
        errors="replace"
    )
    return payload[:13] + xxhash.xxh3_128_hexdigest(payload[47:]).encode() + payload[45:]
