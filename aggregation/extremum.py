"""min(x) and max(x), and the x beside the least or greatest t: min_by(x, t) and max_by(x, t).

Extremes are of numbers as 64-bit keys, of dictionary ids, and of texts by their bytes. For min_by
and max_by rows where t is null do not count; x may be null. Of rows with equal t, min_by takes the
smallest x and max_by the largest, null smallest, so that base rows, projections and merges agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.state import Groups, ids_of, rows_at, valid_rows
from projseg.algebra.aggregates.primitive import Extreme, Primitive
from projseg.evaluation.arrow_vectors import (
    concat_texts,
    concat_vectors,
    merge_values,
    numbers_of_array,
    vector_of_array,
)
from projseg.kernels.fold_extremum import (
    INT64_MAX,
    INT64_MIN,
    extreme_floats,
    extreme_of_floats,
    max_into,
    min_into,
    rows_by_time,
)
from projseg.kernels.fold_wide import extreme_rows
from projseg.kernels.sorting import (
    as_doubles,
    distinct,
    extreme_texts,
    float_of_order_keys,
    float_order_keys,
)
from projseg.segment_format.arrow_arrays import halves, numpy_dtype, primitive_array, text_buffers
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.logical_types import is_text
from projseg.segment_format.vectors import Ids, Numbers, Opaque, Vector

_PARTS_MAX: Final = 16  # how many dictionaries are held before they are merged into one
_INT64_DIGITS: Final = 18
_WAITING_MIN: Final = 1 << 12  # texts that wait before groups' best are compared
_PENDING_ROWS_MIN: Final = 1 << 16


class _Best:
    """The best key of each group so far."""

    def __init__(self, group_count: int, *, is_min: bool) -> None:
        self.is_min = is_min
        self.keys = np.full(group_count, INT64_MAX if is_min else INT64_MIN)
        self.seen = np.zeros(group_count, np.bool_)

    def fold(self, groups: Groups, keys: NDArray[Any], **options: Any) -> None:
        """Fold rows in, with the options of `min_into`."""
        kernel = min_into if self.is_min else max_into
        kernel(self.keys, self.seen, groups.ids, keys, **options)

    def fold_state(self, keys: NDArray[np.integer[Any]], seen: NDArray[np.bool_]) -> None:
        """Fold in the best keys of other rows: int[g], and bool[g] where there is one."""
        better = np.minimum if self.is_min else np.maximum
        self.keys[seen] = better(self.keys[seen], keys[seen])
        self.seen |= seen


class _BestTexts:
    """The best text of each group, of texts without a dictionary."""

    def __init__(self, group_count: int, *, is_min: bool) -> None:
        self._group_count, self._is_min = group_count, is_min
        self._held: list[tuple[NDArray[np.uint32], Opaque]] = []  # groups, and a text of each
        self._waiting_count = 0

    def __bool__(self) -> bool:
        return bool(self._held)

    def fold(self, groups: Groups, texts: Opaque) -> None:
        """Fold rows in; all the groups' best are compared once as many wait."""
        found = self._best_of(groups.ids, texts)
        self._held.append(found)
        self._waiting_count += len(found[0])
        if self._waiting_count >= self._group_count + _WAITING_MIN:
            self._settle()

    def by_group(self) -> Opaque:
        """Return the best text of each group, null where there is none; after a fold."""
        self._settle()
        ((ids, texts),) = self._held
        rows = np.full(self._group_count, -1)
        rows[ids] = np.arange(len(ids))
        return Opaque(texts.array.take(pa.array(rows, mask=rows < 0)))

    def _settle(self) -> None:
        if len(self._held) > 1:
            ids = np.concatenate([ids for ids, _ in self._held])
            texts = Opaque(concat_texts([some.array for _, some in self._held]))
            self._held = [self._best_of(ids, texts)]
        self._waiting_count = 0

    def _best_of(
        self, ids: NDArray[np.unsignedinteger[Any]] | None, texts: Opaque
    ) -> tuple[NDArray[np.uint32], Opaque]:
        """Return the groups that have a text, and the best of each."""
        rows = extreme_texts(
            ids,
            self._group_count,
            *text_buffers(texts.array),
            valid_rows(texts),
            is_min=self._is_min,
        )
        of_groups = np.flatnonzero(rows >= 0).astype(np.uint32)
        return of_groups, texts.take(rows[of_groups])


