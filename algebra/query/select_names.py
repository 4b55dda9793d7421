"""What names mean in a SELECT: columns, the table itself, aliases of outputs, and parameters."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec
import pyarrow as pa
from sqlglot import exp

from projseg.algebra.aggregates.aggregate_functions import AGGREGATES, ALIASES
from projseg.algebra.expressions.sql_parameters import Arguments, bad_arguments, parameter_names
from projseg.algebra.expressions.sql_words import (
    Reference,
    column_text,
    plain_name,
    replaced,
)
from projseg.algebra.expressions.tree import Literal
from projseg.algebra.query.request import Query, texts_of
from projseg.algebra.query.select_statement import SelectItem, SelectStatement
from projseg.algebra.query.select_table import SelectedTable
from projseg.algebra.query.star_names import StarScope
from projseg.algebra.query.unsupported_sql import bad_sql
from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.format_limits import name_key

_OVER_COLUMNS: Final = frozenset((*ALIASES, "filter", "grouping", "grouping_id"))
"""What else than an aggregate has arguments over columns of the table, wherever it stands."""


def warn_of_names(quoted: tuple[str, ...], *schemas: pa.Schema, callers: int = 2) -> None:
    """Warn the caller, `callers` calls above, of double-quoted texts that are column names."""
    names = {name_key(name): name for schema in schemas for name in schema.names}
    for text in quoted:
        if name := names.get(name_key(text)):
            warnings.warn(
                f'"{text}" is a text in Spark\'s SQL, not the column of that name; write `{name}` '
                f"for the column, or '{text}' for the text",
                stacklevel=callers + 2,
            )


class SelectGroups(msgspec.Struct, frozen=True):
    """What names mean over groups; all names are folded.

    `outputs` are expressions by their names, `keys` the names of keys that are plain columns by
    these, `parts` the columns in all keys.
    """

    outputs: Mapping[str, str]
    keys: Mapping[str, str]
    parts: frozenset[str]

    def hides(self, name: str) -> bool:
        """Whether an output that is not the column has its name."""
        output = self.outputs.get(name)
        column = None if output is None else plain_name(output)
        return output is not None and (
            column is None or [name_key(part) for part in column.parts] != [name]
        )


class SelectNames:
    """The names of the columns of a table, or of the tables of FROM, in any case."""

    def __init__(
        self, schema: pa.Schema, table: SelectedTable, scope: StarScope | None = None
    ) -> None:
        self._names = list(schema.names)
        self._folded = {name_key(name) for name in schema.names}
        self._table = table
        self._scope = scope

    def expanded(self, item: SelectItem) -> list[SelectItem]:
        """Return the columns of `*` as items of their own, and any other item as it is."""
        if not item.is_star:
            return [item]
        if self._scope is not None:
            return self._expanded_star(item, self._scope)
        if item.qualifier and not self._table.is_named(item.qualifier):
            raise bad_sql(f"{'.'.join(item.qualifier)}.* names no table of FROM; write *")
        left_out = {name_key(name) for name in item.excepted}
        if unknown := [name for name in item.excepted if name_key(name) not in self._folded]:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_COLUMN",
                f"* EXCEPT names '{unknown[0]}', which is no column"
                f"{did_you_mean(unknown[0], self._names)}",
            )
        return [
            SelectItem(column_text(name), name)
            for name in self._names
            if name_key(name) not in left_out
        ]

    def condition(self, text: str | None) -> str | None:
        """Return the condition of WHERE; over several tables it is over their columns already."""
        return text if self._scope is not None else text and self.over_columns(text, {})

    def over_columns(self, text: str, aliases: Mapping[str, str]) -> str:
        """Return a text with what aliases stand for in place of those that are no columns."""

        def meaning(one: Reference) -> exp.Expression | None:
            if self._scope is not None and (named := self._scope.named(one.parts)) is not None:
                return self._scope.rewritten(one, named)
            if name_key(one.parts[0]) in self._folded:
                return None
            return _meaning(one, aliases)

        return replaced(text, lambda one: self._unqualified(one) or meaning(one))

    def aliases_first(self, text: str, aliases: Mapping[str, str]) -> str:
        """Return a text over columns, in which an alias stands before a column of its name."""
        if self._scope is None:
            return replaced(text, lambda one: self._unqualified(one) or _meaning(one, aliases))
        return replaced(text, lambda one: self._joined(one, aliases))

    def over_outputs(self, text: str, groups: SelectGroups, *, groups_first: bool) -> str:
        """Return a text of HAVING or ORDER BY, over the outputs and keys of a query.

        It is a condition, or a term without its direction. With `groups_first`, a column that is
        grouped by stands before an output of its name.
        """

        def by(one: Reference) -> exp.Expression | None:
            is_inner = any(name in AGGREGATES or name in _OVER_COLUMNS for name in one.within)
            if self._scope is not None:
                return self._joined_over_outputs(one, groups, is_inner, groups_first)
            plain = self._unqualified(one)
            if is_inner:
                return plain
            place = len(one.parts) - 1 if plain is not None else 0
            name = name_key(one.parts[place])
            if name in groups.keys and (groups_first or plain is not None):
                return one.renamed(groups.keys[name], taken=place + 1)
            is_unclear = plain is not None or (groups_first and one.within and name in groups.parts)
            if is_unclear and groups.hides(name):
                raise bad_sql(
                    f"'{text}' means a column that has the name of another output; give the output "
                    "another alias"
                )
            return plain

        return replaced(text, by)

    def _expanded_star(self, item: SelectItem, scope: StarScope) -> list[SelectItem]:
        """Return the columns of `*` over several tables."""
        numbers = scope.visible
        if parts := item.qualifier:
            numbers = tuple(n for n in numbers if scope.tables[n].is_named(parts))
            if len(numbers) != 1:
                raise bad_sql(f"{'.'.join(parts)}.* names no table of FROM, or several; write *")
        found = scope.star(numbers)
        left_out = {name_key(name) for name in item.excepted}
        names = {name_key(name) for _, name in found}
        if unknown := [name for name in item.excepted if name_key(name) not in names]:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_COLUMN",
                f"* EXCEPT names '{unknown[0]}', which is no column"
                f"{did_you_mean(unknown[0], names)}",
            )
        return [SelectItem(text, name) for text, name in found if name_key(name) not in left_out]

    def _joined(self, one: Reference, aliases: Mapping[str, str]) -> exp.Expression | None:
        """Return what a name of ORDER BY over rows of several tables means."""
        assert self._scope is not None
        meaning = _meaning(one, aliases) if len(one.parts) == 1 else None
        if meaning is not None:
            return meaning
        named = self._scope.named(one.parts)
        return None if named is None else self._scope.rewritten(one, named)

    def _joined_over_outputs(
        self, one: Reference, groups: SelectGroups, is_inner: bool, groups_first: bool
    ) -> exp.Expression | None:
        """Return what a name of HAVING or ORDER BY over several tables means."""
        assert self._scope is not None
        is_output = len(one.parts) == 1 and name_key(one.parts[0]) in groups.outputs
        if is_output and not is_inner and not groups_first:
            return None
        try:
            named = self._scope.named(one.parts)
        except InvalidInputError:
            if is_output and not is_inner:
                return None
            raise
        if named is None:
            return None
        written = self._scope.rewritten(one, named)
        if is_inner:
            return written
        column = name_key(".".join(self._scope.parts(named)))
        if column in groups.keys:
            return one.renamed(groups.keys[column], taken=named.taken)
        return None if is_output else written

    def _unqualified(self, one: Reference) -> exp.Expression | None:
        """Return a name without the table's, None if it has none."""
        if self._scope is not None:
            return None
        for count in range(len(one.parts) - 1, 0, -1):
            is_column = name_key(one.parts[count]) in self._folded
            is_other = name_key(one.parts[0]) in self._folded
            if self._table.is_named(one.parts[:count]) and (is_column or not is_other):
                return one.renamed(taken=count)
        return None


