"""`TableVersions`: what can be done with a table's versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from projseg.errors import InvalidInputError
from projseg.table.writable_table import WritableTable
from projseg.table_layer.commits.open_version import InstantLike, open_as_of
from projseg.table_layer.metadata.snapshot import open_snapshot

if TYPE_CHECKING:
    from projseg.table.writes import Commit
    from projseg.table_layer.metadata.change import Change, CommitNote
    from projseg.table_layer.vacuum import Vacuumed


class TableVersions(WritableTable):
    """A table whose earlier versions can be named, brought back and removed."""

    def restore(
        self,
        version: int | None = None,
        *,
        timestamp: InstantLike | None = None,
        tag: str | None = None,
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
        tag : str or None
            Instead of `version`: the version of this tag.

        Returns
        -------
        Commit
            The version written, and how many segments and rows came back.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_ARGUMENT unless one version is named, PROJSEG_UNKNOWN_VERSION,
            PROJSEG_UNKNOWN_TAG, PROJSEG_PINNED_VERSION.
        CommitError
            PROJSEG_SEGMENT_MISSING if files of that version are gone, and as of `append`.
        CorruptTableError
            PROJSEG_SEGMENT_DIFFERS if footers of files that would come back are damaged.
        StorageError
            As of `append`.
        """
        from projseg.table.writes import commit_of
        from projseg.table_layer.commits.restore import restore

        self._check_newest()
        if version is None and timestamp is None and tag is None:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"no version of {self.location} was named to be restored; give a version or a "
                "timestamp, which history() lists, or a tag",
            )
        old = open_as_of(self._storage, version, timestamp, tag)
        self.refresh()
        note = self._note.asking(
            version=str(old.version),
            timestamp=None if timestamp is None else str(timestamp),
            tag=tag,
        )
        had_views = self.properties.has_views
        self._snapshot, entries = restore(self._snapshot, old, note)
        if had_views and not self.properties.has_views:
            from projseg.views.refresh_on_commit import keep_views

            # The version is older than the first view; views are none of its rows.
            self._snapshot = keep_views(self._snapshot, self._note)
        self._refresh_views()
        return commit_of(self._snapshot.version, entries)

    def tag(self, name: str, version: int | None = None) -> int:
        """Give a version a name, which keeps its files from `vacuum`.

        Parameters
        ----------
        name : str
            Letters, digits, `_`, `-` and `.`; not only digits, which would be a version.
        version : int or None
            The version to name; None: the one that this object reads.

        Returns
        -------
        int
            The version written, which is another than the one named.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_NAME, PROJSEG_TAG_EXISTS, PROJSEG_UNKNOWN_VERSION, PROJSEG_TOO_MANY_NAMES,
            PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            As of `append`.
        """
        from projseg.table_layer.metadata.change import SetTags
        from projseg.table_layer.metadata.versions_and_tags import check_tag

        check_tag(name)
        tagged = self.version if version is None else open_as_of(self._storage, version).version
        note = self._note.asking(tag=name, version=str(tagged))
        return self._change("tag", SetTags({name: tagged}), note)

    def drop_tag(self, name: str) -> int:
        """Take a version's name away, so that `vacuum` may remove the version.

        Parameters
        ----------
        name : str
            The tag.

        Returns
        -------
        int
            The version written.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TAG, PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            As of `append`.
        """
        from projseg.table_layer.metadata.change import SetTags

        return self._change("drop tag", SetTags(drop=(name,)), self._note.asking(tag=name))

    def tags(self) -> pa.Table:
        """Return the table's tags, by name, as the newest version has them.

        Returns
        -------
        pa.Table
            tag, version.

        Raises
        ------
        StorageError, CorruptTableError
            If the newest version cannot be read.
        """
        # Imported here, so that a process that only asks starts without it.
        from projseg.table_layer.metadata_tables import tags

        return tags(open_snapshot(self._storage))

    def vacuum(
        self, retention_hours: float = 168, dry_run: bool = True, *, force: bool = False
    ) -> Vacuumed:
        """Remove versions that were replaced long ago, and files that no version needs.

        Versions with a tag stay, as do files that are younger than the retention, whether a version
        lists them or not: a write that runs has such files. Only files of the names that projseg
        gives are looked at, and symbolic links are not followed.

        Parameters
        ----------
        retention_hours : float
            Every version that was the newest since then can be read afterwards.
        dry_run : bool
            Only say what would be removed.
        force : bool
            Whether less than 24 hours is meant: nothing else may write to or read the table then.

        Returns
        -------
        Vacuumed
            The files, their number and size.

        Raises
        ------
        InvalidInputError
            PROJSEG_RETENTION_TOO_SHORT, PROJSEG_BAD_ARGUMENT, PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            As of `append`; what was not removed is found by the next vacuum.
        """
        from projseg.table_layer.vacuum import vacuum, with_files

        self._check_newest()
        self.refresh()
        self._snapshot, vacuumed = vacuum(
            self._snapshot, retention_hours, self._note, dry_run=dry_run, force=force
        )
        if self.properties.has_views:
            from projseg.views.store_vacuum import vacuum_views

            store, files = vacuum_views(
                self._snapshot, retention_hours, self._note, dry_run=dry_run
            )
            self._state.keep_store(store)
            return with_files(vacuumed, files)
        return vacuumed

    def _change(self, operation: str, change: Change, note: CommitNote) -> int:
        from projseg.table_layer.commits.commit import commit
        from projseg.table_layer.storage.paths import new_write_id

        self._check_newest()
        self.refresh()
        self._snapshot = commit(
            self._storage,
            self._snapshot,
            change,
            write_id=new_write_id(),
            operation=operation,
            note=note,
        )
        return self._snapshot.version
