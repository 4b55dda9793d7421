"""Expressions over joined columns: what reads one path is computed once for each of its rows.

The row of a dimension that matches is found once for each value of a dictionary, or for each row
where the key is a number. All that an expression reads behind one path then depends on that row
alone, also through further joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import count
from typing import Final, NamedTuple

import pyarrow as pa

from projseg.algebra.expressions.joined_values import (
    JOIN_FUNCTIONS,
    JoinPath,
    path_of,
)
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.evaluation.dimension_rows import FOUND, POSITION, DimensionRows

_PARTS_KEPT: Final = 4096
_numbers: Final = count()


class Hop(NamedTuple):
    """A path, and what it is followed from."""

    path: JoinPath
    arguments: tuple[Expression, ...]

    @property
    def position(self) -> Call:
        """The position of the matching row."""
        return Call(pa.int32(), "join_position", self.arguments, (self.path,))


class JoinedPart(NamedTuple):
    """A part of an expression that depends on the row at the end of one hop.

    Parameters
    ----------
    whole : Expression
        The part.
    hop : Hop
        How its row is found.
    over_rows : Expression
        The part over the stored columns of the dimension.
    """

    whole: Expression
    hop: Hop
    over_rows: Expression


@lru_cache(maxsize=_PARTS_KEPT)
def joined_parts(expression: Expression) -> tuple[JoinedPart, ...]:
    """Return the largest parts of an expression that depend on one hop each; none without joins."""
    hop = _hop_of(expression)
    if hop is not None:
        return (JoinedPart(expression, hop, _over_rows(expression, hop)),)
    found = [part for child in expression.children for part in joined_parts(child)]
    return tuple({part.whole: part for part in found}.values())


@lru_cache(maxsize=_PARTS_KEPT)
def column_name(part: Expression) -> str:
    """Return a name for the column of a part, which no other part has in this process."""
    return f"\0joined {next(_numbers)}"


def with_columns(expression: Expression, names: dict[Expression, str]) -> Expression:
    """Return an expression in which parts are columns, by these names."""
    if expression in names:
        return Column(expression.type, names[expression])
    if not isinstance(expression, Call):
        return expression
    return replace(
        expression, arguments=tuple(with_columns(one, names) for one in expression.arguments)
    )


@lru_cache(maxsize=_PARTS_KEPT)
def _hop_of(expression: Expression) -> Hop | None:
    """Return the one hop that an expression depends on; None if it has another value beside."""
    if not isinstance(expression, Call):
        return None
    below = {_hop_of(one) for one in expression.children if one.columns}
    if len(below) == 1 and None not in below:
        return below.pop()
    if expression.function in JOIN_FUNCTIONS:
        return Hop(path_of(expression), expression.arguments)
    return None


def _over_rows(expression: Expression, hop: Hop) -> Expression:
    if not isinstance(expression, Call):
        return expression
    if expression.function in JOIN_FUNCTIONS and hop == (
        path_of(expression),
        expression.arguments,
    ):
        if expression.function == "join_value":
            return Column(expression.type, str(expression.parameters[1]))
        name = FOUND if expression.function == "join_found" else POSITION
        return Column(expression.type, name)
    return replace(
        expression, arguments=tuple(_over_rows(one, hop) for one in expression.arguments)
    )


@contextmanager
def rows_held(joins: Iterable[Call]) -> Iterator[None]:
    """Keep the rows that joins read in memory within the block, read as far as they need them.

    So the threads of a query find them, however small the cache is.

    Parameters
    ----------
    joins : iterable of Call
        `QuerySpec.joins`.
    """
    held: dict[object, DimensionRows] = {}
    for node in joins:
        path = path_of(node)
        if path.dimension not in held:
            held[path.dimension] = path.dimension.rows()
        rows = held[path.dimension]
        names = {name for key in path.keys for name in key.columns}
        names |= path.condition.columns if path.condition is not None else set()
        rows.read_columns(sorted(names.union(map(str, node.parameters[1:]))))
        rows.by_key(path)
    yield