def _meaning(one: Reference, aliases: Mapping[str, str]) -> exp.Expression | None:
    """Return what an alias stands for, and the fields that are taken of it."""
    output = aliases.get(name_key(one.parts[0]))
    return None if output is None else one.instead(output)


def parameters_of_outputs(statement: SelectStatement) -> frozenset[str]:
    """Return the parameters of a statement that are not in its conditions."""
    texts = [item.text for item in statement.items]
    texts += [*(statement.group_by or ()), *statement.order_by]
    return frozenset(name for text in texts for name in parameter_names(text))


def with_arguments(
    query: Query, statement: SelectStatement, arguments: Arguments
) -> tuple[Query, int]:
    """Return the query of a statement with the values of its parameters, and its OFFSET."""
    names = {name for text in texts_of(query) for name in parameter_names(text)}
    offset = _rows(statement.offset, "OFFSET", arguments) or 0
    limit = _rows(statement.limit, "LIMIT", arguments)
    limit = None if limit is None else limit + offset
    return replace(query, args=arguments.only(names), limit=limit), offset


def _rows(given: int | str | None, clause: str, arguments: Arguments) -> int | None:
    """Return a count of rows that a statement or a parameter of it says."""
    if not isinstance(given, str):
        return given
    value = arguments.values.get(given)
    count = value.value if isinstance(value, Literal) else None
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise bad_arguments(f"parameter :{given} of {clause} is no count of rows")
    return count
