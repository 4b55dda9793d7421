"""`TableState`: the version that a table object reads, and how it moves on."""

from __future__ import annotations

import logging
import time
from copy import copy
from typing import TYPE_CHECKING, Final, Self

from msgspec import UNSET, UnsetType

from projseg.errors import InvalidInputError
from projseg.table.version_reader import VersionReader
from projseg.table_layer.commits.follow_up import only_logged
from projseg.table_layer.commits.open_version import open_as_of
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import TableProperties

if TYPE_CHECKING:
    from projseg.views.view_store import StoreVersion
    from projseg.views.written_rows import WrittenRows


LOGGER: Final = logging.getLogger("projseg.table")


def check_max_age(seconds: float | None) -> None:
    """Refuse an age that is no number of seconds."""
    if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 0):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"max_age is a number of seconds, at least 0, not {seconds!r}"
        )


class TableState:
    """The version that a table object reads now, and how it moves on.

    If it is pinned, the caller chose the version, so that nothing is written after it; after
    `max_age` seconds, a question looks for a newer version first.
    """

    def __init__(
        self, reader: VersionReader, *, is_pinned: bool = True, max_age: float | None = None
    ) -> None:
        self.reader, self.is_pinned, self.max_age = reader, is_pinned, max_age
        self.storage = reader.storage
        self.note = CommitNote()
        self._looked_at = time.monotonic()

    @property
    def snapshot(self) -> Snapshot:
        """The version's metadata."""
        return self.reader.snapshot

    @property
    def properties(self) -> TableProperties:
        """The declarations of the version."""
        return self.reader.snapshot.properties

    def move_to(self, snapshot: Snapshot) -> None:
        """Read a version that was written; the store of views that is open stays so."""
        older = self.reader.may_be_older
        self.reader = self.reader.moved(snapshot, may_be_older=older, keeps_store=True)

    def keep_store(self, store: StoreVersion | UnsetType | None) -> None:
        """Read views from a store that was written, or from the newest if it is unset."""
        self.reader = self.reader.with_store(store)

    def refresh(self) -> None:
        """Read the newest version, which may be written to."""
        self._looked_at = time.monotonic()
        self.reader = self.reader.moved(open_as_of(self.storage), may_be_older=True)
        self.is_pinned = False

    def follow(self, newest: TableState) -> None:
        """Read the version that another object of the table reads, wherever the table lies now."""
        snapshot = newest.reader.snapshot
        self.reader = self.reader.moved(snapshot, may_be_older=True, keeps_store=True)
        self.storage, self.is_pinned = newest.storage, False

    def current(self, max_age: float | None = None) -> VersionReader:
        """Return the version for a question that is asked now; `max_age` overrides the table's."""
        seconds = self.max_age if max_age is None else max_age
        if (
            seconds is not None
            and not self.is_pinned
            and time.monotonic() - self._looked_at > seconds
        ):
            self._looked_at = time.monotonic()
            snapshot = open_as_of(self.storage)
            if not self._is_at(snapshot):
                self.reader = self.reader.moved(snapshot, may_be_older=True)
        return self.reader

    def newest(self) -> Self:
        """Return the state at the newest version; this one if it is there and does not move."""
        snapshot = open_as_of(self.storage)
        is_there = self._is_at(snapshot)
        if is_there and not self.is_pinned and self.max_age is None:
            return self
        found = copy(self)
        found.max_age, found.is_pinned = None, False
        found.reader = self.reader.moved(snapshot, may_be_older=True, keeps_store=is_there)
        return found

    def _is_at(self, snapshot: Snapshot) -> bool:
        return snapshot.file.write_id == self.reader.snapshot.file.write_id

    def check_newest(self) -> None:
        """Refuse to write after a version that the caller chose."""
        if self.is_pinned:
            raise InvalidInputError(
                "PROJSEG_PINNED_VERSION",
                f"{self.reader.location} was opened at version {self.snapshot.version}, which can "
                "only be read: a commit follows the newest version; open the table without a "
                "version, or call refresh(), and write then",
            )

    def check_own_rows(self) -> None:
        """Refuse to change rows or columns that are those of a source."""
        if self.properties.source is not UNSET:
            # Imported here, as are all modules of writes: a process that only asks has none.
            from projseg.table_layer.commits.rebase import refuse_foreign

            refuse_foreign(self.properties, self.reader.location)

    def refresh_views(self, written: WrittenRows | None = None) -> None:
        """Refresh the views that follow commits; what goes wrong is logged, and kept in them."""

        def failure() -> str:
            return f"the refresh of views of {self.reader.location} failed"

        with only_logged(LOGGER, failure):
            if self.properties.is_in_views:
                # Imported here: most tables have no views, and each write would pay.
                from projseg.views.refresh_on_commit import refresh_after_commit

                self.keep_store(refresh_after_commit(self.snapshot, self.note, written) or UNSET)
