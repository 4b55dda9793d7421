"""The parameters of a SELECT: those on which its outputs depend, and the values of all."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from projseg.algebra.expressions.parameters.arguments import Arguments, bad_arguments
from projseg.algebra.expressions.parameters.sql_parameters import parameter_names
from projseg.algebra.expressions.tree import Literal
from projseg.algebra.query.request import Query, texts_of
from projseg.algebra.query.select_statement import SelectStatement


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
