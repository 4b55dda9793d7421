"""The newest version combined with what its source lists now: one state, pinned as a version is.

Entries whose file is listed stay, entries of other files are left out, and listed files without an
entry become entries without a companion. States are compared as sets of files alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

import xxhash
from msgspec import UNSET
from msgspec.structs import replace

from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.errors import InvalidInputError
from projseg.memory.cache import KEPT, CacheKey
from projseg.memory.forks import side_by_side
from projseg.segment_format.format_limits import name_key
from projseg.table_layer.foreign.field_ids import with_names
from projseg.table_layer.foreign.foreign_segment import file_options, source_options
from projseg.table_layer.foreign.parquet_file import ParquetFooter, read_footer
from projseg.table_layer.foreign.source_files import ListedFile, is_in_store, source_changed
from projseg.table_layer.foreign.source_list import SourceList, list_source
from projseg.table_layer.metadata.manifest import Manifest, ManifestReference, manifest_in_memory
from projseg.table_layer.metadata.segment_entry import (
    ColumnZone,
    ForeignEntry,
    ForeignFile,
    SegmentEntry,
)
from projseg.table_layer.metadata.snapshot import Snapshot, SnapshotFile, open_snapshot
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.metadata.table_schema import stored_by_name
from projseg.table_layer.storage.paths import segment_name
from projseg.table_layer.storage.storage_contract import Storage
from projseg.table_layer.storage.store_location import StorageOptions

STATES_FROM: Final = 1 << 40
"""Numbers from here on name a version with a list of its source, by a digest of the list."""
_STATES: Final = 1 << 22
_LISTED_BYTES: Final = 512

_EVER: Final = (MIN_MICROS, MAX_MICROS - 1)
"""Times of a file that states none: it is left out for no interval."""


class SourceState(Snapshot):
    """A version of a table, with the files that its source lists in place of those it listed.

    `file` is the version with other manifests, of which `held` has those that are in memory alone.
    """

    def __init__(
        self,
        stored: Snapshot,
        file: SnapshotFile,
        held: dict[str, Manifest],
        listed: SourceList,
    ) -> None:
        super().__init__(stored.storage, file)
        self._stored, self._held = stored, held
        self.listed = listed

    @property
    def stored(self) -> Snapshot:
        """The version in the table's log, which the next commit follows."""
        return self._stored

    @property
    def number(self) -> int:
        """The version, and which files are listed, where these are others than it lists."""
        if self.file.write_id == self._stored.file.write_id:
            return self.version
        return self.version + STATES_FROM * (1 + int(self.file.write_id, 16) % _STATES)

    def with_file(self, file: SnapshotFile) -> SourceState:
        """Return this state with another file, which lists the same manifests."""
        return SourceState(self._stored, file, self._held, self.listed)

    def with_files_only(self) -> Snapshot:
        """Return this state without files that have no companion."""
        held = {
            name: manifest
            for name, manifest in self._held.items()
            if not any(not manifest.entry(n).has_file for n in range(len(manifest)))
        }
        gone = self._held.keys() - held.keys()
        kept = [one for one in self.file.manifests if one.name not in gone]
        if kept == list(self._stored.file.manifests):
            return self._stored
        return SourceState(self._stored, _file_of(self._stored, kept), held, self.listed)

    def followed_by(self, made: Snapshot) -> Snapshot:
        """Return a later version beside the same list."""
        return beside(made, self.listed)

    def load(self, reference: ManifestReference) -> Manifest:
        """Return one of the manifests that `file.manifests` lists."""
        return self._held.get(reference.name) or super().load(reference)

    def load_all(self, references: Iterable[ManifestReference] | None = None) -> Iterator[Manifest]:
        """Yield manifests that `file.manifests` lists, in order; None means all of them."""
        return map(self.load, self.file.manifests if references is None else references)


def open_numbered(storage: Storage, number: int) -> Snapshot:
    """Return the state that a number names: one that this process has, or what the source lists.

    Raises StorageError (PROJSEG_SOURCE_CHANGED) if the source lists other files by now.
    """
    known: Snapshot | None = KEPT.get(_key(storage, number))
    if known is not None:
        return known
    found = at_source(open_snapshot(storage, number % STATES_FROM))
    if found.number != number:
        raise source_changed(storage.location, "stands over other files than a moment ago")
    return found


def _key(storage: Storage, number: int) -> CacheKey:
    return ("source state", storage.location, getattr(storage, "source_options", None), number)


def at_source(snapshot: Snapshot) -> Snapshot:
    """Return a version beside what its source lists now; one without a source as it is."""
    source = snapshot.properties.source
    if source is UNSET or isinstance(snapshot, SourceState):
        return snapshot
    found = beside(snapshot, list_source(source, source_options(snapshot.storage)))
    if found.number >= STATES_FROM:
        byte_count = _LISTED_BYTES * len(found.listed.files)
        KEPT.replace(_key(found.storage, found.number), found, byte_count)
    return found


