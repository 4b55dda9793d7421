"""`WritableTable`: a table object that moves on with each commit it makes."""

from __future__ import annotations

import logging
import time
from copy import copy
from typing import TYPE_CHECKING, Final, Self

from msgspec import UNSET

from projseg.errors import InvalidInputError
from projseg.table.queries import TableVersion
from projseg.table_layer.commits.follow_up import only_logged
from projseg.table_layer.commits.open_version import open_as_of
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.storage_contract import Storage

if TYPE_CHECKING:
    from projseg.views.written_rows import WrittenRows


LOGGER: Final = logging.getLogger("projseg.table")


def check_max_age(seconds: float | None) -> None:
    """Refuse an age that is no number of seconds.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_ARGUMENT.
    """
    if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 0):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"max_age is a number of seconds, at least 0, not {seconds!r}"
        )


class WritableTable(TableVersion):
    """A table at one version, which a commit through this object replaces by the one written.

    Parameters
    ----------
    storage : Storage
        Where the table is.
    snapshot : Snapshot
        The version.
    is_pinned : bool
        Whether the caller chose the version, so that nothing is written after it.
    max_age : float or None
        Seconds after which a question looks for a newer version first.
    """

    def __init__(
        self,
        storage: Storage,
        snapshot: Snapshot,
        *,
        is_pinned: bool,
        max_age: float | None = None,
    ) -> None:
        super().__init__(storage, snapshot)
        self._is_pinned = is_pinned
        self._note = CommitNote()
        self._max_age = max_age
        self._looked_at = time.monotonic()

    @property
    def _may_be_older(self) -> bool:
        return not self._is_pinned

    def refresh(self) -> Self:
        """Move to the newest version, which may be written to, and return this table.

        Returns
        -------
        Table
            This one.

        Raises
        ------
        InvalidInputError, StorageError, CorruptTableError
            As of `Table`.
        """
        self._looked_at = time.monotonic()
        snapshot = open_as_of(self._storage)
        self._store = UNSET
        self._snapshot = snapshot
        self._is_pinned = False
        return self

    def _current(self, max_age: float | None = None) -> Self:
        """Return the version of which a question is asked now, and keep to it while it is answered.

        Parameters
        ----------
        max_age : float or None
            Seconds after which a newer version is looked for; None: as the table was opened.
        """
        seconds = self._max_age if max_age is None else max_age
        if seconds is None or self._is_pinned:
            return self
        if time.monotonic() - self._looked_at > seconds:
            self._looked_at = time.monotonic()
            snapshot = open_as_of(self._storage)
            if snapshot.file.write_id != self._snapshot.file.write_id:
                self._store = UNSET
                self._snapshot = snapshot
        return copy(self)

    def newest(self) -> Self:
        """Return the table at its newest version; this object stays at its own.

        What is returned does not move by itself, so several questions of one request, asked of it,
        see one version.

        Returns
        -------
        Table
            This one if there is no newer version, and it neither is pinned nor has an age.

        Raises
        ------
        InvalidInputError, StorageError, CorruptTableError
            As of `Table`.
        """
        snapshot = open_as_of(self._storage)
        is_known = snapshot.file.write_id == self._snapshot.file.write_id
        if is_known and not self._is_pinned and self._max_age is None:
            return self
        found = copy(self)
        found._max_age, found._is_pinned = None, False
        if not is_known:
            found._snapshot, found._store = snapshot, UNSET
        return found

    def commit_as(self, user_name: str | None = None, user_metadata: str | None = None) -> Self:
        """Set what `history` says of the commits made through this object, and return it.

        Parameters
        ----------
        user_name : str or None
            Who commits; it is not found out otherwise.
        user_metadata : str or None
            Any text.

        Returns
        -------
        Table
            This one.

        Raises
        ------
        LimitExceededError
            PROJSEG_METADATA_TOO_LARGE if a text is too long.
        """
        self._note = CommitNote({}, user_name, user_metadata)
        return self

    def _new_rows(self) -> WrittenRows | None:
        """Return what holds rows from their writing until views are refreshed; None: no views."""
        if not self._has_views:
            return None
        from projseg.views.written_rows import WrittenRows

        return WrittenRows()

    def _refresh_views(self, written: WrittenRows | None = None) -> None:
        """Refresh the views that follow commits; what goes wrong is logged, and kept in them."""
        with only_logged(LOGGER, lambda: f"the refresh of views of {self.location} failed"):
            if self._snapshot.properties.is_in_views:
                # Imported here: most tables have no views, and each write would pay.
                from projseg.views.refresh_on_commit import refresh_after_commit

                self._store = refresh_after_commit(self._snapshot, self._note, written) or UNSET

    def _check_own_rows(self) -> None:
        """Refuse to change rows or columns that are those of a source, before anything is done."""
        if self.properties.source is not UNSET:
            from projseg.table_layer.commits.rebase import refuse_foreign

            refuse_foreign(self.properties, self.location)

    def _check_newest(self) -> None:
        if self._is_pinned:
            raise InvalidInputError(
                "PROJSEG_PINNED_VERSION",
                f"{self.location} was opened at version {self.version}, which can only be read: a "
                "commit follows the newest version; open the table without a version, or call "
                "refresh(), and write then",
            )
