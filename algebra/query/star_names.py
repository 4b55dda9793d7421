"""What names mean in a SELECT over several tables: columns of the fact, or of a dimension."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from sqlglot import exp

from projseg.algebra.expressions.binder_names import BARE_INSTANT_NAMES
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.expressions.sql_words import (
    Reference,
    column_text,
    references,
    replaced,
)
from projseg.algebra.query.select_table import SelectedTable
from projseg.algebra.query.unsupported_sql import bad_sql
from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.format_limits import name_key


class NamedTable(msgspec.Struct, frozen=True):
    """A table of FROM; its `alias`, for joined columns, no column and no other table has."""

    selected: SelectedTable
    alias: str
    columns: tuple[str, ...]

    def column(self, name: str) -> str | None:
        """Return a column by its name in any case."""
        return next((one for one in self.columns if name_key(one) == name_key(name)), None)

    def is_named(self, parts: tuple[str, ...]) -> bool:
        """Whether a name before a dot is the table's."""
        return self.selected.is_named(parts)


class NamedColumn(msgspec.Struct, frozen=True):
    """The column that a name means: the table's number, and how many parts of the name it takes."""

    table: int
    column: str
    taken: int


class StarScope(msgspec.Struct, frozen=True):
    """The tables of FROM, and which may be named, in the order of `*`.

    `merged` has the columns of USING, folded, and the table whose column each means. The columns of
    the fact are written without a table; -1: it is not known yet.
    """

    tables: tuple[NamedTable, ...]
    visible: tuple[int, ...]
    merged: tuple[tuple[str, int], ...] = ()
    fact: int = -1

    def named(self, parts: tuple[str, ...]) -> NamedColumn | None:
        """Return the column that a dotted name means, or None."""
        for count in range(len(parts) - 1, 0, -1):
            named = [n for n in self.visible if self.tables[n].is_named(parts[:count])]
            if len(named) > 1:
                raise bad_sql(f"'{'.'.join(parts[:count])}' names several tables of FROM")
            if named:
                return self._of_table(named[0], parts, count)
        found = [(n, column) for n in self.visible if (column := self.tables[n].column(parts[0]))]
        if len(found) > 1:
            owner = dict(self.merged).get(name_key(parts[0]))
            found = [(n, column) for n, column in found if n == owner]
            if not found:
                raise bad_sql(f"'{parts[0]}' is a column of several tables; name one before it")
        return NamedColumn(found[0][0], found[0][1], 1) if found else None

    def _of_table(self, number: int, parts: tuple[str, ...], count: int) -> NamedColumn | None:
        table = self.tables[number]
        column = table.column(parts[count])
        if column is not None:
            return NamedColumn(number, column, count + 1)
        if any(self.tables[n].column(parts[0]) for n in self.visible):
            return None  # a field of a struct that has a table's name
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_COLUMN",
            f"'{'.'.join(parts)}': {'.'.join(parts[:count])} has no column '{parts[count]}'"
            f"{did_you_mean(parts[count], table.columns)}",
        )

    def parts(self, named: NamedColumn) -> tuple[str, ...]:
        """Return the parts of a column's name over the joined rows."""
        table = () if named.table == self.fact else (self.tables[named.table].alias,)
        return (*table, named.column)

    def rewritten(self, one: Reference, named: NamedColumn) -> exp.Expression:
        """Return a name as texts over the joined rows have it, with the fields taken of it."""
        return one.renamed(*self.parts(named), taken=named.taken)

    def over_rows(self, text: str) -> str:
        """Return a text over the joined rows."""

        def by(one: Reference) -> exp.Expression | None:
            named = self._column_of(one)
            return None if named is None else self.rewritten(one, named)

        return replaced(text, by)

    def _column_of(self, one: Reference) -> NamedColumn | None:
        """Return the column that a name of a condition means; None of the present time."""
        named = self.named(one.parts)
        if named is None and name_key(one.parts[0]) not in BARE_INSTANT_NAMES:
            names = [name for n in self.visible for name in self.tables[n].columns]
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_COLUMN",
                f"'{'.'.join(one.parts)}' is no column of the tables joined so far"
                f"{did_you_mean(one.parts[-1], names)}",
            )
        return named

    def tables_in(self, text: str) -> frozenset[int]:
        """Return the numbers of the tables whose columns a text has."""
        found = (self._column_of(one) for one in references(text))
        return frozenset(named.table for named in found if named is not None)

    def plain_column(self, text: str) -> NamedColumn | None:
        """Return the column that a text is, or None if it is something else."""
        tree = parse_sql(text)
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if not isinstance(tree, exp.Column):
            return None
        parts = Reference(tree).parts
        named = self.named(parts)
        return named if named is not None and len(parts) == named.taken else None

    def star(self, numbers: Iterable[int]) -> list[tuple[str, str]]:
        """Return the columns that `*` lists: texts with the name of their table, and names."""
        merged = dict(self.merged)
        found: list[tuple[str, str]] = []
        for number in numbers:
            before = self.tables[number].selected.names
            for column in self.tables[number].columns:
                owner = merged.get(name_key(column), number)
                if owner == number:
                    found.append((column_text(*before, column), column))
        return found


def named_tables(
    selected: Sequence[SelectedTable], columns: Sequence[Sequence[str]], titles: Sequence[str]
) -> list[NamedTable]:
    """Return the tables with names for their joined columns, which nothing else has."""
    taken = {name_key(name) for names in columns for name in names}
    found = []
    for table, names, title in zip(selected, columns, titles, strict=True):
        stem = title.replace(".", "_").replace("`", "_")
        alias, number = stem, 1
        while name_key(alias) in taken:
            number += 1
            alias = f"{stem}_{number}"
        taken.add(name_key(alias))
        found.append(NamedTable(table, alias, tuple(names)))
    return found