def beside(snapshot: Snapshot, listed: SourceList) -> SourceState:
    """Return a version beside one list of its source."""
    wanted = {file.identity: file for file in listed.files}
    kept: list[ManifestReference] = []
    survivors: list[SegmentEntry] = []
    known: set[tuple[str, int, str]] = set()
    paths: set[str] = set()
    for reference in snapshot.file.manifests:
        manifest = snapshot.load(reference)
        found = [one.identity for one in manifest.foreign_files()]
        if all(identity in wanted for identity in found):
            kept.append(reference)
        else:
            stay = (n for n, identity in enumerate(found) if identity in wanted)
            survivors += [manifest.entry(n) for n in stay]
        known.update(identity for identity in found if identity in wanted)
        paths.update(path for path, _, _ in found)
    missing = [file for file in listed.files if file.identity not in known]
    if len(kept) == len(snapshot.file.manifests) and not missing:
        return SourceState(snapshot, snapshot.file, {}, listed)
    options = file_options(snapshot.storage, listed.field_ids is not None)
    held: dict[str, Manifest] = {}
    new = uncovered(snapshot.properties, missing, options, paths, listed.name_mapping)
    for entries in (survivors, list(new)):
        if entries:
            reference, manifest = manifest_in_memory(entries)
            held[reference.name] = manifest
            kept.append(reference)
    return SourceState(snapshot, _file_of(snapshot, kept), held, listed)


def _file_of(stored: Snapshot, manifests: Sequence[ManifestReference]) -> SnapshotFile:
    """Return a version's file with other manifests, under an id that follows from them."""
    names = "\n".join([stored.file.write_id, *(one.name for one in manifests)])
    state = xxhash.xxh3_128_hexdigest(names.encode())
    return replace(stored.file, write_id=state, manifests=tuple(manifests))


def uncovered(
    properties: TableProperties,
    files: Sequence[ListedFile],
    options: StorageOptions,
    paths: Container[str],
    mapping: Mapping[str, int] | None = None,
) -> Iterator[ForeignEntry]:
    """Yield an entry without projections for each run of rows in new files, from their footers.

    One that was whole, as its path is one of `paths`, and is no Parquet file any more has changed.
    """

    def footer_of(file: ListedFile) -> ParquetFooter:
        try:
            return read_footer(file, options)
        except InvalidInputError as error:
            if file.path not in paths:
                raise
            raise source_changed(file.path, f"cannot be read any more: {error.message}") from error

    is_remote = bool(files) and is_in_store(files[0].path)
    footers = side_by_side(footer_of, files) if is_remote else map(footer_of, files)
    for listed, footer in zip(files, footers, strict=True):
        file = with_names(listed, footer, properties, mapping)
        for number, groups in enumerate(footer.runs(properties.target_segment_rows)):
            yield uncovered_entry(properties, file, footer, groups, number)


def uncovered_entry(
    properties: TableProperties,
    file: ListedFile,
    footer: ParquetFooter,
    groups: tuple[int, int],
    number: int,
) -> ForeignEntry:
    """Return the entry of some row groups without a file of its own; `number` names it."""
    foreign = foreign_file(file, footer, groups)
    names = present_columns(properties, file, footer)
    columns = {}
    for stored, name in names.items():
        byte_count = footer.column_bytes(file.column_of(name), groups)
        columns[stored] = ColumnZone(None, None, 0, False, False, byte_count)
    write_id = xxhash.xxh3_128_hexdigest(foreign.listed_as.encode())
    low, high = None, None
    time = properties.time_column
    stored_time = None if time is None else stored_by_name(properties)[time]
    if stored_time in names:
        low, high = _times(file.column_of(names[stored_time]), footer, groups)
    return ForeignEntry(
        file=segment_name(write_id, 0, 0, number),
        write_id=write_id,
        row_count=footer.rows_of(groups),
        byte_count=0,
        footer_checksum=0,
        min_time_us=low,
        max_time_us=high,
        columns=columns,
        foreign=foreign,
    )


def foreign_file(file: ListedFile, footer: ParquetFooter, groups: tuple[int, int]) -> ForeignFile:
    """Return how an entry names row groups of a file."""
    path, byte_count, tag = file.identity
    partition, names = dict(file.partition), None if file.names is None else dict(file.names)
    return ForeignFile(path, byte_count, tag, footer.digest, groups, partition, names)


def present_columns(
    properties: TableProperties, file: ListedFile, footer: ParquetFooter
) -> dict[str, str]:
    """Return the columns of a table that a file has, by stored name."""
    present = {name for name, _ in file.partition}
    stored = stored_by_name(properties)
    if file.names is not None:
        present |= {name for name, _ in file.names}
        return {name: name for name in stored.values() if name in present}
    return {
        form: name
        for name, form in stored.items()
        if name in present or name_key(name) in footer.fields
    }


def _times(column: str | None, footer: ParquetFooter, groups: tuple[int, int]) -> tuple[int, int]:
    """Return times between which those of a file lie, as far as its footer tells."""
    found = footer.bounds(column, groups)
    if column is None or not found:
        return _EVER
    field = footer.fields[name_key(column)]
    unit = 86_400_000_000 if str(field.type).startswith("date") else 1
    low, high = min(low for low, _ in found) * unit, max(high for _, high in found) * unit
    return (low, high) if _EVER[0] <= low <= high <= _EVER[1] else _EVER
