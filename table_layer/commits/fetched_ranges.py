"""Parts of a listed segment that are fetched before they are asked for, by few requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from projseg.segment_format.footer_checks import ENDING_BYTES
from projseg.table_layer.commits.verify_entries import read_listed, read_listed_ranges
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.storage.storage_contract import ByteRange, Storage

# A local file of no more bytes is read at once: a read costs more than its bytes.
_WHOLE_BYTES_MAX: Final = 2 * ENDING_BYTES


def ending_bytes(entry: SegmentEntry) -> int:
    """Return how many bytes at the end of a local file are read if parts are read soon."""
    return entry.byte_count if entry.byte_count <= _WHOLE_BYTES_MAX else ENDING_BYTES


class FetchedRanges:
    """Reads a listed segment: (offset, size) -> those bytes. What was fetched is handed out once.

    Any number of threads may use one: what another thread has taken or dropped is read again.

    Parameters
    ----------
    storage : Storage
        The table.
    entry : SegmentEntry
        The segment as listed.
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
            contents = read_listed_ranges(self._storage, self._entry, wanted)
            self._held |= dict(zip(wanted, contents, strict=True))

    def forget(self) -> None:
        """Drop what was fetched and never asked for."""
        self._held = {}
        self._ending = b""

    def _from_ending(self, wanted: ByteRange) -> bytes | None:
        ending = self._ending
        start = wanted.offset - (self._entry.byte_count - len(ending))
        is_within = 0 <= start <= start + wanted.size <= len(ending)
        return ending[start : start + wanted.size] if is_within and ending else None
