"""count(*), count(x, ...), bit_and(x), bit_or(x), bit_xor(x) and sum(x).

Sums are exact for integers and decimals, and in double precision for floats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.aggregation.final_values import check_fits, exact_to_arrow
from projseg.aggregation.state import Groups, NumbersReader, both_valid, rows_at, valid_rows
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.aggregates.result_types import sum_type
from projseg.kernels.fold_count import (
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    add_counts,
    bits_into,
    count_into,
)
from projseg.kernels.fold_extremum import INT64_MAX
from projseg.kernels.fold_sum import HALVES_ROWS_MAX, carry_halves, sum_halves_into, sum_into
from projseg.kernels.fold_wide import LIMB_BITS, LIMB_ROWS_MAX, LIMBS, sum_wide_into
from projseg.kernels.sorting import as_doubles
from projseg.memory.memory_pool import zeros
from projseg.segment_format.arrow_arrays import WIDE, halves
from projseg.segment_format.vectors import Numbers, Vector

_OPERATIONS: Final = {"bit_and": BIT_AND, "bit_or": BIT_OR, "bit_xor": BIT_XOR}
_HIGH_BOUND_MAX: Final = 1 << 62


class CountState:
    """A 64-bit count for each group."""

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        del primitive
        self._group_count = group_count
        self._counts: NDArray[np.int64] | None = None
        self._is_shared = False
        self._reader = NumbersReader()

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Count the rows where every input holds a value; without inputs, all rows."""
        validity = None
        for vector in inputs:
            validity = both_valid(validity, valid_rows(vector))
        if validity is not None:
            count_into(self._own(), groups.ids, len(validity), validity)
        elif self._counts is None:
            self._counts, self._is_shared = groups.row_counts, True
        else:
            counts = self._own()
            counts += groups.row_counts

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Add counts to counts."""
        stored = self._reader.read(columns["count"])
        counts = self._own()
        if groups.ids is None:
            counts[0] += int(stored.values.sum(dtype=np.int64)) + stored.base * len(stored)
        else:
            add_counts(counts, groups.ids, stored.values, stored.base)

    def columns(self) -> dict[str, Vector]:
        """Return the counts."""
        counts = np.zeros(self._group_count, np.int64) if self._counts is None else self._counts
        return {"count": Numbers(counts, pa.int64())}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the counts; 0 of no rows."""
        return rows_at(self.columns()["count"], selection).to_arrow()

    def _own(self) -> NDArray[np.int64]:
        """Return the counts as an array that may be changed."""
        if self._counts is None:
            self._counts = zeros(self._group_count, np.int64)
        elif self._is_shared:
            self._counts = self._counts.copy()
        self._is_shared = False
        return self._counts


