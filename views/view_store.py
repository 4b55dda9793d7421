"""The store of a table's views at one version: read, checked and kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from projseg.algebra.query.bound_query import QuerySpec
from projseg.errors import CorruptTableError, InvalidInputError, did_you_mean
from projseg.memory.cache import KEPT
from projseg.memory.forks import side_by_side
from projseg.table_layer.metadata.change import NO_NOTE
from projseg.table_layer.metadata.checksummed_json import (
    SealedFile,
    checksum_of,
    read_sealed,
    seal,
    unseal,
)
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.versions_and_tags import latest_version
from projseg.table_layer.storage.local_files import create_unique
from projseg.table_layer.storage.paths import new_cover_name, new_manifest_name, snapshot_name
from projseg.table_layer.storage.storage_contract import Storage, ViewsFolder
from projseg.views.view_records import (
    LISTED_PARTS_MAX,
    VIEWS_MAX,
    CoverFile,
    FileReference,
    PartCover,
    PartsFile,
    ViewEntry,
    ViewListFile,
    ViewPart,
    ViewsFile,
    digest_of,
    part_problem,
    reference_problem,
    view_problem,
)

_VERSION: Final = msgspec.json.Decoder(ViewsFile)
_LIST: Final = msgspec.json.Decoder(ViewListFile)
_PARTS: Final = msgspec.json.Decoder(PartsFile)
_COVER: Final = msgspec.json.Decoder(CoverFile)
_DECODED_PER_STORED: Final = 5
_Sealed = TypeVar("_Sealed", bound=SealedFile)


class StoreVersion(msgspec.Struct, frozen=True):
    """A version of a store; version -1 is that of a store that does not exist."""

    storage: Storage
    file: ViewsFile

    @property
    def version(self) -> int:
        """Its number."""
        return self.file.version

    @property
    def identity(self) -> tuple[object, ...]:
        """A key that no other version of any store has."""
        return (self.storage.location, self.version, self.file.write_id)

    @property
    def views(self) -> dict[str, ViewEntry]:
        """The views by id, in the order in which they were made."""
        found: dict[str, ViewEntry] = KEPT.get_or_load(
            ("views", *self.identity),
            lambda: {view.view_id: view for views in self.lists() for view in views},
            lambda views: 1024 + 128 * len(views),
        )
        return dict(found)

    def lists(self) -> list[tuple[ViewEntry, ...]]:
        """Return the views of each list."""
        return load_lists(self.storage, self.file.lists)

    def view(self, name: str) -> ViewEntry:
        """Return a view by its name, in any case."""
        found = self.find(name)
        if found is None:
            raise unknown_view(name, self.views.values(), self.storage.location)
        return found

    def find(self, name: str) -> ViewEntry | None:
        """Return a view by its name, in any case; None if there is none."""
        named = str(name).casefold()
        return next((one for one in self.views.values() if one.name.casefold() == named), None)

    def parts(self, view: ViewEntry) -> tuple[ViewPart, ...]:
        """Return the parts of a view."""
        listed = tuple((reference.name, reference.checksum) for reference in view.manifests)
        found: tuple[ViewPart, ...] = KEPT.get_or_load(
            ("parts of a view", self.storage.location, view.view_id, view.definition_hash, listed),
            lambda: self._checked_parts(view),
            lambda parts: 1024 + 64 * len(parts),  # the parts themselves are those of the lists
        )
        return found

    def _checked_parts(self, view: ViewEntry) -> tuple[ViewPart, ...]:
        load = partial(_load, self.storage, _PARTS, "view_parts")
        each = side_by_side if self.storage.is_remote else map
        found: list[ViewPart] = []
        for reference, file in zip(view.manifests, each(load, view.manifests), strict=True):
            if file.view_id != view.view_id or len(file.parts) != reference.count:
                raise _corrupt(self.storage, reference.name, "it is not the view's")
            found += file.parts
        for part in found:
            if (problem := part_problem(part, view.definition_hash)) is not None:
                raise _corrupt(self.storage, view.manifests[0].name, problem)
        return tuple(found)

    def cover(self, part: ViewPart) -> tuple[str, ...]:
        """Return the segments that a part stands for, as they are listed."""
        key = ("view cover", self.storage.location, part.cover.file)
        found: tuple[str, ...] = KEPT.get_or_load(
            key, lambda: self._read_cover(part), lambda names: sum(map(len, names)) + 64
        )
        return found

    def _read_cover(self, part: ViewPart) -> tuple[str, ...]:
        cover = part.cover
        try:
            payload = read_sealed(self.storage, cover.file)
        except FileNotFoundError as error:
            raise _corrupt(self.storage, cover.file, "it is missing") from error
        file = unseal(payload, _COVER, "view_cover", f"{self.storage.location}/{cover.file}")
        is_right = file.name == cover.file and len(file.segments) == cover.segment_count
        if not is_right or digest_of(file.segments) != cover.digest:
            raise _corrupt(self.storage, cover.file, "it is not the cover that the part names")
        return file.segments


def unknown_view(name: str, views: Iterable[ViewEntry], location: str) -> InvalidInputError:
    """Return the error of a name that no view has."""
    names = [view.name for view in views]
    return InvalidInputError(
        "PROJSEG_UNKNOWN_VIEW",
        f"'{name}' is not a view in {location}{did_you_mean(str(name), names)}; there are "
        f"{', '.join(names[:20]) or 'none'}",
    )


def check_names(query: QuerySpec, views: Iterable[ViewEntry], store: StoreVersion) -> None:
    """Refuse names of views that are not there."""
    if query.context.use_view is None and not query.context.exclude_views:
        return
    listed = list(views)
    known = {view.name.casefold() for view in listed}
    context = query.context
    for name in (*([] if context.use_view is None else [context.use_view]), *context.exclude_views):
        if name.casefold() not in known:
            raise unknown_view(name, listed, store.storage.location)


def no_store(storage: Storage) -> StoreVersion:
    """Return the version that comes before the first of a store."""
    return StoreVersion(
        storage,
        ViewsFile(
            kind="views",
            version=-1,
            timestamp_us=0,
            write_id="",
            operation="",
            commit=NO_NOTE.info(-1),
        ),
    )


def has_views(snapshot: Snapshot) -> bool:
    """Whether a table says that it has a store of views; no other is looked for."""
    return snapshot.properties.has_views


def open_store(snapshot: Snapshot) -> StoreVersion | None:
    """Return the newest version of a table's store; None if the table has none."""
    if not has_views(snapshot):
        return None
    return newest_store(ViewsFolder(snapshot.storage))


