"""Names of columns in an SQL text, and texts with others in their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
from sqlglot import exp

from projseg.algebra.expressions.text.dialect import parse_sql, sql_of
from projseg.algebra.expressions.text.sql_words import quoted_name

DIFFERENCES: Final = frozenset(("timestampdiff", "datediff", "date_diff"))
"""Functions of a unit of time and two times."""
_WITH_UNITS: Final = DIFFERENCES | {"timestampadd", "dateadd", "date_add"}


class Reference(msgspec.Struct, frozen=True):
    """A name, most often of a column, in a text.

    Parameters
    ----------
    node : exp.Column
        Where it stands.
    """

    node: exp.Column

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of a dotted name, without quotes."""
        return tuple(part.name for part in self.node.parts)

    @property
    def within(self) -> tuple[str, ...]:
        """The functions around it, folded; `filter` for the condition of FILTER."""
        return tuple(_functions_around(self.node))

    def renamed(self, *names: str, taken: int) -> exp.Expression:
        """Return other names in place of the first parts, with the fields taken of these."""
        own: list[Any] = [
            exp.to_identifier(name, quoted=quoted_name(name) != name) for name in names
        ]
        return _dotted(own + [part.copy() for part in self.node.parts[taken:]])

    def instead(self, text: str) -> exp.Expression:
        """Return an expression in place of the first part, with the fields taken of it."""
        found: exp.Expression = exp.Paren(this=parse_sql(text).copy())
        for part in self.node.parts[1:]:
            found = exp.Dot(this=found, expression=part.copy())
        return found


def _dotted(parts: Sequence[exp.Expression]) -> exp.Expression:
    names = ("catalog", "db", "table", "this")[-len(parts) :]
    found: exp.Expression = exp.Column(**dict(zip(names, parts, strict=False)))
    for part in parts[len(names) :]:
        found = exp.Dot(this=found, expression=part)
    return found


def references(text: str) -> list[Reference]:
    """Return the names in one SQL expression.

    Raises
    ------
    InvalidInputError, LimitExceededError
        As `parse_sql` does.
    """
    return [Reference(column) for column in _columns(parse_sql(text))]


def plain_name(text: str) -> Reference | None:
    """Return the name that an SQL expression is as a whole; None if it is something else."""
    tree = parse_sql(text)
    if not isinstance(tree, exp.Column) or isinstance(tree.this, exp.Star):
        return None
    return Reference(tree)


def replaced(text: str, by: Callable[[Reference], exp.Expression | None]) -> str:
    """Return a text in which names are replaced; those for which `by` returns None stay.

    Raises
    ------
    InvalidInputError, LimitExceededError
        As `parse_sql` does.
    """
    root = exp.Paren(this=parse_sql(text).copy())
    found = [(column, by(Reference(column))) for column in list(_columns(root))]
    for column, instead in found:
        if instead is not None:
            column.replace(instead)
    return text if all(instead is None for _, instead in found) else sql_of(root.this)


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


def _functions_around(tree: exp.Expression) -> Iterator[str]:
    around = tree.parent
    while around is not None:
        if isinstance(around, exp.Anonymous):
            yield str(around.this).casefold()
        elif isinstance(around, exp.Func | exp.Filter) and not isinstance(around, exp.Connector):
            yield str(around.key)
        around = around.parent
