"""`WritableTable`: a table object that moves on with each commit it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from msgspec import UNSET

from projseg.errors import InvalidInputError
from projseg.table.queries import TableVersion
from projseg.table_layer.metadata.change import CommitNote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from projseg.maintenance.rewrite_tasks import TaskRunner
    from projseg.views.written_rows import WrittenRows


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
    """A table at one version, which a commit through this object replaces by the one written."""

    @property
    def _note(self) -> CommitNote:
        return self._state.note

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
        self._state.refresh()
        return self

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
        state = self._state.newest()
        return self if state is self._state else self._with_state(state)

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
        self._state.note = CommitNote({}, user_name, user_metadata)
        return self

    def _new_rows(self) -> WrittenRows | None:
        """Return what holds rows from their writing until views are refreshed; None: no views."""
        if not self._state.reader.has_views:
            return None
        from projseg.views.written_rows import WrittenRows

        return WrittenRows()

    def _refresh_views(self, written: WrittenRows | None = None) -> None:
        """Refresh the views that follow commits; what goes wrong is logged, and kept in them."""
        self._state.refresh_views(written)

    def _check_own_rows(self) -> None:
        """Refuse to change rows or columns that are those of a source, before anything is done."""
        if self.properties.source is not UNSET:
            from projseg.table_layer.commits.rebase import refuse_foreign

            refuse_foreign(self.properties, self.location)

    def _check_newest(self) -> None:
        self._state.check_newest()


def runner_of(spark: SparkSession | None) -> TaskRunner | None:
    """Return the tasks of a session; None stays None."""
    if spark is None:
        return None
    from projseg.spark_datasource.rewrite_runner import SparkRunner

    return SparkRunner.of(spark)
