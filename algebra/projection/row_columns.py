"""What the declaration of a projection of rows says: columns, and what rows are sorted by."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NoReturn

import pyarrow as pa

from projseg.algebra.druid.druid_projection import ProjectionTexts
from projseg.algebra.expressions.binding.bind import NamedExpression, bind
from projseg.algebra.expressions.text.sql_words import backquoted
from projseg.algebra.expressions.tree import Column, Expression
from projseg.errors import InvalidInputError
from projseg.segment_format.layout.logical_types import is_nested, type_name

_TERM: Final = re.compile(
    r"^(?P<term>.*?)(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?$",
    re.IGNORECASE | re.DOTALL,
)


def check_texts(owner: str, texts: ProjectionTexts) -> None:
    """Refuse a declaration that is not of rows alone, or lacks columns or order.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_PROJECTION.
    """
    if texts.group_by or texts.aggregators:
        _refuse(
            f"{owner} gives an order of rows, and what to group by or aggregate; groups stand in "
            "the order of the grouping columns: leave columns and order_by out"
        )
    if not texts.columns:
        _refuse(f"{owner} gives an order and no columns; name what to keep of every row")
    if not texts.order_by:
        _refuse(f"{owner} gives columns of rows and no order; say what they are sorted by")


def row_columns(text: str, schema: pa.Schema) -> list[NamedExpression]:
    """Return all columns of a table for `*`, none for any other text."""
    if not isinstance(text, str) or text.strip() != "*":
        return []
    return [NamedExpression(field.name, Column(field.type, field.name)) for field in schema]


def bind_order(text: str, schema: pa.Schema, columns: Iterable[NamedExpression]) -> Expression:
    """Return the column that a term of ORDER BY names: by its alias, else as the same expression.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_PROJECTION if it is none of the columns, has no order, or is to descend; the
        code of a text that cannot be bound.
    """
    parts = _TERM.match(text.strip())
    assert parts is not None, "every part may be empty"
    if (parts["way"] or "asc").lower() != "asc" or (parts["nulls"] or "first").lower() != "first":
        _refuse("rows ascend, with nulls first: leave the direction out")
    term = parts["term"]
    aliases = {
        alias.casefold(): named.expression
        for named in columns
        for alias in (named.name, backquoted(named.name))
    }
    found = aliases.get(term.casefold()) or bind(term, schema)
    if found not in aliases.values():
        _refuse("rows are sorted by what is none of the projection's columns; put it out as well")
    if is_nested(found.type):
        _refuse(f"rows cannot be sorted by a {type_name(found.type)}")
    return found


def _refuse(problem: str) -> NoReturn:
    raise InvalidInputError("PROJSEG_BAD_PROJECTION", problem)
