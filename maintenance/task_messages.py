"""Work on segments that is sent to the tasks of a cluster, and what comes back.

A task is sent the rewrite, the table's properties and one piece: the entries of its own segments.
It tells the entries of the new ones. Several attempts at a piece write files of several names, of
which one is reported to the driver, which commits as it does for its own threads.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from projseg import __version__
from projseg.errors import InvalidInputError
from projseg.maintenance.compact import Compaction
from projseg.maintenance.materialize_projections import Materialization
from projseg.maintenance.rewrite_tasks import NewFile, Rewrite, Target, WorkOrder, Written, written
from projseg.table_layer.commits.publish import remove
from projseg.table_layer.metadata.segment_entry import (
    LOGGER,
    SegmentEntry,
    decoded_entry,
    packed,
    unpacked,
    warn_of_releases,
    written_files,
)
from projseg.table_layer.metadata.snapshot import Snapshot, SnapshotFile
from projseg.table_layer.storage.paths import prefix_of_write
from projseg.table_layer.storage.storage_contract import Storage


class _Message(msgspec.Struct, frozen=True):
    """What an attempt at a piece tells: which piece, by which release, and the new segments."""

    number: int
    release: str
    entries: tuple[msgspec.Raw, ...]


class _Result(NamedTuple):
    """The same, read."""

    number: int
    release: str
    entries: tuple[SegmentEntry, ...]


class _Shipment(msgspec.Struct, frozen=True):
    """Work and its pieces as text; the storage, which may hold secrets, goes another way."""

    rewrite: Compaction | Materialization
    version: SnapshotFile
    write_id: str
    first_number: int
    pieces: tuple[bytes, ...]


_MESSAGE: Final = msgspec.json.Decoder(_Message)
_SHIPMENT: Final = msgspec.json.Decoder(_Shipment)


@dataclass(frozen=True, slots=True)
class ShippedWork:
    """What a task does, whichever its segments are."""

    rewrite: Rewrite
    storage: Storage
    version: SnapshotFile
    write_id: str
    first_number: int

    @classmethod
    def of(cls, order: WorkOrder) -> ShippedWork:
        """Return the shared work of an order's tasks."""
        snapshot = order.target.snapshot
        # A task gets the entries of its own segments, and needs no list of the others.
        version = replace(snapshot.file, manifests=(), transactions={})
        return cls(order.rewrite, snapshot.storage, version, order.write_id, order.first_number)

    @classmethod
    def from_json(cls, storage: Storage, text: str) -> tuple[ShippedWork, tuple[bytes, ...]]:
        """Return work and its pieces."""
        try:
            found = _SHIPMENT.decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"work on segments of {storage.location} cannot be read: {error}; only projseg "
                "sends such work: use OPTIMIZE, or one release of projseg everywhere",
            ) from error
        work = cls(found.rewrite, storage, found.version, found.write_id, found.first_number)
        return work, found.pieces

    def to_json(self, pieces: Sequence[bytes]) -> str:
        """Return the work and its pieces as text, without the storage."""
        assert isinstance(self.rewrite, Compaction | Materialization)
        shipment = _Shipment(
            self.rewrite, self.version, self.write_id, self.first_number, tuple(pieces)
        )
        return msgspec.json.encode(shipment).decode()

    def run(self, number: int, piece: bytes, *, attempt: int, threads: int) -> str:
        """Write the segments of a piece; return what `collected` takes.

        No other attempt at any piece of this work has the number `attempt`, so none writes the same
        file.
        """
        file = NewFile(self.write_id, self.first_number + number, attempt)
        target = Target.of(Snapshot(self.storage, self.version))
        task = self.rewrite.task(target, tuple(unpacked(piece)))
        with ThreadPoolExecutor(threads) as pool:
            try:
                entries = written(task, target, file, pool)
            except BaseException:
                remove(self.storage, [file.name])
                raise
        raw = tuple(msgspec.Raw(msgspec.json.encode(entry)) for entry in entries)
        return msgspec.json.encode(_Message(number, __version__, raw)).decode()


def pieces_of(order: WorkOrder) -> list[bytes]:
    """Return the segments of each task of an order, packed."""
    return [packed(task.replaced) for task in order.tasks]


def collected(order: WorkOrder, messages: Iterable[str]) -> Generator[Written]:
    """Yield each task of an order with what was written; remove what other attempts wrote.

    Messages are those of one attempt at each piece, in any order.
    """
    left = _files_of_others(order)
    order.files.extend(left)
    found = _one_of_each(order, messages)
    warn_of_releases(one.release for one in found)
    listed = set(written_files([entry for one in found for entry in one.entries]))
    order.files.extend(listed.difference(left))
    remove(order.target.snapshot.storage, [name for name in left if name not in listed])
    order.on_done(len(found))
    for task, one in zip(order.tasks, found, strict=True):
        yield task, one.entries


def abandon(order: WorkOrder) -> None:
    """Add the files that attempts of a failed order left to those that its commit removes.

    An attempt that still runs may leave one later; a vacuum finds it by age.
    """
    order.files.extend(_files_of_others(order))


def _one_of_each(order: WorkOrder, messages: Iterable[str]) -> list[_Result]:
    try:
        read = [_MESSAGE.decode(text) for text in messages]
        found = [_Result(m.number, m.release, tuple(map(decoded_entry, m.entries))) for m in read]
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _not_of(order, f"one cannot be read: {error}") from error
    found.sort(key=lambda one: one.number)
    numbers = [one.number for one in found]
    if numbers != list(range(len(order.tasks))):
        raise _not_of(order, f"messages of the pieces {numbers[:20]}")
    return found


def _files_of_others(order: WorkOrder) -> list[str]:
    """Return the files of an order's commit that its process does not know."""
    storage, known = order.target.snapshot.storage, set(order.files)
    try:
        listed = [file.name for file in storage.list_names(prefix_of_write(order.write_id))]
    except OSError as error:
        LOGGER.warning(
            "what lost attempts of write %s left in %s stays until a vacuum: %s",
            order.write_id,
            storage.location,
            error,
        )
        return []
    return [name for name in listed if name not in known]


def _not_of(order: WorkOrder, problem: str) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_BAD_COMMIT_ENTRY",
        f"{len(order.tasks)} tasks wrote segments of {order.target.snapshot.storage.location} anew "
        f"and {problem}; nothing was committed: use one release of projseg everywhere",
    )
