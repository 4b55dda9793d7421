"""Check new segments before a snapshot lists them, and read the files of listed segments.

Reports of executors are not trusted: a name must be one that this commit's attempts could have
made, one attempt for each partition, and the file must exist whole, with the bytes stated. Parts of
a listed segment can be fetched before they are needed, by few requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from projseg.errors import (
    CommitError,
    CorruptSegmentError,
    CorruptTableError,
    InvalidInputError,
    ProjsegError,
)
from projseg.memory.forks import side_by_side
from projseg.segment_format.footer import TAIL_LAYOUT, parse_tail
from projseg.segment_format.footer_checks import ENDING_BYTES
from projseg.segment_format.indexes.bloom_file import BLOOM_TAIL_MAGIC
from projseg.table_layer.metadata.manifest import is_storable
from projseg.table_layer.metadata.segment_entry import (
    BloomReference,
    SegmentEntry,
    bloom_files_of,
    entry_problem,
)
from projseg.table_layer.storage.paths import (
    SegmentName,
    parse_bloom_name,
    parse_segment_name,
    parse_vector_name,
    segment_name,
)
from projseg.table_layer.storage.storage_contract import ByteRange, Storage

_LOST: Final = "removed by hand, or by a vacuum if this version is old? restore it from a copy"

# A local file of no more bytes is read at once: a read costs more than its bytes.
_WHOLE_BYTES_MAX: Final = 2 * ENDING_BYTES


def verify_entries(storage: Storage, entries: Iterable[SegmentEntry], write_id: str) -> None:
    """Refuse entries that are not this commit's, or whose files are not as they state."""
    attempts: dict[int, int] = {}
    files: set[str] = set()
    checked = list(entries)
    for entry in checked:
        name = _derived_name(entry, write_id)
        if entry.file in files:
            raise _refused(entry, "is listed twice")
        if attempts.setdefault(name.partition, name.attempt) != name.attempt:
            raise _refused(entry, f"is a second attempt at partition {name.partition}")
        files.add(entry.file)
        _check_values(entry)
    for one in bloom_files_of(checked):
        _check_bloom_file(storage, one, write_id)
    check_file = partial(_ending, storage)
    for _ in side_by_side(check_file, checked) if storage.is_remote else map(check_file, checked):
        pass


def verify_masked(storage: Storage, entries: Iterable[SegmentEntry], write_id: str) -> None:
    """Refuse segments with a deletion vector that is not this commit's, or not as they state."""
    for entry in entries:
        vector = entry.deletion_vector
        if vector is None or parse_vector_name(vector.file) != write_id:
            raise _refused(entry, f"has no deletion vector of write id {write_id}")
        _check_values(entry)
        where = f"{storage.location}/{vector.file} was to be committed and"
        try:
            size = storage.size(vector.file)
        except FileNotFoundError as missing:
            raise CommitError(
                "PROJSEG_SEGMENT_MISSING", f"{where} is missing; write it again"
            ) from missing
        if size != vector.byte_count:
            raise CommitError(
                "PROJSEG_SEGMENT_DIFFERS",
                f"{where} has {size} bytes, not the {vector.byte_count} its writer reported; write "
                "it again",
            )


def _check_bloom_file(storage: Storage, listed: BloomReference, write_id: str) -> None:
    """Refuse a Bloom file that is not this commit's, or not as its writer reported."""
    where = f"{storage.location}/{listed.name[:200]}"
    if parse_bloom_name(listed.name) != write_id:
        raise InvalidInputError(
            "PROJSEG_BAD_COMMIT_ENTRY", f"{where} is no Bloom file of write id {write_id}"
        )
    start = max(0, listed.byte_count - TAIL_LAYOUT.size)
    found: object = "nothing"
    with suppress(FileNotFoundError, CorruptSegmentError):
        ending, size = storage.read_sized(listed.name, start, listed.byte_count - start)
        tail, checksum = parse_tail(memoryview(ending), size, where, BLOOM_TAIL_MAGIC)
        found = (size, tail.footer_offset, checksum)
    if found != (listed.byte_count, listed.footer_offset, listed.checksum):
        raise CommitError(
            "PROJSEG_SEGMENT_DIFFERS",
            f"{where} was to be committed and is not the file that its writer reported: {found}; "
            "write it again",
        )


def _derived_name(entry: SegmentEntry, write_id: str) -> SegmentName:
    name = parse_segment_name(entry.file)
    if name is None:
        raise _refused(entry, "is not a segment file's name")
    derived = segment_name(write_id, name.partition, name.attempt, name.number)
    if derived != entry.file or entry.write_id != write_id:
        raise _refused(entry, f"does not belong to write id {write_id}")
    return name


def _check_values(entry: SegmentEntry) -> None:
    if (problem := entry_problem(entry)) is not None:
        raise _refused(entry, problem)
    if not is_storable(entry):
        raise _refused(entry, "states a number or a bound that a manifest cannot hold")