class BitsState:
    """The combined bits of each group, sign-extended to 64."""

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._type = primitive.arguments[0].type
        self._operation = _OPERATIONS[primitive.function]
        self._bits = np.full(group_count, -1 if self._operation == BIT_AND else 0, np.int64)
        self._seen = np.zeros(group_count, np.bool_)
        self._reader = NumbersReader()

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Combine values; nulls do not count."""
        numbers = self._reader.read(inputs[0])
        bits_into(
            self._bits, self._seen, groups.ids, numbers.wide(), self._operation, numbers.validity
        )

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Combine combined bits."""
        self.add(groups, (columns["bits"],))

    def columns(self) -> dict[str, Vector]:
        """Return the bits, null where there was no value."""
        validity = None if self._seen.all() else self._seen
        return {"bits": Numbers(np.where(self._seen, self._bits, 0), self._type, 0, validity)}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the bits; null of no value."""
        return rows_at(self.columns()["bits"], selection).to_arrow()


class SumState:
    """A sum and a number of values for each group.

    A sum of integers is `extra + high * 2**32 + totals[:, 0]`. Only `totals` is used while bounds
    on what was added prove that it fits int64; `high` is added when they do not. `extra` holds
    Python integers, for sums that `high` might not hold. Integers of 128 bits are added to `limbs`,
    which come to `extra` at the end.
    """

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._primitive = primitive
        self._fields = dict(primitive.fields)
        self._is_float = self._fields["sum"] == pa.float64()
        number = np.float64 if self._is_float else np.int64
        self._totals: NDArray[Any] = zeros(2 * group_count, number).reshape(group_count, 2)
        self._low_bound = 0
        self._high: NDArray[np.int64] | None = None
        self._high_bound = 0
        self._extra: NDArray[Any] | None = None
        self._limbs: NDArray[np.int64] | None = None
        self._limb_rows = 0
        self._reader = NumbersReader()

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Add values."""
        numbers = self._reader.read(inputs[0])
        if self._is_float:
            values = as_doubles(numbers.values)
            is_few = groups.ids is not None and groups.ids.dtype == np.uint8
            row_counts = groups.row_counts if is_few and numbers.validity is None else None
            sum_into(self._totals, groups.ids, values, 0, numbers.validity, row_counts=row_counts)
        elif numbers.values.dtype == object:
            self._add_objects(groups, numbers)
        elif numbers.values.dtype == WIDE:
            self._add_wide(groups, numbers)
        else:
            self._add_exact(groups, numbers)

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Add sums to sums."""
        self.add(groups, (columns["sum"],))

    def columns(self) -> dict[str, Vector]:
        """Return the sums, null where there was no value."""
        return {"sum": self._column()}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the sums; null of no value. EvaluationError says that one does not fit."""
        return self._finished(selection, or_null=False)

    def tried(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the sums; null of no value, and where a sum does not fit the result type."""
        return self._finished(selection, or_null=True)

    def numbers(self, selection: NDArray[Any] | None = None) -> Numbers:
        """Return the sums of `finish` as numbers; raise its errors."""
        sums = self._column(selection)
        final = sum_type(self._primitive.arguments[0].type)
        check_fits(sums.values, final, self._primitive.text)
        return replace(sums, type=final)

    def _finished(self, selection: NDArray[Any] | None, *, or_null: bool) -> pa.Array:
        sums = self._column(selection)
        final = sum_type(self._primitive.arguments[0].type)
        text = self._primitive.text
        return exact_to_arrow(sums.values, final, sums.validity, text, or_null=or_null)

    def _column(self, selection: NDArray[Any] | None = None) -> Numbers:
        counts = self._totals[:, 1]
        has_value = (counts if selection is None else counts[selection]) > 0
        validity = None if has_value.all() else has_value
        return Numbers(self._sums(selection), self._fields["sum"], 0, validity)

    def _add_exact(self, groups: Groups, numbers: Numbers) -> None:
        low, high = numbers.limits()
        # A null row holds 0, which reads as the base and may lie outside `limits`.
        bound = max(abs(low), abs(high), abs(numbers.base)) * len(numbers)
        if self._low_bound + bound <= INT64_MAX:
            values, base = numbers.values, numbers.base
            sum_into(self._totals, groups.ids, values, base, numbers.validity, largest=high - base)
            self._low_bound += bound
            return
        values = numbers.wide()
        if numbers.validity is not None and numbers.base:
            values = np.where(numbers.validity, values, 0)
        self._add_halves(groups, values, numbers.validity, bound)

    def _add_halves(
        self,
        groups: Groups,
        values: NDArray[np.int64],
        validity: NDArray[np.bool_] | None,
        bound: int,
    ) -> None:
        high_bound = self._high_bound + ((self._low_bound + bound) >> 32) + len(values) + 2
        if self._high is None:
            self._high = np.zeros(len(self._totals), np.int64)
        elif high_bound > _HIGH_BOUND_MAX:
            self._extra = self._extras() + self._high.astype(object) * (1 << 32)
            self._high[:] = 0
            high_bound -= self._high_bound
        for start in range(0, len(values), HALVES_ROWS_MAX):
            rows = slice(start, start + HALVES_ROWS_MAX)
            ids = None if groups.ids is None else groups.ids[rows]
            part = None if validity is None else validity[rows]
            sum_halves_into(self._high, self._totals, ids, values[rows], part)
        self._high_bound, self._low_bound = high_bound, 1 << 32

    def _add_wide(self, groups: Groups, numbers: Numbers) -> None:
        if self._limbs is None:
            self._limbs = zeros(LIMBS * len(self._totals), np.int64).reshape(-1, LIMBS)
        for start in range(0, len(numbers), LIMB_ROWS_MAX):
            part = numbers.slice(start, start + LIMB_ROWS_MAX)
            if self._limb_rows + len(part) > LIMB_ROWS_MAX:
                self._empty_limbs()
            ids = None if groups.ids is None else groups.ids[start : start + LIMB_ROWS_MAX]
            pairs = halves(part.in_halves())
            sum_wide_into(self._limbs, self._totals[:, 1], ids, pairs, part.validity)
            self._limb_rows += len(part)

    def _empty_limbs(self) -> None:
        """Move what the limbs hold to `extra`."""
        if self._limbs is None or self._limb_rows == 0:
            return
        self._extra = self._extras()
        for place in range(LIMBS):
            self._extra += self._limbs[:, place].astype(object) * (1 << LIMB_BITS * place)
        self._limbs[:] = 0
        self._limb_rows = 0

    def _add_objects(self, groups: Groups, numbers: Numbers) -> None:
        ids = np.zeros(len(numbers), np.uint8) if groups.ids is None else groups.ids
        values = numbers.values
        if numbers.validity is not None:
            ids, values = ids[numbers.validity], values[numbers.validity]
        self._totals[:, 1] += np.bincount(ids, minlength=len(self._totals))
        self._extra = self._extras()
        np.add.at(self._extra, ids, values + numbers.base)

    def _extras(self) -> NDArray[Any]:
        if self._extra is None:
            self._extra = np.zeros(len(self._totals), object)
        return self._extra

    def _sums(self, selection: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return sums: float64 for floating inputs.

        For integers, int64 if all sums fit, otherwise Python integers.
        """
        self._empty_limbs()
        totals = self._totals[:, 0]
        if self._high is None and self._extra is None:
            return totals.copy() if selection is None else totals[selection]
        sums = self._wide_sums()
        return sums if selection is None else sums[selection]

    def _wide_sums(self) -> NDArray[Any]:
        low = self._totals[:, 0]
        if self._high is not None:
            carry_halves(self._high, self._totals)
            if self._extra is None and not ((self._high + (1 << 31)) >> 32).any():
                return np.asarray(low + (self._high << 32))
        wide = low.astype(object)
        if self._high is not None:
            wide += self._high.astype(object) * (1 << 32)
        if self._extra is not None:
            wide += self._extra
        fits = len(wide) == 0 or (wide.min() >= -INT64_MAX - 1 and wide.max() <= INT64_MAX)
        return wide.astype(np.int64) if fits else wide
