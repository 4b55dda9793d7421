"""`VersionKeeping`: versions are named, brought back and removed."""

from __future__ import annotations

from projseg.errors import InvalidInputError
from projseg.table.table_state import TableState
from projseg.table.writes import Commit, commit_of
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.commits.open_version import InstantLike, open_as_of
from projseg.table_layer.commits.restore import restore
from projseg.table_layer.metadata.change import CommitNote, SetTags
from projseg.table_layer.metadata.versions_and_tags import check_tag
from projseg.table_layer.storage.paths import new_write_id
from projseg.table_layer.vacuum import Vacuumed, vacuum, with_files


class VersionKeeping:
    """The versions of a table that are kept."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    def restore(
        self, version: int | None, timestamp: InstantLike | None, tag: str | None
    ) -> Commit:
        """Restore the table to an earlier version."""
        state = self._state
        state.check_newest()
        if version is None and timestamp is None and tag is None:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"no version of {state.storage.location} was named to be restored; give a version "
                "or a timestamp, which history() lists, or a tag",
            )
        old = open_as_of(state.storage, version, timestamp, tag)
        state.refresh()
        note = state.note.asking(
            version=str(old.version),
            timestamp=None if timestamp is None else str(timestamp),
            tag=tag,
        )
        had_views = state.properties.has_views
        snapshot, entries = restore(state.snapshot, old, note)
        state.move_to(snapshot)
        if had_views and not state.properties.has_views:
            from projseg.views.refresh_on_commit import keep_views

            # The version is older than the first view; views are none of its rows.
            state.move_to(keep_views(state.snapshot, state.note))
        state.refresh_views()
        return commit_of(state.snapshot.version, entries)

    def tag(self, name: str, version: int | None) -> int:
        """Give a version a name."""
        state = self._state
        check_tag(name)
        tagged = state.snapshot if version is None else open_as_of(state.storage, version)
        note = state.note.asking(tag=name, version=str(tagged.version))
        return self._commit("tag", SetTags({name: tagged.version}), note)

    def drop_tag(self, name: str) -> int:
        """Take a version's name away."""
        return self._commit("drop tag", SetTags(drop=(name,)), self._state.note.asking(tag=name))

    def vacuum(self, retention_hours: float, *, dry_run: bool, force: bool) -> Vacuumed:
        """Remove versions that were replaced long ago, and files that no version needs."""
        state = self._state
        state.check_newest()
        state.refresh()
        snapshot, vacuumed = vacuum(
            state.snapshot, retention_hours, state.note, dry_run=dry_run, force=force
        )
        state.move_to(snapshot)
        if not state.properties.has_views:
            return vacuumed
        from projseg.views.store_vacuum import vacuum_views

        store, files = vacuum_views(snapshot, retention_hours, state.note, dry_run=dry_run)
        state.keep_store(store)
        return with_files(vacuumed, files)

    def _commit(self, operation: str, change: SetTags, note: CommitNote) -> int:
        state = self._state
        state.check_newest()
        state.refresh()
        snapshot = commit(
            state.storage,
            state.snapshot,
            change,
            write_id=new_write_id(),
            operation=operation,
            note=note,
        )
        state.move_to(snapshot)
        return snapshot.version
