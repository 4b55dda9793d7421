"""Segment entries: what a manifest says of one segment. SPEC.md "Table", manifests.

They travel as few bytes, and are checked against themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import msgspec
import xxhash
import zstandard

from projseg.errors import InvalidInputError, LimitExceededError
from projseg.segment_format.format_limits import (
    DELETED_ROWS_MAX,
    SEGMENT_BYTES_MAX,
    SEGMENT_ROWS_MAX,
    VECTOR_BYTES_MAX,
)
from projseg.table_layer.metadata.metadata_limits import METADATA_BYTES_MAX
from projseg.table_layer.storage.paths import parse_vector_name

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Checksum64 = Annotated[int, msgspec.Meta(ge=0)]
Micros = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Bound = int | float | str | None

_ENCODER: Final = msgspec.json.Encoder()

LOGGER: Final = logging.getLogger("projseg.table")


class ColumnZone(
    msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """Facts about one column of a segment's base rows.

    Bounds are of values that are neither null nor NaN, in the stored form of `column_bounds`, and
    None if there are none or unknown; if not exact, they only enclose these values. `bytes` is the
    stored size of the column in the base table.
    """

    min: Bound
    max: Bound
    null_count: Count
    has_nan: bool
    exact: bool
    bytes: Count


class StoredProjection(
    msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """A projection that a segment embeds; its definition is the snapshot's, by hash."""

    name: str
    definition_hash: str
    row_count: Count
    byte_count: Count
    column_bytes: dict[str, Count]


