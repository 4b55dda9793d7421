"""The rows of a dimension: its columns, its rows by key, and expressions over it, each made once.

They are shared by threads and hold no lock: two threads may make the same thing, and one is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.joined_values import JoinPath
from projseg.algebra.expressions.tree import Expression
from projseg.evaluation.arrow_vectors import grouping_vector
from projseg.memory.memory_pool import empty
from projseg.segment_format.arrow_arrays import filled_values, primitive_array
from projseg.segment_format.logical_types import arrow_to_numbers, is_fixed_width
from projseg.segment_format.vectors import Vector, held_bytes

FOUND: Final = "\0found"
"""The column of an expression over a dimension's rows that says whether there is a row."""
POSITION: Final = "\0position"
"""The column with the position of the row."""

Read: TypeAlias = Callable[[Sequence[str]], Sequence[pa.Array]]
"""From stored names to whole columns, whose rows come in one order."""

_DENSE_SHARE: Final = 8
_DENSE_FREE: Final = 1 << 16
"""A table by value may have so many slots for each key, and so many beside."""


class DimensionRows:
    """All rows of a table at one version; each column is read once.

    `grown` is called with the bytes held when more is kept.
    """

    def __init__(
        self, row_count: int, read: Read, grown: Callable[[int], None] | None = None
    ) -> None:
        self.row_count = row_count
        self._read = read
        self._grown = grown
        self._columns: dict[str, pa.Array] = {}
        self._keys: dict[object, RowsByKey] = {}
        self._values: dict[Expression, Vector] = {}
        self._truths: dict[tuple[object, ...], bool] = {}

    @property
    def byte_count(self) -> int:
        """The bytes of what is kept."""
        columns = sum(array.nbytes for array in list(self._columns.values()))
        keys = sum(found.byte_count for found in list(self._keys.values()))
        values = sum(map(held_bytes, list(self._values.values())))
        return int(columns + keys + values)

    def read_columns(self, names: Sequence[str]) -> None:
        """Read those of the columns that are not here yet, together."""
        missing = [name for name in dict.fromkeys(names) if name not in self._columns]
        if missing:
            self._columns.update(zip(missing, self._read(missing), strict=True))
            self._count()

    def column(self, name: str) -> pa.Array:
        """Return a column by its stored name."""
        self.read_columns([name])
        return self._columns[name]

    def computed(self, expression: Expression) -> pa.Array:
        """Return the value of an expression over stored columns in each row."""
        names = sorted(expression.columns)
        self.read_columns(names)
        columns = {name: self._columns[name] for name in names}
        return evaluate(expression, columns, self.row_count)

    def by_key(self, path: JoinPath) -> RowsByKey:
        """Return the rows by the keys of a path."""
        known = (path.keys, path.condition)
        found = self._keys.get(known)
        if found is None:
            rows = None
            if path.condition is not None:
                rows = np.flatnonzero(filled_values(self.computed(path.condition), False))
            keys = [self.computed(key) for key in path.keys]
            found = self._keys[known] = RowsByKey(keys, self.row_count, rows)
            self._count()
        return found

    def positions(self, path: JoinPath, keys: Sequence[pa.Array]) -> NDArray[np.int32]:
        """Return the position of the row that matches each tuple of keys, int32[n].

        Where none does it is `row_count`; where several do, one of them.
        """
        return self.by_key(path).positions(keys)

    def values(self, expression: Expression) -> Vector:
        """Return the value in each row, and then where there is no row, of an expression.

        It is over stored columns, FOUND and POSITION. Raises EvaluationError if it does for some
        row, which perhaps nothing matches.
        """
        found = self._values.get(expression)
        if found is None:
            names = [n for n in sorted(expression.columns) if n not in (FOUND, POSITION)]
            self.read_columns(names)
            columns: dict[str, pa.Array] = {
                name: pa.concat_arrays([one, pa.nulls(1, one.type)])
                for name in names
                for one in [self._columns[name]]
            }
            numbers = np.arange(self.row_count + 1, dtype=np.int32)
            columns[POSITION] = pa.array(numbers)
            columns[FOUND] = pa.array(numbers < self.row_count)
            value = evaluate(expression, columns, self.row_count + 1)
            found = self._values[expression] = grouping_vector(value)
            self._count()
        return found

    def is_true_of_some(self, path: JoinPath, condition: Expression) -> bool:
        """Whether a condition is true of a row that a path may reach, or where there is none.

        It is over the columns of `values`, and raises what that does.
        """
        known = (condition, path.keys, path.condition)
        found = self._truths.get(known)
        if found is None:
            is_true = filled_values(self.values(condition).to_arrow(), False)
            met = is_true[-1:] if self.by_key(path).is_empty else is_true
            found = self._truths[known] = bool(met.any())
        return found

    def _count(self) -> None:
        if self._grown is not None:
            self._grown(self.byte_count)


