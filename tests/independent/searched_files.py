"""Search every byte of a table's files for markers, with the reader that knows SPEC.md alone."""

import re
from collections import Counter
from pathlib import Path

import msgspec
import zstandard
from plain_reader import PlainSegment

TEXT = re.compile(rb"MK[0-9]{6}K")
NUMBER_MIN, NUMBER_MAX = 9_000_000_000_000, 9_000_001_000_000
ZSTD = bytes.fromhex("28b52ffd")


class SearchedSegment(PlainSegment):
    """A segment whose pages are kept as they are when decompressed."""

    def __init__(self, content):
        self.raw = {}
        super().__init__(content)
        for table in self.all_tables():
            for column in table["columns"]:
                self.values(table, column)
                self.bitmaps(column)
        for number in range(len(self.dictionaries)):
            self.hashes(number)
        self.check_layout()  # so that no byte of the file was left out

    def part(self, offset, size, checksum):
        stored = super().part(offset, size, checksum)
        is_compressed = stored[:4] == ZSTD
        self.raw[offset, size] = (
            zstandard.ZstdDecompressor().decompress(stored) if is_compressed else stored
        )
        return stored

    def all_tables(self):
        """The base table, the projections, and the postings of indexes (17)."""
        yield from self.footer["tables"]
        for entry in self.footer.get("postings", []):
            yield entry["table"]

    def all_values(self):
        yield from self.dictionaries
        for table in self.all_tables():
            for column in table["columns"]:
                if column["kind"] != "ids":
                    yield self.values(table, column)


def markers_of(value):
    """Yield the markers in a decoded value, whatever it is nested in."""
    if isinstance(value, dict):
        for pair in value.items():
            yield from markers_of(pair)
    elif isinstance(value, list | tuple | set):
        for one in value:
            yield from markers_of(one)
    elif isinstance(value, str):
        yield from TEXT.findall(value.encode())
    elif isinstance(value, bytes):
        yield from TEXT.findall(value)
    elif isinstance(value, int) and NUMBER_MIN <= value < NUMBER_MAX:
        yield value


def searched(path, counts):
    """Return all markers in a file: in its bytes, its decompressed pages and its decoded values."""
    content = Path(path).read_bytes()
    counts["files"] += 1
    counts["bytes"] += len(content)
    found = set(TEXT.findall(content))
    if path.suffix == ".json":
        found.update(markers_of(msgspec.json.decode(content)))
    elif path.suffix == ".pseg":
        segment = SearchedSegment(content)
        counts["pages"] += len(segment.raw)
        postings = segment.footer.get("postings", [])
        counts["postings"] += sum(entry["table"]["row_count"] for entry in postings)
        counts["bytes"] += sum(map(len, segment.raw.values()))
        for raw in segment.raw.values():
            found.update(TEXT.findall(raw))
        found.update(markers_of(segment.footer))
        for values in segment.all_values():
            found.update(markers_of(values))
            counts["values"] += len(values)
    return found


def markers_by_file(location, counts=None):
    """Return the markers that each file of a table holds."""
    counts = Counter() if counts is None else counts
    return {
        str(path.relative_to(location)): searched(path, counts)
        for path in sorted(Path(location).rglob("*"))
        if path.is_file()
    }