class ExtremumState:
    """The smallest or largest value of each group.

    Numbers are folded as 64-bit keys. Ids are compared as ids within their dictionary; the best of
    several dictionaries are compared by value, several dictionaries at a time. Texts without a
    dictionary are compared by their bytes, and so are all if there are some of these.
    """

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._type = primitive.arguments[0].type
        self._is_min = primitive.kind.extreme is Extreme.LEAST
        self._group_count = group_count
        self._uses_numbers = has_number_keys(self._type)
        self._numbers = self._no_best()
        self._texts = _BestTexts(group_count, is_min=self._is_min)
        self._parts: list[tuple[Dictionary, _Best]] = []

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Fold values in; nulls do not count."""
        vector = inputs[0]
        if self._uses_numbers and not isinstance(vector, Ids):
            numbers = numbers_of_array(vector.array) if isinstance(vector, Opaque) else vector
            if self._add_floats(groups, numbers):
                return
            keys, base = number_keys(numbers)
            self._numbers.fold(groups, keys, base=base, validity=numbers.validity)
            return
        if isinstance(vector, Opaque) and is_text(self._type):
            self._texts.fold(groups, vector)
            return
        if isinstance(vector, Numbers):
            groups, vector = self._candidates(groups, vector)
        ids = ids_of(vector)
        best = self._part_of(ids.dictionary)
        best.fold(groups, ids.ids, first_key=int(ids.dictionary.has_null))

    def _candidates(self, groups: Groups, numbers: Numbers) -> tuple[Groups, Numbers]:
        """Return a row of each group's best value, and their groups: few rows get a dictionary."""
        pairs, is_min = halves(numbers.in_halves()), self._is_min
        rows = extreme_rows(groups.ids, groups.count, pairs, numbers.validity, is_min=is_min)
        ids = np.flatnonzero(rows >= 0).astype(np.uint32)
        return Groups(ids, groups.count, len(ids)), numbers.take(rows[ids])

    def _add_floats(self, groups: Groups, numbers: Numbers) -> bool:
        """Fold floats in without making order keys; return False where that is not possible."""
        if numbers.values.dtype.kind != "f" or len(numbers) == 0:
            return False
        values, validity = as_doubles(numbers.values), numbers.validity
        if groups.ids is None:
            known = values if validity is None else values[validity]
            best = extreme_of_floats(known, is_min=self._is_min)
            seen = np.full(1, len(known) > 0)
        else:
            best = extreme_floats(
                groups.ids, groups.count, values, is_min=self._is_min, validity=validity
            )
            seen = best != (np.inf if self._is_min else -np.inf)
            if not seen.all():
                seen[groups.ids if validity is None else groups.ids[validity]] = True
        if self._is_min and (seen & (best == np.inf)).any():
            return False  # it stands for infinity or for NaN
        self._numbers.fold_state(float_order_keys(best), seen)
        return True

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Fold extremes in as values."""
        self.add(groups, (columns["value"],))

    def columns(self) -> dict[str, Vector]:
        """Return the extremes, null where there was no value."""
        if self._texts:
            self._parts_into_texts()
            return {"value": self._texts.by_group()}
        self._settle()
        if not self._uses_numbers:
            dictionary, best = self._parts[0]
            ids = np.where(best.seen, best.keys, 0).astype(dictionary.id_dtype)
            return {"value": Ids(ids, dictionary)}
        seen = self._numbers.seen
        values = values_of_keys(np.where(seen, self._numbers.keys, 0), self._type)
        return {"value": Numbers(values, self._type, 0, None if seen.all() else seen)}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the extremes; null of no value."""
        return rows_at(self.columns()["value"], selection).to_arrow()

    def _no_best(self) -> _Best:
        return _Best(self._group_count, is_min=self._is_min)

    def _part_of(self, dictionary: Dictionary) -> _Best:
        for known, best in reversed(self._parts):
            if known is dictionary:
                return best
        if len(self._parts) >= _PARTS_MAX:
            self._settle()
        self._parts.append((dictionary, self._no_best()))
        return self._parts[-1][1]

    def _settle(self) -> None:
        """Merge the parts: into the number keys, or into one dictionary."""
        if self._uses_numbers:
            for dictionary, best in self._parts:
                if not best.seen.any():
                    continue  # the dictionary may have no value
                table = numbers_of_array(dictionary.values)
                keys, _ = number_keys(table)
                self._numbers.fold_state(keys.take(best.keys, mode="clip"), best.seen)
            self._parts.clear()
        elif len(self._parts) != 1 or not self._parts[0][0].has_null:
            self._unite()

    def _parts_into_texts(self) -> None:
        for dictionary, best in self._parts:
            of_groups = np.flatnonzero(best.seen).astype(np.uint32)
            values = dictionary.values.take(primitive_array(best.keys[of_groups]))
            self._texts.fold(Groups(of_groups, self._group_count, len(of_groups)), Opaque(values))
        self._parts.clear()

    def _unite(self) -> None:
        used = [distinct(best.keys[best.seen]) for _, best in self._parts]
        values = [
            dictionary.values.take(primitive_array(ids))
            for (dictionary, _), ids in zip(self._parts, used, strict=True)
        ]
        dictionary, ranks = merge_values([pa.nulls(0, self._type), *values], with_null=True)
        united = self._no_best()
        for (_, best), ids, ids_united in zip(self._parts, used, ranks[1:], strict=True):
            if len(ids):
                positions = np.searchsorted(ids, best.keys)
                united.fold_state(ids_united.take(positions, mode="clip"), best.seen)
        self._parts = [(dictionary, united)]


