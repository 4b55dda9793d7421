"""What names mean in a SELECT: columns, the table itself, aliases of outputs, and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.aggregates.aggregate_functions import AGGREGATES, ALIASES
from projseg.algebra.expressions.parameters.arguments import Arguments, bad_arguments
from projseg.algebra.expressions.parameters.sql_parameters import parameter_names
from projseg.algebra.expressions.text.references import Reference, replaced
from projseg.algebra.expressions.text.sql_words import quoted_name
from projseg.algebra.expressions.tree import Literal
from projseg.algebra.query.request import Query, texts_of
from projseg.algebra.query.select_statement import SelectItem, SelectStatement
from projseg.algebra.query.select_table import SelectedTable
from projseg.algebra.query.unsupported_sql import bad_sql
from projseg.errors import InvalidInputError, did_you_mean

_OVER_COLUMNS: Final = frozenset((*ALIASES, "filter", "grouping", "grouping_id"))
"""What else than an aggregate has arguments over columns of the table, wherever it stands."""


class SelectGroups(msgspec.Struct, frozen=True):
    """What names mean over groups; all names are folded.

    Parameters
    ----------
    outputs : mapping of str to str
        The expressions of outputs by their names.
    keys : mapping of str to str
        The names of keys that are plain columns, by these.
    parts : frozenset of str
        The columns in all keys.
    """

    outputs: Mapping[str, str]
    keys: Mapping[str, str]
    parts: frozenset[str]

    def hides(self, name: str) -> bool:
        """Whether an output that is not the column has its name."""
        return self.outputs.get(name, name).strip("`").casefold() != name


class SelectNames:
    """The names of a table's columns, in any case.

    Parameters
    ----------
    schema : pa.Schema
        The columns.
    table : SelectedTable
        The table's own name in the statement.
    """

    def __init__(self, schema: pa.Schema, table: SelectedTable) -> None:
        self._names = list(schema.names)
        self._folded = {name.casefold() for name in schema.names}
        self._table = table

    def expanded(self, item: SelectItem) -> list[SelectItem]:
        """Return the columns of `*` as items of their own, and any other item as it is.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_SQL for the star of another table, PROJSEG_UNKNOWN_COLUMN for one excepted.
        """
        if not item.is_star:
            return [item]
        parts = tuple(part.strip("`") for part in item.text.split(".")) if item.text else ()
        if parts and not self._table.is_named(parts):
            raise bad_sql(f"{item.text}.* names no table of FROM; write *")
        left_out = {name.casefold() for name in item.excepted}
        if unknown := [name for name in item.excepted if name.casefold() not in self._folded]:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_COLUMN",
                f"* EXCEPT names '{unknown[0]}', which is no column"
                f"{did_you_mean(unknown[0], self._names)}",
            )
        return [
            SelectItem(quoted_name(name), name)
            for name in self._names
            if name.casefold() not in left_out
        ]

    def over_columns(self, text: str, aliases: Mapping[str, str]) -> str:
        """Return a text in which aliases that are no columns are replaced by what they stand for.

        Parameters
        ----------
        text : str
            An expression.
        aliases : mapping of str to str
            Expressions over columns by folded alias.
        """

        def meaning(one: Reference) -> str | None:
            if one.parts[0].casefold() in self._folded:
                return None
            return _meaning(text, one, aliases)

        return replaced(text, lambda one: self._unqualified(text, one) or meaning(one))

    def aliases_first(self, text: str, aliases: Mapping[str, str]) -> str:
        """Return a text over columns, in which an alias stands before a column of its name."""
        return replaced(
            text, lambda one: self._unqualified(text, one) or _meaning(text, one, aliases)
        )

    def over_outputs(self, text: str, groups: SelectGroups, *, groups_first: bool) -> str:
        """Return a text of HAVING or ORDER BY, over the outputs and keys of a query.

        Parameters
        ----------
        text : str
            A condition, or a term without its direction.
        groups : SelectGroups
            The outputs and keys.
        groups_first : bool
            Whether a column that is grouped by stands before an output of its name.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_SQL if a column would be taken for the output that has its name.
        """

        def by(one: Reference) -> str | None:
            plain = self._unqualified(text, one)
            if any(name in AGGREGATES or name in _OVER_COLUMNS for name in one.within):
                return plain
            place = len(one.parts) - 1 if plain is not None else 0
            name = one.parts[place].casefold()
            if name in groups.keys and (groups_first or plain is not None):
                fields = text[one.starts[place + 1] - 1 : one.end] if one.parts[place + 1 :] else ""
                return quoted_name(groups.keys[name]) + fields
            is_unclear = plain is not None or (groups_first and one.within and name in groups.parts)
            if is_unclear and groups.hides(name):
                raise bad_sql(
                    f"'{text}' means a column that has the name of another output; give the output "
                    "another alias"
                )
            return plain

        return replaced(text, by)

    def _unqualified(self, text: str, one: Reference) -> str | None:
        """Return a name without the table's, None if it has none."""
        for count in range(len(one.parts) - 1, 0, -1):
            is_column = one.parts[count].casefold() in self._folded
            is_other = one.parts[0].casefold() in self._folded
            if self._table.is_named(one.parts[:count]) and (is_column or not is_other):
                return text[one.starts[count] : one.end]
        return None


def _meaning(text: str, one: Reference, aliases: Mapping[str, str]) -> str | None:
    """Return what an alias stands for, and the fields that are taken of it."""
    output = aliases.get(one.parts[0].casefold())
    if output is None:
        return None
    fields = f".{text[one.starts[1] : one.end]}" if len(one.parts) > 1 else ""
    return f"({output}){fields}"


@lru_cache(maxsize=1024)
def parameters_of_outputs(statement: SelectStatement) -> frozenset[str]:
    """Return the parameters of a statement that are not in its conditions."""
    texts = [item.text for item in statement.items]
    texts += [*(statement.group_by or ()), *statement.order_by]
    return frozenset(name for text in texts for name in parameter_names(text))


def with_arguments(
    query: Query, statement: SelectStatement, arguments: Arguments
) -> tuple[Query, int]:
    """Return the query of a statement with the values of its parameters, and its OFFSET.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_ARGUMENT if one of LIMIT or OFFSET is no count of rows.
    """
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
