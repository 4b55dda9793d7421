"""Erase rows: delete them, write anew what stored them, vacuum, and search what is left.

The search has four parts. The filter is asked of every earlier version that is kept. Every segment
file is decoded and its texts are compared with those of the erased rows. Snapshots and manifests
are searched for the same texts. Bloom files must not speak of segments that are gone. A text that
rows of the newest version still have is not looked for elsewhere, as it tells nothing of the erased
ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pyarrow as pa

from projseg.algebra.expressions.sql_parameters import Arguments
from projseg.algebra.expressions.sql_words import text_literals
from projseg.algebra.expressions.tree import Literal
from projseg.errors import CorruptionError, InvalidInputError, ProjsegError
from projseg.maintenance.compact import Compaction, compact
from projseg.maintenance.row_changes.affected_segments import affected_segments
from projseg.maintenance.row_changes.delete_and_update import delete_rows
from projseg.maintenance.row_changes.matching_rows import Condition, rows_as_batches, scanned
from projseg.reader.plan.query_plan import QueryPlan
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.file.value_search import search_segment
from projseg.table_layer.coverage import open_bloom
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.checksummed_json import read_sealed
from projseg.table_layer.metadata.segment_entry import BloomReference
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import named_schema
from projseg.table_layer.still_stored import Holders
from projseg.table_layer.storage.paths import (
    DATA_PREFIX,
    METADATA_PREFIX,
    parse_kept_name,
    parse_segment_name,
    parse_snapshot_name,
)
from projseg.table_layer.storage.storage_contract import StoredFile
from projseg.table_layer.vacuum import vacuum

TEXTS_MAX: Final = 10_000
"""Most distinct texts of erased rows that are searched for."""

_PART_BYTES_MIN: Final = 4
"""A shorter text is found in metadata only as a whole value."""

_OF_NO_VALUES: Final = ("columns", "stored_columns", "cluster_by", "time_column")
"""What a table declares of its columns: a text that equals a column's name is not a row's."""

_DECLARED: Final = "a projection or a property of the table names it: declare it otherwise"

_FOUND: Final = pa.schema(
    [
        ("file", pa.string()),
        ("versions", pa.list_(pa.int64())),
        ("tags", pa.list_(pa.string())),
        ("what", pa.string()),
        ("count", pa.int64()),
        ("advice", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erasure did, and what it found afterwards.

    Parameters
    ----------
    version : int
        The newest table version.
    deleted_rows : int
        How many rows were deleted.
    rewritten_segments : int
        How many segments were written anew without removed values.
    removed_files, removed_bytes : int
        What the vacuum removed.
    searched_texts : int
        How many texts of the erased rows, and of the filter, were looked for; texts that other rows
        still have are not counted.
    searched_files, searched_bytes : int
        How many files were searched, and their size.
    searched_values : int
        How many decoded values were compared.
    found : pa.Table
        file, versions, tags, what (`rows`: the filter is true for so many; `hidden rows`: deleted
        rows that it cannot be asked of; `texts`; `history`: texts in what describes commits;
        `filters`: those of an index, of segments that are gone; `unreadable`), count, advice.
        Empty if nothing is left.
    """

    version: int
    deleted_rows: int
    rewritten_segments: int
    removed_files: int
    removed_bytes: int
    searched_texts: int
    searched_files: int
    searched_bytes: int
    searched_values: int
    found: pa.Table = field(repr=False)


def erase(
    base: Snapshot, condition: Condition, note: CommitNote, *, retention_hours: float = 0
) -> tuple[Snapshot, Erased]:
    """Delete rows, write anew what stores removed values, vacuum, and search what is left.

    Parameters
    ----------
    base : Snapshot
        The newest version.
    condition : Condition
        Which rows.
    note : CommitNote
        For the history.
    retention_hours : float
        Versions that were current since then are kept, and found.
    """
    texts = _texts_of(base, condition)
    snapshot, deleted = delete_rows(base, condition, note)
    snapshot, rewritten = compact(snapshot, Compaction(purge=True), note=note)
    snapshot, removed = vacuum(snapshot, retention_hours, note, dry_run=False, force=True)
    search = _Search(Holders.of(snapshot), texts)
    search.run(condition)
    return snapshot, Erased(
        snapshot.version,
        deleted.deleted_rows,
        len(rewritten),
        removed.file_count,
        removed.bytes,
        len(search.texts),
        search.file_count,
        search.byte_count,
        search.value_count,
        pa.Table.from_pylist(search.found, _FOUND),
    )