class RowsByKey:
    """The rows of a table, or some of them, by the values of their keys; a null matches nothing."""

    def __init__(
        self, keys: Sequence[pa.Array], row_count: int, rows: NDArray[np.intp] | None = None
    ) -> None:
        self._row_count = row_count
        valid = np.ones(row_count, np.bool_)
        for key in keys:
            if key.null_count:
                valid &= filled_values(key.is_valid(), False)
        if rows is not None:
            among = np.zeros(row_count, np.bool_)
            among[rows] = True
            valid &= among
        kept = np.flatnonzero(valid)
        if len(kept) < row_count:
            keys = [key.take(primitive_array(kept)) for key in keys]
        self._coders = [_coder_of(key, alone=len(keys) == 1) for key in keys]
        codes = [coder.codes(key)[0] for coder, key in zip(self._coders, keys, strict=True)]
        self._pairs: list[NDArray[np.int64]] = []
        for coder, part in zip(self._coders[1:], codes[1:], strict=True):
            together = codes[0] * len(coder) + part
            self._pairs.append(np.unique(together))
            codes[0] = np.searchsorted(self._pairs[-1], together)
        self._table = _Table.of(codes[0], kept.astype(np.int32), row_count)

    @property
    def byte_count(self) -> int:
        """The bytes of what is kept."""
        pairs = sum(one.nbytes for one in self._pairs)
        return self._table.byte_count + pairs + sum(one.byte_count for one in self._coders)

    @property
    def is_empty(self) -> bool:
        """Whether no row has a key, so that nothing matches."""
        return not len(self._table.rows)

    @property
    def repeated(self) -> tuple[int, int] | None:
        """Two rows with the same key; None if each key is of one row."""
        return self._table.repeated

    def positions(self, keys: Sequence[pa.Array]) -> NDArray[np.int32]:
        """Return the row of each tuple of keys, int32[n]; `row_count` where there is none."""
        found = [coder.codes(key) for coder, key in zip(self._coders, keys, strict=True)]
        codes, known = found[0]
        for (part, is_known), coder, pairs in zip(
            found[1:], self._coders[1:], self._pairs, strict=True
        ):
            known = _both(known, is_known)
            together = codes * len(coder) + part
            codes, is_there = _sought(pairs, together)
            known = _both(known, is_there)
        positions = self._table.positions(codes)
        if known is not None:
            positions[~known] = self._row_count
        return positions


Known: TypeAlias = NDArray[np.bool_] | None
"""Where a value has a code; None means everywhere."""


class _Numbers(msgspec.Struct, frozen=True):
    """Numbers are their own codes, or their places among the distinct ones."""

    distinct: NDArray[np.int64] | None

    def __len__(self) -> int:
        return 0 if self.distinct is None else len(self.distinct)

    @property
    def byte_count(self) -> int:
        return 0 if self.distinct is None else self.distinct.nbytes

    def codes(self, array: pa.Array) -> tuple[NDArray[np.int64], Known]:
        values, validity = arrow_to_numbers(array)
        values = values.astype(np.int64, copy=False)
        if self.distinct is None:
            return values, validity
        places, is_there = _sought(self.distinct, values)
        return places, _both(validity, is_there)


