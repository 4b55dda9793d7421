"""`VersionedTable`: what can be done with a table's versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projseg.errors import InvalidInputError
from projseg.table_layer.as_of import InstantLike, open_as_of
from projseg.writable_table import WritableTable

if TYPE_CHECKING:
    from projseg.table_write import Commit


class VersionedTable(WritableTable):
    """A table whose earlier versions can be brought back."""

    def restore(
        self, version: int | None = None, *, timestamp: InstantLike | None = None
    ) -> Commit:
        """Make the table what it was: columns, projections and segments of an earlier version.

        Nothing is copied and no version is lost: this one follows the newest, and what was
        committed meanwhile is no longer listed, as after an overwrite.

        Parameters
        ----------
        version : int or None
            The version to bring back.
        timestamp : str, date, datetime or None
            Instead of `version`: the newest version committed at or before this instant.

        Returns
        -------
        Commit
            The version written, and how many segments and rows came back.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_ARGUMENT unless one version is named, PROJSEG_UNKNOWN_VERSION,
            PROJSEG_PINNED_VERSION.
        CommitError
            PROJSEG_SEGMENT_MISSING if files of that version are gone, and as of `append`.
        StorageError
            As of `append`.
        """
        from projseg.table_layer.restore import restore
        from projseg.table_write import Commit

        self._check_newest()
        if version is None and timestamp is None:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"no version of {self.location} was named to be restored; give a version or a "
                "timestamp, which history() lists",
            )
        old = open_as_of(self._storage, version, timestamp)
        self.refresh()
        note = self._note.asking(
            version=str(old.version), timestamp=None if timestamp is None else str(timestamp)
        )
        self._snapshot, entries = restore(self._snapshot, old, note)
        row_count = sum(entry.row_count for entry in entries)
        return Commit(self._snapshot.version, len(entries), row_count)
