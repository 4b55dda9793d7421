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
from projseg.kernels.fold_deviations import deviations_into
from projseg.kernels.fold_sum import sum_into
from projseg.segment_format.arrow_arrays import primitive_array
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
        values = numbers.wide().astype(np.float64)
        if self._scale != 1.0:
            values /= self._scale
        if numbers.validity is not None and numbers.base:
            values[~numbers.validity] = 0.0
        totals = np.zeros((len(self._counts), 2))
        sum_into(totals, groups.ids, values, 0, numbers.validity)
        counts = totals[:, 1]
        with np.errstate(invalid="ignore", over="ignore"):
            means = totals[:, 0] / np.where(counts > 0, counts, 1)
            squares = np.zeros(len(counts))
            deviations_into(squares, means, groups.ids, values, numbers.validity)
            self._combine(counts, means, squares)

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Add moments to moments."""
        counts, means, squares = (
            self._reader.read(columns[part]).wide().astype(np.float64)
            for part in ("count", "mean", "squares")
        )
        group_count = len(self._counts)
        added = _sums(groups.ids, counts, group_count)
        with np.errstate(invalid="ignore", over="ignore"):
            added_means = _sums(groups.ids, counts * means, group_count) / np.maximum(added, 1)
            row_means = added_means[:1] if groups.ids is None else added_means[groups.ids]
            between = np.where(counts > 0, counts * (means - row_means) ** 2, 0.0)
            added_squares = _sums(groups.ids, squares + between, group_count)
            self._combine(added, added_means, added_squares)

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
        return primitive_array(values, divisors > 0)

    def _combine(self, counts: Floats, means: Floats, squares: Floats) -> None:
        total = self._counts + counts
        share = counts / np.where(total > 0, total, 1)
        delta = np.where(counts > 0, means - self._means, 0.0)
        is_new = self._counts == 0
        between = np.where(is_new, 0.0, delta**2 * self._counts * share)
        self._means = np.where(is_new, means, self._means + delta * share)
        self._squares = self._squares + squares + between
        self._counts = total


def _sums(ids: NDArray[Any] | None, values: Floats, group_count: int) -> Floats:
    totals = np.zeros((group_count, 2))
    sum_into(totals, ids, values)
    return totals[:, 0]