class _Values(msgspec.Struct, frozen=True):
    """Values of other types have their places among the distinct ones as codes."""

    distinct: pa.Array

    def __len__(self) -> int:
        return len(self.distinct)

    @property
    def byte_count(self) -> int:
        return int(self.distinct.nbytes)

    def codes(self, array: pa.Array) -> tuple[NDArray[np.int64], Known]:
        places = pc.index_in(array, value_set=self.distinct)
        filled = filled_values(places, 0).astype(np.int64)
        is_there = filled_values(places.is_valid(), False) if places.null_count else None
        return filled, is_there


def _coder_of(key: pa.Array, *, alone: bool) -> _Numbers | _Values:
    is_number = is_fixed_width(key.type) and not pa.types.is_decimal(key.type)
    if not is_number:
        return _Values(pc.unique(key))
    if alone:
        return _Numbers(None)
    return _Numbers(np.unique(arrow_to_numbers(key)[0].astype(np.int64, copy=False)))


class _Table(msgspec.Struct, frozen=True):
    """Rows by one number: by the number itself from `low` on, or in order of the `numbers`.

    A row of `row_count` stands for no row; `repeated` has two rows with one number.
    """

    rows: NDArray[np.int32]
    low: int
    numbers: NDArray[np.int64] | None
    row_count: int
    repeated: tuple[int, int] | None

    @staticmethod
    def of(numbers: NDArray[np.int64], rows: NDArray[np.int32], row_count: int) -> _Table:
        """Return the table of rows by their numbers."""
        if not len(numbers):
            return _Table(np.empty(0, np.int32), 0, None, row_count, None)
        low, high = int(numbers.min()), int(numbers.max())
        if high - low < _DENSE_SHARE * len(numbers) + _DENSE_FREE:
            slots = np.full(high - low + 1, row_count, np.int32)
            slots[numbers - low] = rows
            other = np.flatnonzero(slots[numbers - low] != rows)
            repeated = None
            if len(other):
                first = int(other[0])
                repeated = int(rows[first]), int(slots[numbers[first] - low])
            return _Table(slots, low, None, row_count, repeated)
        order = np.argsort(numbers, kind="stable")
        numbers, rows = numbers[order], rows[order]
        same = np.flatnonzero(numbers[1:] == numbers[:-1])
        repeated = (int(rows[same[0]]), int(rows[same[0] + 1])) if len(same) else None
        return _Table(rows, low, numbers, row_count, repeated)

    @property
    def byte_count(self) -> int:
        return self.rows.nbytes + (0 if self.numbers is None else self.numbers.nbytes)

    def positions(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the row of each number, int32[n], which may be written to."""
        found: NDArray[np.int32] = empty(len(numbers), np.int32)
        if not len(self.rows):
            found[:] = self.row_count
            return found
        if self.numbers is not None:
            places, is_there = _sought(self.numbers, numbers)
            np.take(self.rows, places, out=found)
            found[~is_there] = self.row_count
            return found
        # Unsigned, numbers below the first slot lie after the last.
        slots = (numbers - np.int64(self.low)).view(np.uint64)
        outside = slots >= np.uint64(len(self.rows))
        np.take(self.rows, slots.view(np.int64), out=found, mode="clip")
        found[outside] = self.row_count
        return found


def _sought(
    ascending: NDArray[np.int64], values: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the place of each value among ascending ones, any where it is none, and whether."""
    if not len(ascending):
        return np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
    places = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return places, ascending[places] == values


def _both(one: Known, other: Known) -> Known:
    if one is None or other is None:
        return one if other is None else other
    return one & other
