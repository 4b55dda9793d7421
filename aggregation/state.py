"""What all states have in common: they fold rows and states into one state for each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.evaluation.arrow_vectors import encode_sorted, numbers_of_array
from projseg.kernels.fold_count import count_into
from projseg.kernels.row_selection import gather
from projseg.memory.forks import cached_property
from projseg.memory.memory_pool import zeros
from projseg.segment_format.arrow_arrays import valid_values
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.vectors import Ids, Numbers, Opaque, Vector

# The rows that states fold, as kernels read them: numbers, or ids of one dictionary.
#
# A column may come as ids from one segment, as narrow numbers from the next and as an Arrow array
# from an evaluated expression; states see none of that.

_NARROW: Final = (np.uint8, np.uint16, np.uint32)


def valid_rows(vector: Vector) -> NDArray[np.bool_] | None:
    """Return where a vector holds a value, bool[n], or None if everywhere."""
    if isinstance(vector, Numbers):
        return vector.validity
    if isinstance(vector, Ids):
        return vector.ids != 0 if vector.dictionary.has_null else None
    return valid_values(vector.array) if vector.array.null_count else None


def both_valid(
    left: NDArray[np.bool_] | None, right: NDArray[np.bool_] | None
) -> NDArray[np.bool_] | None:
    """Return where both, bool[n] or None, hold a value; None if everywhere."""
    if left is None or right is None:
        return right if left is None else left
    return left & right


class NumbersReader:
    """Reads vectors of one fixed-width type as `Numbers`; keeps the last dictionary's values."""

    def __init__(self) -> None:
        self._dictionary: Dictionary | None = None
        self._table: Numbers | None = None

    def read(self, vector: Vector) -> Numbers:
        """Return the vector's values as numbers; numbers are returned unchanged."""
        if isinstance(vector, Numbers):
            return vector
        if isinstance(vector, Opaque):
            return numbers_of_array(vector.array)
        table = self._table_of(vector.dictionary)
        values = gather(table.values, vector.ids)
        return Numbers(values, table.type, table.base, valid_rows(vector))

    def _table_of(self, dictionary: Dictionary) -> Numbers:
        if self._table is None or self._dictionary is not dictionary:
            self._table = narrowed(numbers_of_array(dictionary.values))
            self._dictionary = dictionary
        return self._table


def narrowed(numbers: Numbers) -> Numbers:
    """Return the same numbers in the fewest bytes a row; nulls hold 0."""
    values = numbers.wide()
    if values.dtype != np.int64 or len(values) == 0:
        return numbers
    valid = values if numbers.validity is None else values[numbers.validity]
    low, high = (int(valid.min()), int(valid.max())) if len(valid) else (0, 0)
    dtype = next((d for d in _NARROW if high - low <= np.iinfo(d).max), None)
    if dtype is None:
        return Numbers(values, numbers.type, 0, numbers.validity)
    offsets = (values - low).astype(dtype)
    if numbers.validity is not None:
        offsets[~numbers.validity] = 0
    return Numbers(offsets, numbers.type, low, numbers.validity)


def ids_of(vector: Vector) -> Ids:
    """Return the vector as ids; if it has no dictionary, one is built, with id 0 for null."""
    if isinstance(vector, Ids):
        return vector
    return encode_sorted(vector.to_arrow(), with_null=True)


def rows_at(vector: Vector, selection: NDArray[Any] | None) -> Vector:
    """Return the rows at `selection`, int[m], or all if it is None."""
    return vector if selection is None else vector.take(selection)


class Groups(msgspec.Struct, frozen=True, dict=True):
    """The group of each row, below `count`; without ids, all rows are of group 0."""

    ids: NDArray[np.unsignedinteger[Any]] | None
    count: int
    row_count: int

    @cached_property
    def row_counts(self) -> NDArray[np.int64]:
        """Number of rows of each group, int64[count]; it is shared, so no caller may change it."""
        counts = zeros(self.count, np.int64)
        count_into(counts, self.ids, self.row_count)
        return counts


class State(Protocol):
    """The states of one primitive for a fixed number of groups, as typed columns.

    Merging a state of no rows changes nothing, and finishing one gives what SQL gives for no rows.
    """

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Fold rows in: one vector for each argument, all as long as the groups' ids."""

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Fold states in, in the form of `columns()`: row i belongs to group `groups.ids[i]`."""

    def columns(self) -> dict[str, Vector]:
        """Return the states as columns of `group count` rows, by part name.

        Those that are stored come first. Others make merging in memory more exact.
        """

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the final values of the groups at `selection`, int[m], or of all if None."""


@runtime_checkable
class WeighedState(State, Protocol):
    """States that fold a row in several times at once."""

    def add_weighted(
        self, groups: Groups, inputs: Sequence[Vector], weights: NDArray[np.int64]
    ) -> None:
        """Fold rows in as `add` does, row i `weights[i]` times."""
