"""`ColumnEdits`: columns are changed, and no segment.

A column is known by an id of its own, so old rows keep their values through every change, and
a column that is added under the name of one that was dropped is null in them. Each call is one
commit; rows that others append meanwhile stay, as if they had come first.
"""

from __future__ import annotations

import pyarrow as pa

from projseg.errors import InvalidInputError
from projseg.table.declaration_commits import adding, change_columns, dropping, renaming, widening
from projseg.table.table_state import TableState
from projseg.table_layer.column_changes import ColumnChanges


class ColumnEdits:
    """The columns of a table, to be changed."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    def add(self, name: str, type: str | pa.DataType) -> int:
        """Add a column."""
        if not isinstance(name, str):
            raise InvalidInputError("PROJSEG_BAD_NAME", f"a column's name is {name!r}; give a text")
        return self._commit(adding(self._state.properties, {name: type}))

    def rename(self, old: str, new: str) -> int:
        """Give a column another name."""
        return self._commit(renaming(self._state.properties, old, new))

    def drop(self, name: str) -> int:
        """Take a column out of the table."""
        return self._commit(dropping(self._state.properties, [name]))

    def widen(self, name: str, type: str | pa.DataType) -> int:
        """Give a column a type that holds every value of its present one."""
        return self._commit(widening(self._state.properties, name, type))

    def _commit(self, changes: ColumnChanges) -> int:
        state = self._state
        state.check_newest()
        state.check_own_rows()
        state.move_to(change_columns(state.snapshot, changes, state.note))
        return state.snapshot.version
