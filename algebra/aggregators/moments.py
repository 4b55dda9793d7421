"""The moments behind variance and standard deviation: count, mean, sum of squared deviations.

Merging follows Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
sample variances", 1979: no large squares are subtracted from each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.aggregators.inputs import NumbersReader
from projseg.algebra.aggregators.primitive import Groups, Primitive
from projseg.kernels.fold_sum import sum_into
from projseg.segment_format.vectors import Numbers, Vector

Floats = NDArray[np.float64]


class MomentsState:
    """Count, mean and sum of squared deviations of each group, in double precision."""

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        input_type = primitive.arguments[0].type
        self._scale = 10.0**input_type.scale if pa.types.is_decimal(input_type) else 1.0
        self._counts = np.zeros(group_count)
        self._means = np.zeros(group_count)
        self._squares = np.zeros(group_count)
        self._reader = NumbersReader()

    @staticmethod
    def fields(primitive: Primitive) -> tuple[tuple[str, pa.DataType], ...]:
        """Return the stored columns."""
        del primitive
        return (("count", pa.int64()), ("mean", pa.float64()), ("squares", pa.float64()))

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Add values; nulls do not count."""
        numbers = self._reader.read(inputs[0])
        values = numbers.wide().astype(np.float64) / self._scale
        ones = np.ones(len(values))
        if numbers.validity is not None:
            ones = numbers.validity.astype(np.float64)
            values = np.where(numbers.validity, values, 0.0)
        self._fold(groups.ids, ones, values, np.zeros(0))

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Add moments to moments."""
        counts, means, squares = (
            self._reader.read(columns[part]).wide().astype(np.float64)
            for part in ("count", "mean", "squares")
        )
        self._fold(groups.ids, counts, means, squares)

    def columns(self) -> dict[str, Vector]:
        """Return the moments; 0 where there was no value."""
        return {
            "count": Numbers(self._counts.astype(np.int64), pa.int64()),
            "mean": Numbers(self._means, pa.float64()),
            "squares": Numbers(self._squares, pa.float64()),
        }

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the population variance; null of no value."""
        return self.spread("var_pop", selection)

    def spread(self, function: str, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return var_pop, var_samp, stddev_pop or stddev_samp; null of too few values."""
        chosen = slice(None) if selection is None else selection
        counts, squares = self._counts[chosen], self._squares[chosen]
        divisors = counts - 1 if function.endswith("_samp") else counts
        values = squares / np.where(divisors > 0, divisors, 1)
        if function.startswith("stddev"):
            values = np.sqrt(values)
        return pa.array(values, pa.float64(), mask=divisors <= 0)

    def _fold(
        self, ids: NDArray[Any] | None, counts: Floats, means: Floats, squares: Floats
    ) -> None:
        """Fold moments in: first the means, then the deviations from them."""
        group_count = len(self._counts)
        added = _sums(ids, counts, group_count)
        sums = _sums(ids, counts * means, group_count)
        with np.errstate(invalid="ignore", over="ignore"):
            added_means = sums / np.where(added > 0, added, 1)
            row_means = (
                added_means[0] if ids is None and len(means) else added_means[_or_empty(ids)]
            )
            deviations = counts * (means - row_means) ** 2
            deviations[counts == 0] = 0
            added_squares = _sums(ids, deviations, group_count)
            if len(squares):
                added_squares += _sums(ids, squares, group_count)
            self._combine(added, added_means, added_squares)

    def _combine(self, counts: Floats, means: Floats, squares: Floats) -> None:
        total = self._counts + counts
        share = counts / np.where(total > 0, total, 1)
        delta = np.where(counts > 0, means - self._means, 0.0)
        is_new = self._counts == 0
        between = np.where(is_new, 0.0, delta**2 * self._counts * share)
        self._means = np.where(is_new, means, self._means + delta * share)
        self._squares = self._squares + squares + between
        self._counts = total


def _or_empty(ids: NDArray[Any] | None) -> NDArray[Any]:
    return np.zeros(0, np.uint8) if ids is None else ids


def _sums(ids: NDArray[Any] | None, values: Floats, group_count: int) -> Floats:
    totals = np.zeros((group_count, 2))
    sum_into(totals, ids, values)
    return totals[:, 0]