def newest_store(storage: Storage) -> StoreVersion | None:
    """Return the newest version of a store; None if there is none."""
    try:
        version = latest_version(storage)
    except InvalidInputError as error:
        if error.code == "PROJSEG_NOT_A_TABLE":
            return None
        raise
    found = read_store(storage, version)
    if found is None:
        raise _corrupt(storage, snapshot_name(version), "it was listed and is gone")
    return found


def read_store(storage: Storage, version: int) -> StoreVersion | None:
    """Return a version of a store, or None if it certainly has no file.

    Raises CorruptTableError or UnsupportedFeatureError if the file is there and cannot be trusted
    or understood, and OSError if the storage cannot say.
    """
    name = snapshot_name(version) if version >= 0 else None
    if name is None:
        return None
    payload = b""
    with suppress(FileNotFoundError):
        payload = read_sealed(storage, name)
    if not payload:
        return None
    file = unseal(payload, _VERSION, "views", f"{storage.location}/{name}")
    problem = reference_problem(file.lists)
    if file.version != version or file.kept_from > version:
        problem = f"it says it is version {file.version}"
    if problem:
        raise _corrupt(storage, name, problem)
    return StoreVersion(storage, file)


def encode_store(file: ViewsFile) -> bytes:
    """Return a version's bytes, having read them back."""
    payload = seal(file)
    unseal(payload, _VERSION, "views", "the new version")
    return payload