def _refused(entry: SegmentEntry, problem: str) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_BAD_COMMIT_ENTRY",
        f"segment {entry.file[:200]!r} cannot be committed: it {problem}",
    )


def listed_ending(storage: Storage, entry: SegmentEntry, size: int = TAIL_LAYOUT.size) -> bytes:
    """Return the last bytes of a listed segment; refuse a file that is not the committed one.

    One small read of at least a tail: the checksum of the footer tells whether the file is the
    committed one.
    """
    return _ending(storage, entry, size, CorruptTableError, "was committed and", _LOST)


def ending_bytes(entry: SegmentEntry) -> int:
    """Return how many bytes at the end of a local file are read if parts are read soon."""
    return entry.byte_count if entry.byte_count <= _WHOLE_BYTES_MAX else ENDING_BYTES


class FetchedRanges:
    """Reads a listed segment: (offset, size) -> those bytes. A fetched range is handed out once.

    Any number of threads may use one: a range that another thread took or dropped is read again.
    """

    def __init__(self, storage: Storage, entry: SegmentEntry) -> None:
        self._storage = storage
        self._entry = entry
        self._held: dict[ByteRange, bytes] = {}
        self._ending = b""

    def __call__(self, offset: int, size: int) -> bytes:
        """Return bytes that were fetched, or read them."""
        wanted = ByteRange(offset, size)
        held = self._held.pop(wanted, None) or self._from_ending(wanted)
        return read_listed(self._storage, self._entry, offset, size) if held is None else held

    @property
    def is_remote(self) -> bool:
        """Whether each read is a request to an object store."""
        return self._storage.is_remote

    def hold_ending(self, ending: bytes) -> None:
        """Keep the file's last bytes, which were read to open it, and hold parts too."""
        self._ending = ending

    def fetch(self, ranges: Iterable[ByteRange]) -> None:
        """Read ranges that will be asked for one by one."""
        wanted = [one for one in ranges if one not in self._held and self._from_ending(one) is None]
        if wanted:
            contents = _read_listed_ranges(self._storage, self._entry, wanted)
            self._held |= dict(zip(wanted, contents, strict=True))

    def forget(self) -> None:
        """Drop fetched bytes that nobody asked for."""
        self._held = {}
        self._ending = b""

    def _from_ending(self, wanted: ByteRange) -> bytes | None:
        ending = self._ending
        start = wanted.offset - (self._entry.byte_count - len(ending))
        is_within = 0 <= start <= start + wanted.size <= len(ending)
        return ending[start : start + wanted.size] if is_within and ending else None


def read_listed(storage: Storage, entry: SegmentEntry, offset: int, size: int) -> bytes:
    """Return `size` bytes of a listed segment."""
    return _read_listed_ranges(storage, entry, [ByteRange(offset, size)])[0]


def _read_listed_ranges(
    storage: Storage, entry: SegmentEntry, ranges: Sequence[ByteRange]
) -> list[bytes]:
    """Return several ranges of a listed segment. Raises what `read_listed` raises."""
    try:
        if len(ranges) == 1:
            return [storage.read_range(entry.file, *ranges[0])]
        return storage.read_ranges(entry.file, ranges)
    except FileNotFoundError as missing:
        raise CorruptTableError(
            "PROJSEG_SEGMENT_MISSING",
            f"{storage.location}/{entry.file} was committed and is missing; {_LOST}",
        ) from missing


def _ending(
    storage: Storage,
    entry: SegmentEntry,
    wanted: int = TAIL_LAYOUT.size,
    error: type[ProjsegError] = CommitError,
    what: str = "was to be committed and",
    advice: str = "write it again",
) -> bytes:
    where = f"{storage.location}/{entry.file}"
    start = max(0, entry.byte_count - wanted)
    try:
        ending, size = storage.read_sized(entry.file, start, entry.byte_count - start)
    except FileNotFoundError as missing:
        raise error("PROJSEG_SEGMENT_MISSING", f"{where} {what} is missing; {advice}") from missing
    if size != entry.byte_count:
        raise error(
            "PROJSEG_SEGMENT_DIFFERS",
            f"{where} {what} has {size} bytes, not the {entry.byte_count} its writer reported; "
            f"{advice}",
        )
    if size < TAIL_LAYOUT.size:
        raise CorruptSegmentError("PROJSEG_CORRUPT_SEGMENT", f"{where}: {size} bytes hold no tail")
    stated = parse_tail(memoryview(ending)[-TAIL_LAYOUT.size :], size, where)[1]
    if stated != entry.footer_checksum:
        raise error(
            "PROJSEG_SEGMENT_DIFFERS",
            f"{where} {what} has footer checksum {stated:#x}, not the "
            f"{entry.footer_checksum:#x} its writer reported; {advice}",
        )
    return ending
