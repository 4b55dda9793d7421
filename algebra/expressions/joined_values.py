"""`join_value` and `join_found`: what the matching row of another table holds, if there is one.

A join of which at most one row matches is a function of the compared values, so it is a node of
expressions like any other. The other table is read at one version, which the node names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.functions.datum import as_array
from projseg.algebra.expressions.functions.scalar_function import (
    NoBlocks,
    Nulls,
    ScalarFunction,
    Writer,
    never,
    unordered,
)
from projseg.algebra.expressions.sql_words import quoted_text
from projseg.algebra.expressions.tree import Call, Expression
from projseg.segment_format.arrow_arrays import primitive_array

JOIN_FUNCTIONS: Final = frozenset(("join_value", "join_found", "join_position"))


class LookedUpRows(Protocol):
    """The rows of a dimension, as lookups need them."""

    @property
    def row_count(self) -> int:
        """How many rows there are; this as a position means that no row matches."""

    def column(self, name: str) -> pa.Array:
        """Return a column by its stored name."""

    def positions(self, path: JoinPath, keys: Sequence[pa.Array]) -> NDArray[np.int32]:
        """Return the position of the row that matches each tuple of keys, int32[n]."""


class Dimension(Protocol):
    """A table at one version; equal ones have the same rows."""

    @property
    def table_id(self) -> str:
        """The table's id."""

    def rows(self) -> LookedUpRows:
        """Return the rows, which are read once for each content and kept."""


class JoinPath(msgspec.Struct, frozen=True):
    """How one gets from values to a row of a dimension, a table at one version, by stored columns.

    Its content is part of a path's identity, and so of all that is cached by expression. Rows for
    which the condition is not true match nothing.
    """

    dimension: Any  # a Dimension; structs check no protocols
    keys: tuple[Expression, ...]
    names: tuple[str, ...]
    condition: Expression | None = None
    condition_text: str | None = None


def join_value(
    path: JoinPath, arguments: tuple[Expression, ...], name: str, type_: pa.DataType
) -> Call:
    """Return the node of a column, by its stored name, in the row that matches the arguments."""
    return Call(type_, "join_value", arguments, (path, name))


def join_found(path: JoinPath, arguments: tuple[Expression, ...]) -> Call:
    """Return the node that says whether a row matches the arguments; it is never null."""
    return Call(pa.bool_(), "join_found", arguments, (path,))


def reads_tables(expression: Expression) -> bool:
    """Whether computing an expression reads another table, so that planning may not do it."""
    return any(
        isinstance(node, Call) and node.function in JOIN_FUNCTIONS for node in expression.walk()
    )


def path_of(call: Call) -> JoinPath:
    """Return the path of a node of `JOIN_FUNCTIONS`."""
    path = call.parameters[0]
    assert isinstance(path, JoinPath)
    return path


def _positions(call: Call, data: Sequence[Any], row_count: int) -> NDArray[np.int32]:
    path = path_of(call)
    keys = [as_array(datum, row_count) for datum in data]
    rows: LookedUpRows = path.dimension.rows()
    return rows.positions(path, keys)


def _evaluate_value(call: Call, data: Sequence[Any], row_count: int) -> pa.Array:
    rows: LookedUpRows = path_of(call).dimension.rows()
    positions = _positions(call, data, row_count)
    column = rows.column(str(call.parameters[1]))
    return column.take(primitive_array(positions, positions < rows.row_count))


def _evaluate_found(call: Call, data: Sequence[Any], row_count: int) -> pa.Array:
    rows: LookedUpRows = path_of(call).dimension.rows()
    return pa.array(_positions(call, data, row_count) < rows.row_count)


def _evaluate_position(call: Call, data: Sequence[Any], row_count: int) -> pa.Array:
    return pa.array(_positions(call, data, row_count))


def _text(call: Call, write: Writer) -> str:
    """Return `name('table_id', 'key', ..., 'column', argument, ...)`, a condition last.

    The version is no part of it: a text outlives the versions of its tables.
    """
    path = path_of(call)
    words = (path.dimension.table_id, *path.names, *map(str, call.parameters[1:]))
    condition = () if path.condition_text is None else (path.condition_text,)
    parts = [*map(quoted_text, words), *map(write, call.arguments), *map(quoted_text, condition)]
    return f"{call.function}({', '.join(parts)})"


FUNCTIONS: Final = {
    name: ScalarFunction(
        evaluate=evaluate,
        in_blocks=NoBlocks.DIMENSION,
        nulls=nulls,
        null_only_from_null=never,
        may_fail=never,
        order=unordered,
        text=_text,
    )
    for name, evaluate, nulls in (
        ("join_value", _evaluate_value, Nulls.FROM_ANY),
        ("join_found", _evaluate_found, Nulls.NEVER),
        ("join_position", _evaluate_position, Nulls.NEVER),
    )
}
"""From the function of a node to its record; SQL has no function of these names."""
