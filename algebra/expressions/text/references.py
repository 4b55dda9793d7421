"""Names of columns where they stand in an SQL text, and texts with others in their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from sqlglot import exp

from projseg.algebra.expressions.text.dialect import PREFIX, parse_sql

DIFFERENCES: Final = frozenset(("timestampdiff", "datediff", "date_diff"))
"""Functions of a unit of time and two times."""
_WITH_UNITS: Final = DIFFERENCES | {"timestampadd", "dateadd", "date_add"}


class Reference(msgspec.Struct, frozen=True):
    """A name, most often of a column, in a text.

    Parameters
    ----------
    parts : tuple of str
        The parts of a dotted name, without quotes.
    starts : tuple of int
        Where each part begins in the text.
    end : int
        Where the last one ends.
    within : tuple of str
        The functions around it, folded; `filter` for the condition of FILTER.
    """

    parts: tuple[str, ...]
    starts: tuple[int, ...]
    end: int
    within: tuple[str, ...]


def references(text: str) -> list[Reference]:
    """Return the names in one SQL expression, in the order of the text.

    Raises
    ------
    InvalidInputError, LimitExceededError
        As `parse_sql` does.
    """
    found = [_reference(column) for column in _columns(parse_sql(text))]
    return sorted(found, key=lambda one: one.end)


def replaced(text: str, by: Callable[[Reference], str | None]) -> str:
    """Return a text in which names are replaced; those for which `by` returns None stay.

    Raises
    ------
    InvalidInputError, LimitExceededError
        As `parse_sql` does.
    """
    parts, done = [], 0
    for one in references(text):
        instead = by(one)
        if instead is not None:
            parts += [text[done : one.starts[0]], instead]
            done = one.end
    return "".join([*parts, text[done:]])


def _columns(tree: exp.Expression) -> Iterator[exp.Column]:
    for column in tree.find_all(exp.Column):
        if not _is_unit(column) and not isinstance(column.this, exp.Star):
            yield column


def _is_unit(column: exp.Column) -> bool:
    """Whether a name is a unit of time, as in `extract(day FROM time)`."""
    parent = column.parent
    if isinstance(parent, exp.Extract):
        return parent.this is column
    if isinstance(parent, exp.Anonymous) and str(parent.this).casefold() in _WITH_UNITS:
        return len(parent.expressions) == 3 and parent.expressions[0] is column
    return False


def _reference(column: exp.Column) -> Reference:
    parts = column.parts
    return Reference(
        parts=tuple(part.name for part in parts),
        starts=tuple(part.meta["start"] - len(PREFIX) for part in parts),
        end=parts[-1].meta["end"] + 1 - len(PREFIX),
        within=tuple(_functions_around(column)),
    )


def _functions_around(tree: exp.Expression) -> Iterator[str]:
    around = tree.parent
    while around is not None:
        if isinstance(around, exp.Anonymous):
            yield str(around.this).casefold()
        elif isinstance(around, exp.Func | exp.Filter) and not isinstance(around, exp.Connector):
            yield str(around.key)
        around = around.parent