def load_lists(
    storage: Storage, references: Sequence[FileReference]
) -> list[tuple[ViewEntry, ...]]:
    """Return the views of several lists."""
    load = partial(_load, storage, _LIST, "view_list")
    each = side_by_side if storage.is_remote else map
    found = [file.views for file in each(load, references)]
    every = [view for views in found for view in views]
    names = {view.name.casefold() for view in every}
    ids = {view.view_id for view in every}
    if len(names) != len(every) or len(ids) != len(every) or len(every) > VIEWS_MAX:
        raise _corrupt(storage, references[0].name, "two of its views have one name")
    for view in every:
        if (problem := view_problem(view)) is not None:
            raise _corrupt(storage, references[0].name, problem)
    return found


def _load(
    storage: Storage, decoder: msgspec.json.Decoder[_Sealed], kind: str, reference: FileReference
) -> Any:
    """Return a list that a version or a view names, read at most once while it is kept."""
    key = (kind, storage.location, reference.name, reference.checksum)
    return KEPT.get_or_load(
        key,
        lambda: _read_listed(storage, decoder, kind, reference),
        lambda _: _DECODED_PER_STORED * reference.byte_count,
    )


def _read_listed(
    storage: Storage, decoder: msgspec.json.Decoder[_Sealed], kind: str, reference: FileReference
) -> _Sealed:
    try:
        payload = read_sealed(storage, reference.name)
    except FileNotFoundError as error:
        raise _corrupt(storage, reference.name, "it is missing") from error
    file = unseal(payload, decoder, kind, f"{storage.location}/{reference.name}")
    stated = (len(payload), file.checksum, getattr(file, "name", ""))
    if stated != (reference.byte_count, reference.checksum, reference.name):
        raise _corrupt(storage, reference.name, "it is not the list that is meant")
    return file


def _corrupt(storage: Storage, name: str, problem: str) -> CorruptTableError:
    return CorruptTableError(
        "PROJSEG_CORRUPT_TABLE",
        f"{storage.location}/{name}: {problem}; remove the folder of views and make them anew, or "
        "restore it from a copy: the table itself is whole",
    )


class NewLists:
    """Files of one commit to a store, each written once.

    `files` gets the name of each file before it is written.
    """

    def __init__(self, storage: Storage, files: list[str]) -> None:
        self._storage, self._files = storage, files

    def write_cover(self, segments: Sequence[str], live_rows: int, byte_count: int) -> PartCover:
        """Write the list of the segments that a part stands for."""
        name, ordered = new_cover_name(), tuple(sorted(segments))
        payload = seal(CoverFile(kind="view_cover", name=name, segments=ordered))
        self._put(name, payload)
        return PartCover(len(ordered), live_rows, byte_count, digest_of(ordered), name)

    def write_parts(self, view_id: str, parts: Sequence[ViewPart]) -> list[FileReference]:
        """Write lists of parts, and return how a view names them."""
        starts = range(0, len(parts), LISTED_PARTS_MAX)
        return [self._part_list(view_id, parts[n : n + LISTED_PARTS_MAX]) for n in starts]

    def _part_list(self, view_id: str, parts: Sequence[ViewPart]) -> FileReference:
        return self._write(
            lambda name: PartsFile(
                kind="view_parts", name=name, view_id=view_id, parts=tuple(parts)
            ),
            len(parts),
            _PARTS.decode,
        )

    def write_views(self, views: Sequence[ViewEntry]) -> FileReference:
        """Write a list of views."""
        return self._write(
            lambda name: ViewListFile(kind="view_list", name=name, views=tuple(views)),
            len(views),
            _LIST.decode,
        )

    def _write(
        self,
        file_of: Callable[[str], SealedFile],
        count: int,
        decode: Callable[[bytes], object],
    ) -> FileReference:
        name = new_manifest_name()
        payload = seal(file_of(name))
        decode(payload)  # nothing unreadable is published
        self._put(name, payload)
        return FileReference(name, len(payload), checksum_of(payload), count)

    def _put(self, name: str, payload: bytes) -> None:
        self._files.append(name)
        create_unique(self._storage, name, payload)