class DeletionVector(
    msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """The file that names the deleted rows of a segment, and their number.

    `paths.new_vector_name` makes its name; its end states the checksum.
    """

    file: str
    byte_count: Count
    file_checksum: Checksum64
    row_count: Count


class ForeignFile(
    msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """The file of a source that holds the base rows of an entry. SPEC.md "Table", foreign tables.

    `tag` tells its content from others of that path and size: of a store the ETag, of a disk the
    time of its last change in nanoseconds and its inode; empty where a log names files that are
    never rewritten. The entry stands for the row groups [first, end). `partition` has the texts of
    its partition columns by the table's name, None for null. `names` has the file's names of its
    columns by stored name, where these are matched by ids, and partition columns are by stored name
    then, too; without it, columns have the table's names.
    """

    path: str
    byte_count: Count
    tag: str
    footer_digest: Checksum64
    row_groups: tuple[Count, Count]
    partition: dict[str, str | None] = {}
    names: dict[str, str] | None = None

    @property
    def identity(self) -> tuple[str, int, str]:
        """A key that no other file of its source has."""
        return self.path, self.byte_count, self.tag

    @property
    def listed_as(self) -> str:
        """A key of its row groups that no others have."""
        first, end = self.row_groups
        found = f"{self.path} {self.byte_count} {self.tag} {self.footer_digest} {first}-{end}"
        if self.names is None:
            return found
        return f"{found} {xxhash.xxh3_64_hexdigest(_ENCODER.encode(sorted(self.names.items())))}"


class BloomReference(
    msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """A Bloom file as a snapshot lists it. SPEC.md "Table", indexes.

    `paths.new_bloom_name` makes its name, and its tail states the checksum. Times are the smallest
    and largest of its segments, or the empty range if they have none.
    """

    definition_hash: str
    name: str
    byte_count: Count
    footer_offset: Count
    checksum: Checksum64
    segment_count: Count
    min_time_us: Micros
    max_time_us: Micros


class SegmentEntry(
    msgspec.Struct,
    frozen=True,
    array_like=True,
    gc=False,
    kw_only=True,
    forbid_unknown_fields=True,
):
    """One listed segment: all that planning needs to know without opening the file.

    `paths.segment_name` makes the name of the file, and its tail states the checksum; `row_count`
    is of the base table, `byte_count` of the file. `interval` is `[start, end)` of its time chunk
    in microseconds UTC, None for the chunk of all time. `columns` lacks those added to the table
    later; `not_built` has (name, definition_hash, reason) of declared projections. With a deletion
    vector, every other fact is still of all rows of the file. `bloom_files` are those that its
    writer made for it and others: the commit that lists the segment lists them, and no manifest
    holds them.
    """

    file: str
    write_id: str
    row_count: Count
    byte_count: Count
    footer_checksum: Checksum64
    interval: tuple[Micros, Micros] | None = None
    min_time_us: Micros | None = None
    max_time_us: Micros | None = None
    columns: dict[str, ColumnZone]
    projections: tuple[StoredProjection, ...] = ()
    not_built: tuple[tuple[str, str, str], ...] = ()
    deletion_vector: DeletionVector | None = None
    bloom_files: tuple[BloomReference, ...] = ()

    @property
    def foreign(self) -> ForeignFile | None:
        """The file of a source that has the base rows; None if the segment has them."""
        return None

    @property
    def listed_as(self) -> str:
        """The entry's identity: whose rows it stands for, and which are deleted."""
        foreign = self.foreign
        return listed_as(self.file, self.deletion_vector) if foreign is None else foreign.listed_as

    @property
    def has_file(self) -> bool:
        """Whether it has a file of its own, and not only rows of a source."""
        return self.foreign is None or self.byte_count > 0

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it needs."""
        vector = self.deletion_vector
        return (self.file,) if vector is None else (self.file, vector.file)

    @property
    def deleted_row_count(self) -> int:
        """Base rows that are deleted."""
        return 0 if self.deletion_vector is None else self.deletion_vector.row_count

    @property
    def live_row_count(self) -> int:
        """Base rows that are not deleted."""
        return self.row_count - self.deleted_row_count

    @property
    def definition_hashes(self) -> set[str]:
        """Hashes of all definitions this entry mentions."""
        built = {projection.definition_hash for projection in self.projections}
        return built | {definition_hash for _, definition_hash, _ in self.not_built}


class ForeignEntry(
    SegmentEntry,
    frozen=True,
    array_like=True,
    gc=False,
    kw_only=True,
    forbid_unknown_fields=True,
):
    """A segment whose base rows are in a foreign file.

    Its own file has projections of these rows. Without a name and bytes, no projections were made
    yet, and of its columns only the names are known.
    """

    foreign: ForeignFile


def listed_as(file: str, vector: DeletionVector | None) -> str:
    """Return `SegmentEntry.listed_as` of a file and its deletion vector."""
    return file if vector is None else f"{file} without {vector.file}"


def encode_entry(entry: SegmentEntry) -> bytes:
    """Return an entry as a manifest holds it: without a deletion vector where no row is deleted.

    One of foreign rows has all its fields, and none of Bloom files.
    """
    if isinstance(entry, ForeignEntry):
        *plain, foreign = msgspec.structs.astuple(msgspec.structs.replace(entry, bloom_files=()))
        described = msgspec.structs.astuple(foreign)
        is_by_name = entry.foreign.names is None
        return _ENCODER.encode((*plain, described[:-1] if is_by_name else described))
    listed = msgspec.structs.astuple(entry)[:-1]
    return _ENCODER.encode(listed if entry.deletion_vector is not None else listed[:-1])


def bloom_files_of(entries: Iterable[SegmentEntry]) -> tuple[BloomReference, ...]:
    """Return the Bloom files that writers of segments made for them, each once."""
    return tuple({one.name: one for entry in entries for one in entry.bloom_files}.values())


def written_files(entries: Sequence[SegmentEntry]) -> list[str]:
    """Return the names of new segments' files, and of the Bloom files made for them."""
    return [entry.file for entry in entries] + [one.name for one in bloom_files_of(entries)]


_ENTRIES: Final = msgspec.json.Decoder(list[msgspec.Raw])
_FIELDS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_ENTRY: Final = msgspec.json.Decoder(SegmentEntry)
_FOREIGN: Final = msgspec.json.Decoder(ForeignEntry)


def decoded_entry(raw: msgspec.Raw) -> SegmentEntry:
    """Return an entry that a task has written, of foreign rows where it has their file.

    Raises msgspec.MsgspecError if it is none.
    """
    is_foreign = len(_FIELDS.decode(raw)) == len(ForeignEntry.__struct_fields__)
    found: SegmentEntry = (_FOREIGN if is_foreign else _ENTRY).decode(raw)
    return found


def packed(entries: Sequence[SegmentEntry]) -> bytes:
    """Return entries as zstandard over JSON."""
    text = msgspec.json.encode(list(entries))
    if len(text) > METADATA_BYTES_MAX:
        raise LimitExceededError(
            "PROJSEG_METADATA_TOO_LARGE",
            f"a task has {len(entries)} segments, {len(text)} bytes to list and at most "
            f"{METADATA_BYTES_MAX} are read; write with more tasks or larger segments",
        )
    return zstandard.compress(text)


def unpacked(entries: bytes) -> list[SegmentEntry]:
    """Return entries, checked as far as their types go."""
    try:
        # zstandard allocates what the frame declares; one that declares nothing says 2**64 - 1.
        declared = zstandard.get_frame_parameters(entries).content_size
        if declared > METADATA_BYTES_MAX:
            raise LimitExceededError(
                "PROJSEG_METADATA_TOO_LARGE",
                f"a task's commit message declares {declared} bytes; at most "
                f"{METADATA_BYTES_MAX} are read: write again",
            )
        return list(map(decoded_entry, _ENTRIES.decode(zstandard.decompress(entries))))
    except (zstandard.ZstdError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInputError(
            "PROJSEG_BAD_COMMIT_ENTRY",
            f"a task's commit message cannot be read: {error}; write again, with one release "
            "of projseg on all executors",
        ) from error


def warn_of_releases(releases: Iterable[str]) -> None:
    """Say so if several releases wrote."""
    if len(set(releases)) > 1:
        LOGGER.warning("executors run different releases of projseg; install one everywhere")


def entry_problem(entry: SegmentEntry) -> str | None:
    """Return why an entry contradicts itself or the limits of segments, or None if it does not.

    Planning computes with these numbers, so they are checked when listed and when read.
    """
    if entry.row_count > SEGMENT_ROWS_MAX or entry.byte_count > SEGMENT_BYTES_MAX:
        return (
            f"states {entry.row_count} rows and {entry.byte_count} bytes, more than a segment has"
        )
    problem = _time_problem(entry) or _vector_problem(entry) or _foreign_problem(entry)
    if problem is not None:
        return problem
    for name, zone in entry.columns.items():
        if (problem := _zone_problem(zone, entry.row_count)) is not None:
            return f"states of column '{name}' {problem}"
    return _projection_problem(entry)


def _vector_problem(entry: SegmentEntry) -> str | None:
    vector = entry.deletion_vector
    if vector is None:
        return None
    if parse_vector_name(vector.file) is None:
        return f"names {vector.file[:200]!r}, which is no name of a deletion vector"
    if not 0 < vector.row_count < entry.row_count:
        return f"has {vector.row_count} deleted rows of {entry.row_count}"
    if vector.row_count > DELETED_ROWS_MAX or vector.byte_count > VECTOR_BYTES_MAX:
        return f"has a deletion vector of {vector.row_count} rows and {vector.byte_count} bytes"
    return None


def _foreign_problem(entry: SegmentEntry) -> str | None:
    foreign = entry.foreign
    if foreign is None:
        return None
    if entry.deletion_vector is not None:
        return "has rows of a source and deleted rows"
    first, end = foreign.row_groups
    return None if first <= end else f"stands for row groups {first} to {end}"


def _time_problem(entry: SegmentEntry) -> str | None:
    smallest, largest, interval = entry.min_time_us, entry.max_time_us, entry.interval
    if interval is not None and interval[0] >= interval[1]:
        return "has an interval that ends before it starts"
    if smallest is None and largest is None:
        return None
    if smallest is None or largest is None:
        return "states one end of its time range only"
    start, end = interval or (smallest, largest + 1)
    return None if start <= smallest <= largest < end else "has times outside its interval"


def _zone_problem(zone: ColumnZone, row_count: int) -> str | None:
    if zone.null_count > row_count:
        return f"{zone.null_count} nulls in {row_count} rows"
    if zone.bytes > SEGMENT_BYTES_MAX:
        return f"{zone.bytes} bytes, more than a segment has"
    if _is_above(zone.min, zone.max):
        return f"the minimum {zone.min!r} above the maximum {zone.max!r}"
    return None


def _projection_problem(entry: SegmentEntry) -> str | None:
    names = [projection.name for projection in entry.projections]
    if len(set(names)) != len(names):
        return "embeds two projections of one name"
    if "" in names:
        return "embeds a projection without a name"
    for projection in entry.projections:
        if projection.row_count > entry.row_count:
            return "embeds a projection of more rows than it has itself"
        largest = max(projection.byte_count, *projection.column_bytes.values(), 0)
        if largest > SEGMENT_BYTES_MAX:
            return f"embeds a projection of {largest} bytes, more than a segment has"
    return None


def _is_above(low: Bound, high: Bound) -> bool:
    if isinstance(low, str):
        return isinstance(high, str) and low > high
    return isinstance(low, int | float) and isinstance(high, int | float) and low > high
