"""What the columns of a table are called in its segments. SPEC.md "Table", stored columns.

A stored name is a column's id: it means one column in one type, in every segment of the table, and
is never given again. A rename changes the table's name of a column and no stored one; a column that
becomes wider gets a further stored name; that of a column that was dropped is retired.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Final

import msgspec

from projseg.segment_format.format_limits import NAME_BYTES_MAX, name_key
from projseg.segment_format.logical_types import parse_type_name
from projseg.segment_format.page_directory import may_widen


class ColumnDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column: its name and the name of its type (`types.type_name`)."""

    name: str
    type: str


Forms = tuple[ColumnDeclaration, ...]
"""The stored names of one column with the types that they are stored in, the oldest first."""


class StoredColumns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored names of a table's columns, if they are not the columns' own.

    Each column has its names, the oldest first; the last has its present type. `retired` were those
    of columns that the table no longer has.
    """

    columns: tuple[Forms, ...]
    retired: Forms = ()

    @property
    def newest(self) -> Forms:
        """The columns as segments are written."""
        return tuple(forms[-1] for forms in self.columns)

    @property
    def every(self) -> Forms:
        """All stored names with their types, those in use first."""
        older = (form for forms in self.columns for form in forms[:-1])
        return (*self.newest, *older, *self.retired)


STORED_COLUMNS: Final = "stored_columns"
"""The feature that a snapshot names if its columns have stored names of their own."""


def new_stored_name(wanted: str, taken: Iterable[str]) -> str:
    """Return a stored name for a column: its own, or one that begins with it.

    It differs in more than case from `taken`, every stored name that was ever given.
    """
    known = {name_key(name) for name in taken}
    if name_key(wanted) not in known:
        return wanted
    for number in count(2):
        suffix = f"#{number}"
        room = NAME_BYTES_MAX - len(suffix)
        name = wanted.encode()[:room].decode(errors="ignore") + suffix
        if name_key(name) not in known:
            return name
    raise AssertionError("one of infinitely many names is free")


def stored_columns_problem(stored: StoredColumns, columns: Forms) -> str | None:
    """Return why stored names cannot be those of a table's columns, or None if they can."""
    for form in stored.retired:
        parse_type_name(form.type)
    if len(stored.columns) != len(columns) or not all(stored.columns):
        return f"name {len(stored.columns)} columns of {len(columns)}, or one by no name"
    for column, forms in zip(columns, stored.columns, strict=True):
        if forms[-1].type != column.type:
            return f"say that '{column.name}' is {forms[-1].type}, the table {column.type}"
        wide = parse_type_name(column.type)
        for form in forms[:-1]:
            if not may_widen(parse_type_name(form.type), wide):
                return f"make {form.type} into {column.type}, as values of '{column.name}'"
    return None
