"""A table's columns by name, a selection of its rows, and the columns joined to them.

The row of a dimension that matches is found once for each value of a dictionary, or for each row
where the key is a number. All that an expression reads behind one path then depends on that row
alone, also through further joins, and is computed once for each of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import count
from typing import Final, NamedTuple, Protocol

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.joined_values import JOIN_FUNCTIONS, JoinPath, path_of
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.evaluation.dimension_rows import FOUND, POSITION, DimensionRows
from projseg.kernels.row_selection import gather
from projseg.segment_format.vectors import Vector

_PARTS_KEPT: Final = 4096
_numbers: Final = count()


class ColumnSource(Protocol):
    """One table's columns: rows just read, a segment's base table, or one of its projections."""

    @property
    def row_count(self) -> int:
        """Number of rows of the table."""

    def vector(self, name: str, *, is_state: bool = False) -> Vector:
        """Return a whole column; `is_state` looks the name up among a projection's states."""

    def vector_of_rows(
        self, name: str, row_ids: NDArray[np.uint32], *, is_state: bool = False
    ) -> Vector:
        """Return a column at `row_ids`, uint32[n] ascending; pages without any are not decoded."""

    def vector_of_range(self, name: str, first: int, end: int, *, is_state: bool = False) -> Vector:
        """Return the rows [first, end) of a column, without decoding pages outside."""


class MemorySource(msgspec.Struct, frozen=True):
    """Columns held as vectors of one length."""

    row_count: int
    vectors: dict[str, Vector]

    def vector(self, name: str, *, is_state: bool = False) -> Vector:
        """Return a whole column."""
        return self.vectors[name]

    def vector_of_rows(
        self, name: str, row_ids: NDArray[np.uint32], *, is_state: bool = False
    ) -> Vector:
        """Return a column at `row_ids`, uint32[n]."""
        return self.vectors[name].take(row_ids)

    def vector_of_range(self, name: str, first: int, end: int, *, is_state: bool = False) -> Vector:
        """Return the rows [first, end) of a column."""
        return self.vectors[name].slice(first, end)


class RowRange(msgspec.Struct, frozen=True):
    """The contiguous selection [start, end)."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


class RowIds(msgspec.Struct, frozen=True):
    """A selection by ascending row ids."""

    ids: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.ids)


Selection = RowRange | RowIds


def selection_of(row_ids: NDArray[np.uint32]) -> Selection:
    """Return the selection of some rows, uint32[n] ascending: a range where none lies between."""
    if len(row_ids) and int(row_ids[-1]) - int(row_ids[0]) == len(row_ids) - 1:
        return RowRange(int(row_ids[0]), int(row_ids[-1]) + 1)
    return RowIds(row_ids)


class Rows(msgspec.Struct, frozen=True):
    """The selected rows of a source, ascending; each column is fetched once."""

    source: ColumnSource
    selection: Selection
    # The rows that this is a subset of, and the positions in them.
    _origin: tuple[Rows, NDArray[np.uint32]] | None = None
    fetched: dict[tuple[str, bool], Vector] = msgspec.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.selection)

    def vector(self, name: str, *, is_state: bool = False) -> Vector:
        """Return a column of the selected rows."""
        if (vector := self.fetched.get((name, is_state))) is None:
            vector = self.fetched[name, is_state] = self._fetch(name, is_state)
        return vector

    def _fetch(self, name: str, is_state: bool) -> Vector:
        if (found := self.within(name, is_state)) is not None:
            rows, positions = found
            return rows.fetched[name, is_state].take(positions)
        if isinstance(self.selection, RowIds):
            return self.source.vector_of_rows(name, self.selection.ids, is_state=is_state)
        if len(self.selection) == self.source.row_count:
            return self.source.vector(name, is_state=is_state)
        start, end = self.selection.start, self.selection.end
        return self.source.vector_of_range(name, start, end, is_state=is_state)

    def within(self, name: str, is_state: bool) -> tuple[Rows, NDArray[np.uint32]] | None:
        """Return the nearest rows that have a column and that these are among, and where."""
        if self._origin is None:
            return None
        rows, positions = self._origin
        if (name, is_state) in rows.fetched:
            return self._origin
        if (found := rows.within(name, is_state)) is None:
            return None
        return found[0], gather(found[1], positions)

    def has_computed(self, name: str) -> bool:
        """Whether a computed column is kept, by these rows or by those that they are among."""
        return (name, False) in self.fetched or self.within(name, False) is not None

    def keep(self, name: str, vector: Vector) -> None:
        """Keep a column that was computed, under a name that the source does not have."""
        self.fetched[name, False] = vector

    def where(self, mask: NDArray[np.bool_], kept: int | None = None) -> Rows:
        """Return the rows where `mask`, bool[n], is true: `kept` of them, if that is known."""
        kept = int(np.count_nonzero(mask)) if kept is None else kept
        if kept == len(mask):
            return self
        first = int(mask.argmax())
        if mask[first : first + kept].all():
            return self.slice(first, first + kept)
        (positions,) = mask.nonzero()
        return self.subset(positions.astype(np.uint32))

    def slice(self, first: int, end: int) -> Rows:
        """Return the rows [first, end) of this selection; nothing is copied."""
        selection: Selection
        if isinstance(self.selection, RowIds):
            selection = RowIds(self.selection.ids[first:end])
        else:
            selection = RowRange(self.selection.start + first, self.selection.start + end)
        fetched = {key: vector.slice(first, end) for key, vector in self.fetched.items()}
        return Rows(self.source, selection, None, fetched)

    def subset(self, positions: NDArray[np.uint32]) -> Rows:
        """Return the rows at `positions`, uint32[m] ascending, within this selection."""
        if isinstance(self.selection, RowIds):
            ids = gather(self.selection.ids, positions)
        else:
            ids = positions + np.uint32(self.selection.start)
        return Rows(self.source, RowIds(ids), (self, positions))


class MaskedRows(msgspec.Struct, frozen=True):
    """Rows, and a mask that is true for those that count; None if all of them count.

    While most rows count, folding all of them and dropping one group costs less than fetching the
    rows that count from every column.
    """

    rows: Rows
    mask: NDArray[np.bool_] | None = None

    def compact(self) -> Rows:
        """Return the rows that count."""
        return self.rows if self.mask is None else self.rows.where(self.mask)


def all_rows(source: ColumnSource) -> Rows:
    """Select every row."""
    return Rows(source, RowRange(0, source.row_count))


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

    `over_rows` is the part over the stored columns of the dimension.
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
    is_join = expression.function in JOIN_FUNCTIONS
    if is_join and hop == (path_of(expression), expression.arguments):
        if expression.function == "join_value":
            return Column(expression.type, str(expression.parameters[1]))
        name = FOUND if expression.function == "join_found" else POSITION
        return Column(expression.type, name)
    return replace(
        expression, arguments=tuple(_over_rows(one, hop) for one in expression.arguments)
    )


@contextmanager
def rows_held(joins: Iterable[Call]) -> Iterator[None]:
    """Keep the rows that joins, `QuerySpec.joins`, read in memory within the block.

    So the threads of a query find them, however small the cache is.
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