def has_number_keys(value_type: pa.DataType) -> bool:
    """Whether every value of the type has a 64-bit key of the same order."""
    wide = pa.types.is_decimal(value_type) and value_type.precision > _INT64_DIGITS
    return not (is_text(value_type) or wide)


def number_keys(numbers: Numbers) -> tuple[NDArray[Any], int]:
    """Return (keys, base): integers[n] in the order of the values, narrow if the values are."""
    if numbers.values.dtype.kind == "f":
        return float_order_keys(numbers.values), 0
    if numbers.values.dtype.kind == "b":
        return numbers.values.view(np.uint8), numbers.base
    return numbers.values, numbers.base


def values_of_keys(keys: NDArray[np.int64], value_type: pa.DataType) -> NDArray[Any]:
    """Return the fixed-width values, n of them, of keys, int64[n]."""
    if pa.types.is_floating(value_type):
        return float_of_order_keys(keys).astype(numpy_dtype(value_type))
    return keys


class ByTimeState:
    """The best (value, time) of each group so far.

    Of each batch only the best row of each group is kept, as a candidate. The candidates of several
    batches are compared when there are many of them, and at the end.
    """

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._types = [argument.type for argument in primitive.arguments]
        self._is_last = primitive.kind.takes_latest
        self._group_count = group_count
        self._pending: list[tuple[NDArray[Any], list[Vector]]] = []
        self._is_settled = False

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Fold (value, time) rows in."""
        best_rows = self._best_rows(groups.ids, inputs)
        found = np.flatnonzero(best_rows >= 0)
        rows = best_rows[found]
        self._pending.append((found.astype(np.uint32), [vector.take(rows) for vector in inputs]))
        self._is_settled = False
        if self._pending_rows() > max(4 * self._group_count, _PENDING_ROWS_MIN):
            self._settle()

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Fold (value, time) states in."""
        self.add(groups, (columns["value"], columns["time"]))

    def columns(self) -> dict[str, Vector]:
        """Return values and times; both null where no row counted."""
        self._settle()
        groups, vectors = self._pending[0]
        positions = np.full(self._group_count, -1, np.int64)
        positions[groups] = np.arange(len(groups))
        rows = primitive_array(positions, positions >= 0)
        value, time = (vector_of_array(vector.to_arrow().take(rows)) for vector in vectors)
        return {"value": value, "time": time}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the values; null where no row counted."""
        values = self.columns()["value"].to_arrow()
        return values if selection is None else values.take(primitive_array(selection))

    def _best_rows(self, ids: NDArray[Any] | None, vectors: Sequence[Vector]) -> NDArray[np.int64]:
        values, times = vectors
        keys, validity = _comparable(times)
        if isinstance(values, Opaque) and is_text(values.type):
            return self._rows_of_texts(ids, values, keys, validity)
        return self._rows_by_time(ids, keys, validity, *_comparable(values))

    def _rows_of_texts(
        self,
        ids: NDArray[Any] | None,
        texts: Opaque,
        times: NDArray[np.int64],
        validity: NDArray[np.bool_] | None,
    ) -> NDArray[np.int64]:
        """Compare only the texts that share the best time of their group."""
        best = self._rows_by_time(ids, times, validity, np.zeros(len(texts), np.int64), None)
        of_rows = best if ids is None else best[ids]
        is_best = (of_rows >= 0) & (times == times[of_rows]) if len(times) else np.zeros(0, bool)
        rows = np.flatnonzero(is_best if validity is None else is_best & validity)
        if len(rows) == np.count_nonzero(best >= 0):
            return best
        ids_of_rows = None if ids is None else ids[rows]
        found = self._rows_by_time(ids_of_rows, times[rows], None, *_comparable(texts.take(rows)))
        return np.where(found >= 0, rows[found], -1)

    def _rows_by_time(
        self,
        ids: NDArray[Any] | None,
        times: NDArray[np.int64],
        time_validity: NDArray[np.bool_] | None,
        values: NDArray[np.int64],
        value_validity: NDArray[np.bool_] | None,
    ) -> NDArray[np.int64]:
        return rows_by_time(
            ids,
            self._group_count,
            times,
            values,
            is_last=self._is_last,
            time_validity=time_validity,
            value_validity=value_validity,
        )

    def _pending_rows(self) -> int:
        return sum(len(groups) for groups, _ in self._pending)

    def _settle(self) -> None:
        """Leave one candidate for each group that has any."""
        if self._is_settled:
            return
        groups = np.concatenate([np.zeros(0, np.uint32), *(ids for ids, _ in self._pending)])
        vectors = [
            concat_vectors(
                [batch[index] for _, batch in self._pending]
                or [vector_of_array(pa.nulls(0, value_type))]
            )
            for index, value_type in enumerate(self._types)
        ]
        best_rows = self._best_rows(groups, vectors)
        found = np.flatnonzero(best_rows >= 0)
        rows = best_rows[found]
        self._pending = [(found.astype(np.uint32), [vector.take(rows) for vector in vectors])]
        self._is_settled = True


def _comparable(vector: Vector) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return (keys, validity), int64[n] and bool[n] or None: keys order this one vector's rows."""
    if not isinstance(vector, Ids):
        if has_number_keys(vector.type):
            numbers = numbers_of_array(vector.array) if isinstance(vector, Opaque) else vector
            keys, _ = number_keys(numbers)
            return keys.astype(np.int64, copy=False), numbers.validity
        vector = ids_of(vector)
    return vector.ids.astype(np.int64), valid_rows(vector)