def _texts_of(base: Snapshot, condition: Condition) -> frozenset[bytes]:
    """Return the texts of the filter, and those that its columns have in the rows it means."""
    spec = scanned(base.properties, condition)
    types = {name: base.properties.schema.field(name).type for name in base.properties.schema.names}
    read = frozenset[str]() if spec.filter is None else spec.filter.columns
    names = [name for name, type_ in types.items() if name in read and _is_text(type_)]
    texts = {text.encode() for text in text_literals(condition.filter or "")}
    texts.update(_given_texts(condition.args))
    if names:
        given = {name: "NULL" for name in types if name not in names}
        wanted = QueryPlan(
            scanned(base.properties, condition, given), named_schema(base.properties), ()
        )
        for affected in affected_segments(base, condition):
            for batch in rows_as_batches(wanted, affected.source(), affected.row_ids):
                for name in names:
                    texts.update(_distinct(batch[name]))
            if len(texts) > TEXTS_MAX:
                raise InvalidInputError(
                    "PROJSEG_BAD_ARGUMENT",
                    f"the rows to be erased have more than {TEXTS_MAX} texts in the columns "
                    f"{', '.join(names)}, too many to be searched for; erase fewer rows at once, "
                    "or delete, compact and vacuum",
                )
    return frozenset(texts - {b""})


def _given_texts(given: Arguments | None) -> Iterator[bytes]:
    for value in () if given is None else given.values.values():
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Literal) and isinstance(one.value, str | bytes):
                yield one.value.encode() if isinstance(one.value, str) else one.value


def _distinct(values: pa.Array) -> Iterator[bytes]:
    for value in values.unique().drop_null().to_pylist():
        yield value.encode() if isinstance(value, str) else value


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


class _Search:
    """A search of what is left of a table."""

    def __init__(self, holders: Holders, texts: frozenset[bytes]) -> None:
        self.holders, self.texts = holders, texts
        self.found: list[dict[str, Any]] = []
        self.file_count = self.byte_count = self.value_count = 0

    def run(self, condition: Condition) -> None:
        """Search the newest version's own segments, then everything else."""
        storage = self.holders.newest.storage
        segments = [f for f in storage.list_names(DATA_PREFIX) if parse_segment_name(f.name)]
        newest = self.holders.newest.version
        segments.sort(key=lambda file: newest not in self.holders.versions_of(file.name))
        for file in segments:
            self._search_segment(file)
        for file in storage.list_names(METADATA_PREFIX):
            self._search_metadata(file)
        kept = (self.holders.newest, *self.holders.earlier)
        for listed in {one.name: one for each in kept for one in each.bloom_files}.values():
            self._search_filters(listed)
        for snapshot in self.holders.others():
            self._ask(snapshot, condition)

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

    def _search_segment(self, file: StoredFile) -> None:
        storage, versions = self.holders.newest.storage, self.holders.versions_of(file.name)
        self.file_count += 1
        self.byte_count += file.size
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
            self._add(file.name, versions, "unreadable", 1, error.message)
            return
        self.value_count += result.value_count
        if self.holders.newest.version in versions:
            # Other rows have them, which the erasure was not asked to remove.
            self.texts -= result.found
        elif result.found:
            self._add(file.name, versions, "texts", len(result.found), "")

    def _search_metadata(self, file: StoredFile) -> None:
        self.file_count += 1
        self.byte_count += file.size
        storage = self.holders.newest.storage
        version = parse_snapshot_name(file.name)
        kept = parse_kept_name(file.name)
        number = kept if version is None else version
        versions = self.holders.versions_of(file.name) if number is None else [number]
        try:
            content = msgspec.json.decode(read_sealed(storage, file.name), type=dict[str, Any])
        except (ProjsegError, msgspec.DecodeError, OSError) as error:
            self._add(file.name, versions, "unreadable", 1, str(error))
            return
        if history := self._count([content.pop(name, None) for name in ("commit", "optional")]):
            self._add(file.name, versions, "history", history, "")
        properties = content.get("properties", {})
        for name in _OF_NO_VALUES:
            properties.pop(name, None)
        if others := self._count(content):
            is_own = number == self.holders.newest.version
            self._add(file.name, versions, "texts", others, _DECLARED if is_own else "")

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

    def _count(self, content: object) -> int:
        """Return how many of the texts are values in decoded JSON, or whole words of them."""
        values = {value.encode("utf-8", "surrogatepass") for value in _strings(content)}
        whole = self.texts & values
        joined = b"\0".join(values)
        long = (text for text in self.texts - whole if len(text) >= _PART_BYTES_MIN)
        return len(whole) + sum(_has_words(joined, text) for text in long)

    def _ask(self, snapshot: Snapshot, condition: Condition) -> None:
        """Count the rows of an earlier version that the filter means."""
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
        for value in content.values():
            yield from _strings(value)
    elif isinstance(content, list):
        for value in content:
            yield from _strings(value)
