"""Publish a new version of a store, by the protocol of a table's commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NoReturn

from msgspec.structs import replace

from projseg.errors import CommitConflictError, InvalidInputError, LimitExceededError
from projseg.table_layer.commits.commit import PendingCommit, commit, not_committed
from projseg.table_layer.commits.publish import probe, published, remove, removed_on_failure
from projseg.table_layer.metadata.change import CommitNote, SetProperties, now_us
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.metadata.table_properties import VIEWS_PROPERTY
from projseg.table_layer.storage.paths import new_write_id
from projseg.table_layer.storage.storage_contract import ViewsFolder
from projseg.views.view_records import (
    LISTED_PARTS_MAX,
    LISTED_VIEWS_MAX,
    VIEWS_MAX,
    FileReference,
    ViewEntry,
    ViewPart,
    ViewsFile,
    covered_of,
)
from projseg.views.view_store import (
    NewLists,
    StoreVersion,
    encode_store,
    has_views,
    newest_store,
    no_store,
    read_store,
)

Views = Mapping[str, ViewEntry]
Edit = Callable[[Views], Views]
"""From the views of the newest version, by id, to those of the next one."""

_SHORT_LISTS_MAX: Final = 8
"""Short lists of parts a view may have before a refresh joins them."""


@dataclass(slots=True)
class StoreWrite:
    """A commit to a store version under way: its write id, which each part has, and its files."""

    store: StoreVersion
    write_id: str
    files: list[str]

    @property
    def lists(self) -> NewLists:
        """The writer of its lists."""
        return NewLists(self.store.storage, self.files)

    def commit(
        self, edit: Edit, operation: str, note: CommitNote, *, kept_from: int | None = None
    ) -> StoreVersion:
        """Publish the version after the newest, and return it; raise as a table's commits do.

        `edit` returns the views after the commit, given those of the newest version, or refuses;
        `kept_from` is the oldest version that stays.
        """
        storage = self.store.storage
        return _StoreCommit(storage, self.store, edit, self, operation, note, kept_from).run()


@contextmanager
def store_write(store: StoreVersion) -> Iterator[StoreWrite]:
    """Yield a write to a store; its files are removed if it is certain that it failed."""
    write_id, storage = new_write_id(), store.storage
    base = store.version if store.version >= 0 else None
    with removed_on_failure(storage, write_id, base, read_store) as files:
        try:
            # Lists without a version would be a lost log, and are none beside this file.
            probes = [probe(storage, files)] if base is None else []
            yield StoreWrite(store, write_id, files)
        except OSError as error:  # a file may be there all the same, and no version lists it
            raise not_committed(storage, error) from error
    remove(storage, probes)


@dataclass(slots=True)
class _StoreCommit(PendingCommit[StoreVersion]):
    """A commit to a store that is being tried."""

    edit: Edit
    write: StoreWrite
    operation: str
    note: CommitNote
    kept_from: int | None

    def read(self, version: int) -> StoreVersion | None:
        """Return a version of the store; None if it is not kept."""
        return read_store(self.storage, version)

    def catch_up(self) -> None:
        """Read every version published since the newest known; before the first there is none."""
        if self.current.version < 0 and newest_store(self.storage) is None:
            return
        PendingCommit.catch_up(self)

    def find_landed(self) -> StoreVersion | None:
        """Return the version that this commit has already made, if any."""
        write_id = self.write.write_id
        return next((one for one in self.since if one.file.write_id == write_id), None)

    def publish_next(self) -> StoreVersion | None:
        """Apply the edit to the newest version known, and publish that."""
        current = self.current
        before = [] if current.version < 0 else current.lists()
        views = self.edit({view.view_id: view for views in before for view in views})
        _check_views(views, self.storage.location)
        lists = _next_lists(current.file.lists, before, views, self.write.lists)
        kept_from = current.file.kept_from if self.kept_from is None else self.kept_from
        file = ViewsFile(
            kind="views",
            version=current.version + 1,
            timestamp_us=max(now_us(), current.file.timestamp_us),
            write_id=self.write.write_id,
            operation=self.operation,
            commit=self.note.info(self.base.version),
            kept_from=max(kept_from, current.file.kept_from),
            lists=lists,
        )
        return published(
            self.storage,
            file,
            encode_store(file),
            lambda: read_store(self.storage, file.version),
            StoreVersion(self.storage, file),
        )


def _check_views(views: Views, location: str) -> None:
    if len(views) > VIEWS_MAX:
        raise LimitExceededError(
            "PROJSEG_TOO_MANY_NAMES",
            f"{location} would hold {len(views)} views; {VIEWS_MAX} is the most: drop some first",
        )
    names: dict[str, str] = {}
    hashes: dict[tuple[str, object], str] = {}
    for view in views.values():
        other = names.setdefault(view.name.casefold(), view.view_id)
        stored = (view.definition_hash, (view.scope, view.options.get("retain")))
        same = hashes.setdefault(stored, view.name)
        if other != view.view_id:
            raise InvalidInputError(
                "PROJSEG_VIEW_EXISTS",
                f"there is a view '{view.name}' in {location}; drop it first, replace it, or "
                "choose another name",
            )
        if same != view.name:
            raise InvalidInputError(
                "PROJSEG_VIEW_EXISTS",
                f"view '{same}' stores what '{view.name}' would; use that one",
            )


def _next_lists(
    references: Sequence[FileReference],
    before: Sequence[Sequence[ViewEntry]],
    views: Views,
    new: NewLists,
) -> tuple[FileReference, ...]:
    """Return the lists after a commit; those in which nothing changed stay."""
    known = {view.view_id for listed in before for view in listed}
    added = [view for view in views.values() if view.view_id not in known]
    found: list[FileReference] = []
    for place, (reference, listed) in enumerate(zip(references, before, strict=True)):
        left = [views[view.view_id] for view in listed if view.view_id in views]
        room = LISTED_VIEWS_MAX - len(left)
        if added and place == len(references) - 1 and room > 0:
            left, added = [*left, *added[:room]], added[room:]
        if left == list(listed):
            found.append(reference)
        elif left:
            found.append(new.write_views(left))
    starts = range(0, len(added), LISTED_VIEWS_MAX)
    return (*found, *(new.write_views(added[n : n + LISTED_VIEWS_MAX]) for n in starts))


def with_parts(
    view: ViewEntry,
    store: StoreVersion,
    kept: Sequence[ViewPart],
    added: Sequence[ViewPart],
    new: NewLists,
) -> ViewEntry:
    """Return a view whose parts are those that are kept and those that are added.

    Lists of which all parts are kept as they are stay, unless there are many short ones.
    """
    left = {part.segment.file: part for part in kept}
    references: list[FileReference] = []
    moved: list[ViewPart] = []
    listed = store.parts(view) if view.manifests else ()
    is_short = [reference.count < LISTED_PARTS_MAX // 4 for reference in view.manifests]
    start = 0
    for reference, short in zip(view.manifests, is_short, strict=True):
        some = listed[start : start + reference.count]
        start += reference.count
        stay = [left[part.segment.file] for part in some if part.segment.file in left]
        if stay == list(some) and not (short and sum(is_short) > _SHORT_LISTS_MAX):
            references.append(reference)
        else:
            moved += stay
    moved += added
    every = (*kept, *added)
    return replace(
        view,
        manifests=(*references, *new.write_parts(view.view_id, moved)),
        row_count=sum(part.group_count for part in every),
        byte_count=sum(part.segment.byte_count for part in every),
        covered=covered_of(every),
    )


def edited(view_id: str, edit: Callable[[ViewEntry], ViewEntry]) -> Edit:
    """Return the edit of one view, which must still be there."""

    def apply(views: Views) -> Views:
        view = views.get(view_id)
        if view is None:
            conflict("the view was dropped by another commit")
        return {**views, view_id: edit(view)}

    return apply


def conflict(what: str) -> NoReturn:
    """Raise CommitConflictError."""
    raise CommitConflictError(
        "PROJSEG_COMMIT_CONFLICT", f"nothing was committed: {what}; try again"
    )


def with_store(snapshot: Snapshot, note: CommitNote) -> tuple[Snapshot, StoreVersion]:
    """Return a table that queries look for views of, and its store, which may not exist yet."""
    if not has_views(snapshot):
        try:
            snapshot = commit(
                snapshot.storage,
                snapshot,
                SetProperties(properties={VIEWS_PROPERTY: "on"}),
                write_id=new_write_id(),
                operation="set properties",
                note=note.asking(properties=f"{VIEWS_PROPERTY}=on"),
            )
        except CommitConflictError:
            snapshot = open_snapshot(snapshot.storage)
            if not has_views(snapshot):
                raise
    storage = ViewsFolder(snapshot.storage)
    return snapshot, newest_store(storage) or no_store(storage)
