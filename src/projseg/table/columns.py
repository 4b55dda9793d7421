"""`TableColumns`: what can be done with a table's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projseg.table.writable_table import WritableTable

# A process that only asks starts without the modules that write; each method imports its own.
if TYPE_CHECKING:
    import pyarrow as pa

    from projseg.table_layer.column_changes import ColumnChanges


class TableColumns(WritableTable):
    """A table whose columns are changed, and no segment.

    A column is known by an id of its own, so old rows keep their values through every change, and
    a column that is added under the name of one that was dropped is null in them. Each call is one
    commit; rows that others append meanwhile stay, as if they had come first.
    """

    def add_column(self, name: str, type: str | pa.DataType) -> int:
        """Add a column, which is null in the rows that are there.

        Parameters
        ----------
        name : str
            The new column.
        type : str or pa.DataType
            As in Spark SQL, or Arrow's.

        Returns
        -------
        int
            The version written.

        Raises
        ------
        InvalidInputError
            PROJSEG_COLUMN_EXISTS, PROJSEG_BAD_NAME, PROJSEG_BAD_TYPE_NAME, PROJSEG_TOO_MANY_NAMES,
            PROJSEG_PINNED_VERSION.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_TYPE.
        CommitError, StorageError
            As of `append`; another change of the same column is a conflict.
        """
        from projseg.table.declaration_commits import adding

        return self._change_columns(adding(self.properties, {str(name): type}))

    def rename_column(self, old: str, new: str) -> int:
        """Give a column another name, also where the table's projections mention it.

        Parameters
        ----------
        old, new : str
            The present and the new name.

        Returns
        -------
        int
            The version written.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_COLUMN, PROJSEG_COLUMN_EXISTS, PROJSEG_BAD_NAME, PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            As of `add_column`.
        """
        from projseg.table.declaration_commits import renaming

        return self._change_columns(renaming(self.properties, old, new))

    def drop_column(self, name: str) -> int:
        """Take a column out of the table; compaction removes its values from the files.

        Parameters
        ----------
        name : str
            A column that no projection, time column or sort order needs.

        Returns
        -------
        int
            The version written.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_COLUMN, PROJSEG_COLUMN_IN_USE (naming the projections that read it),
            PROJSEG_EMPTY_SCHEMA, PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            As of `add_column`.
        """
        from projseg.table.declaration_commits import dropping

        return self._change_columns(dropping(self.properties, [name]))

    def widen_column(self, name: str, type: str | pa.DataType) -> int:
        """Give a column a type that holds every value of its present one.

        Integers may become wider, decimals of scale 0 that hold them and, up to `int`, `double`;
        `float` may become `double`; a decimal may get more digits with the same scale. Segments
        that are there are read in the wider type, and their projections still answer where what
        they store is the same for it.

        Parameters
        ----------
        name : str
            The column.
        type : str or pa.DataType
            The wider type.

        Returns
        -------
        int
            The version written.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_COLUMN, PROJSEG_CANNOT_WIDEN, PROJSEG_COLUMN_IN_USE (naming the
            projections that cannot read the wider type), PROJSEG_BAD_TYPE_NAME,
            PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            As of `add_column`.
        """
        from projseg.table.declaration_commits import widening

        return self._change_columns(widening(self.properties, name, type))

    def _change_columns(self, changes: ColumnChanges) -> int:
        from projseg.table.declaration_commits import change_columns

        self._check_newest()
        self._check_own_rows()
        self._snapshot = change_columns(self._snapshot, changes, self._note)
        return self._snapshot.version
