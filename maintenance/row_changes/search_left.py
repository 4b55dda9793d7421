"""What is left of erased rows: every file in every place of a table is searched for their texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from projseg.errors import CorruptionError, ProjsegError
from projseg.maintenance.row_changes.affected_segments import affected_segments
from projseg.maintenance.row_changes.matching_rows import Condition
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.file.value_search import search_segment
from projseg.table_layer.coverage import open_bloom
from projseg.table_layer.metadata.checksummed_json import read_sealed
from projseg.table_layer.metadata.segment_entry import BloomReference
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.still_stored import Holders
from projseg.table_layer.storage.local_files import foreign_files
from projseg.table_layer.storage.paths import (
    PLACES,
    RESULTS,
    VIEWS,
    is_temporary,
    parse_kept_name,
    parse_segment_name,
    parse_snapshot_name,
)
from projseg.table_layer.storage.storage_contract import Storage, StoredFile

_PART_BYTES_MIN: Final = 4
"""A shorter text is found in metadata only as a whole value."""

_OF_NO_VALUES: Final = ("columns", "stored_columns", "cluster_by", "time_column")
"""What a table declares of its columns: a text that equals a column's name is not a row's."""

_DECLARED: Final = "a projection or a property of the table names it: declare it otherwise"

_OF_VIEWS: Final = (
    "views hold it, in groups or in a SELECT that names it: drop the view that does, or erase in "
    "the table that has such rows, and erase again"
)
_RESULT_FOLDER: Final = re.compile(rf"{RESULTS}[0-9a-f]+/")

FOUND: Final = pa.schema(
    [
        ("file", pa.string()),
        ("versions", pa.list_(pa.int64())),
        ("tags", pa.list_(pa.string())),
        ("what", pa.string()),
        ("count", pa.int64()),
        ("advice", pa.string()),
    ]
)


class Search:
    """A search of what is left of a table."""

    def __init__(self, holders: Holders, texts: frozenset[bytes]) -> None:
        self.holders, self.texts = holders, texts
        self.found: list[dict[str, Any]] = []
        self.file_count = self.byte_count = self.value_count = 0

    def run(
        self,
        condition: Condition,
        viewed: Iterable[Snapshot] = (),
        problems: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Search the newest version's own segments, then everything else.

        Problems are places that could not be left, and why.
        """
        storage = self.holders.newest.storage
        newest = self.holders.newest.version
        own = [f for place in PLACES[:2] for f in storage.list_names(place)]

        def is_later(file: StoredFile) -> tuple[bool, bool]:
            is_listed = newest in self.holders.versions_of(file.name)
            return parse_segment_name(file.name) is None, not is_listed

        own.sort(key=is_later)
        for file in own:
            self._search_file(storage, file)
        for table in viewed:
            for place in PLACES[2:]:
                for file in table.storage.list_names(place):
                    self._search_file(table.storage, file)
            if table.storage.location != storage.location:
                self._tell_foreign(table.storage, VIEWS)
        kept = (self.holders.newest, *self.holders.earlier)
        for listed in {one.name: one for each in kept for one in each.bloom_files}.values():
            self._search_filters(listed)
        for snapshot in self.holders.others():
            self._ask(snapshot, condition)
        for place, why in problems:
            self._add(place, (), "unreadable", 1, f"views could not be refreshed: {why}")
        self._tell_foreign(storage, "")

    def _tell_foreign(self, storage: Storage, folder: str) -> None:
        for name in foreign_files(storage):
            if name.startswith(folder):
                shown = self._file_name(storage, name)
                self._add(shown, (), "foreign", 1, "projseg did not make the file: look into it")

    def _search_file(self, storage: Storage, file: StoredFile) -> None:
        """Search a file of any kind; Bloom files hold no texts, and neither do lists of rows."""
        own_name = _in_table(file.name)
        is_own = own_name == file.name
        advice = "" if is_own else _OF_VIEWS
        if is_temporary(own_name):
            self._search_bytes(storage, file)
        elif parse_segment_name(own_name) is not None:
            self._search_segment(storage, file, advice)
        elif own_name.endswith(".json"):
            self._search_metadata(storage, file, advice)

    def _search_bytes(self, storage: Storage, file: StoredFile) -> None:
        """Report an unfinished file, which cannot be decoded."""
        self._count_file(file)
        advice = "a write that ended left it, or one runs: erase again when none does"
        self._add(self._file_name(storage, file.name), (), "unreadable", 1, advice)

    def _count_file(self, file: StoredFile) -> None:
        self.file_count += 1
        self.byte_count += file.size

    def _add(self, file: str, versions: Iterable[int], what: str, count: int, advice: str) -> None:
        listed = sorted(versions)
        tags = self.holders.tags_of(listed)
        row = {"file": file, "versions": listed, "tags": tags, "what": what, "count": count}
        self.found.append({**row, "advice": advice or self._advice(listed, tags)})

    def _advice(self, versions: list[int], tags: list[str]) -> str:
        if tags:
            return f"drop the tags {', '.join(tags)} and erase again"
        if versions:
            return "the version is kept for the retention that was asked for: vacuum later"
        return "no version lists the file: a write that runs may; erase again when it is done"

    def _search_segment(self, storage: Storage, file: StoredFile, advice: str) -> None:
        versions = [] if advice else self.holders.versions_of(file.name)
        self._count_file(file)
        if not self.texts:
            return
        wanted = pa.array(sorted(self.texts), pa.large_binary())
        path = f"{storage.location}/{file.name}"
        try:
            segment = SegmentFile.open(
                lambda offset, size: storage.read_range(file.name, offset, size),
                file.size,
                path=path,
            )
            result = search_segment(segment, wanted)
        except CorruptionError as error:
            self._add(self._file_name(storage, file.name), versions, "unreadable", 1, error.message)
            return
        self.value_count += result.value_count
        is_newest = self.holders.newest.version in versions
        stated = self._count([table.definition for table in segment.tables[1:]])
        if is_newest:
            # Other rows have them, which the erasure was not asked to remove.
            self.texts -= result.found
        if stated:
            said = _DECLARED if is_newest else advice
            self._add(self._file_name(storage, file.name), versions, "texts", stated, said)
        elif result.found and not is_newest:
            self._add(
                self._file_name(storage, file.name), versions, "texts", len(result.found), advice
            )

    def _search_metadata(self, storage: Storage, file: StoredFile, advice: str) -> None:
        self._count_file(file)
        shown = self._file_name(storage, file.name)
        version = parse_snapshot_name(file.name)
        kept = parse_kept_name(file.name)
        number = kept if version is None else version
        versions = self.holders.versions_of(file.name) if number is None else [number]
        if advice:
            versions, number = [], None
        try:
            content = msgspec.json.decode(read_sealed(storage, file.name), type=dict[str, Any])
        except (ProjsegError, msgspec.DecodeError, OSError) as error:
            self._add(shown, versions, "unreadable", 1, str(error))
            return
        if history := self._count([content.pop(name, None) for name in ("commit", "optional")]):
            self._add(shown, versions, "history", history, advice)
        properties = content.get("properties", {})
        for name in _OF_NO_VALUES:
            properties.pop(name, None)
        if others := self._count(content):
            is_own = number == self.holders.newest.version
            self._add(shown, versions, "texts", others, _DECLARED if is_own else advice)

    def _search_filters(self, listed: BloomReference) -> None:
        """Find filters of segments that no version has: they still answer for removed values."""
        self.file_count += 1
        self.byte_count += listed.byte_count
        versions = self.holders.versions_of(listed.name)
        try:
            file = open_bloom(self.holders.newest.storage, listed)
        except (ProjsegError, OSError) as error:
            self._add(listed.name, versions, "unreadable", 1, str(error))
            return
        gone = [one for one in file.footer.segments if not self.holders.versions_of(one.file)]
        if gone:
            self._add(listed.name, versions, "filters", len(gone), "")

    def _file_name(self, storage: Storage, name: str) -> str:
        """Return a file's name; with its table's location if it is another's."""
        is_own = storage.location == self.holders.newest.storage.location
        return name if is_own else f"{storage.location}/{name}"

    def _count(self, content: object) -> int:
        """Return how many of the texts are values in decoded JSON, or whole words of them."""
        values = {value.encode("utf-8", "surrogatepass") for value in _strings(content)}
        whole = self.texts & values
        joined = b"\0".join(values)
        long = (text for text in self.texts - whole if len(text) >= _PART_BYTES_MIN)
        return len(whole) + sum(_has_words(joined, text) for text in long)

    def _ask(self, snapshot: Snapshot, condition: Condition) -> None:
        """Count the rows of an earlier version that match the filter."""
        name = f"version {snapshot.version}"
        newest = self.holders.newest.version
        try:
            count = sum(affected.row_count for affected in affected_segments(snapshot, condition))
        except ProjsegError as error:
            advice = f"the filter cannot be asked of it: {error.message}"
            self._add(name, [snapshot.version], "unreadable", 1, advice)
            return
        hidden = sum(
            entry.deleted_row_count
            for entry in snapshot.segments
            if newest not in self.holders.versions_of(entry.file)
        )
        if count:
            self._add(name, [snapshot.version], "rows", count, "")
        if hidden:
            self._add(name, [snapshot.version], "hidden rows", hidden, "")


def _in_table(name: str) -> str:
    """Return a file's name in its table, store of views or stored result."""
    name, found = _RESULT_FOLDER.subn("", name, count=1)
    return name if found else name.removeprefix(VIEWS)


def _has_words(joined: bytes, text: bytes) -> bool:
    """Whether a text stands among others, and not inside of a word as in a file's name."""
    start = joined.find(text)
    while start >= 0:
        around = (
            joined[max(0, start - 1) : start],
            joined[start + len(text) : start + len(text) + 1],
        )
        within = (text[:1].isalnum() and around[0].isalnum()) or (
            text[-1:].isalnum() and around[1].isalnum()
        )
        if not within:
            return True
        start = joined.find(text, start + 1)
    return False


def _strings(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        # A key is a name; one with a literal in it is that of a state, such as a filtered count's.
        yield from (key for key in content if "'" in key)
        for value in content.values():
            yield from _strings(value)
    elif isinstance(content, list):
        for value in content:
            yield from _strings(value)
