"""Sums of products of deviations from means: behind correlations, skewness and kurtosis.

A row is a group of one: its means are its values, and its sums are 0. So adding rows and merging
states is one step: the means of a group are found first, and then each part's sums are moved to
them, as Pebay, "Formulas for robust, one-pass parallel computation of covariances and
arbitrary-order statistical moments", 2008, has it. No large powers are subtracted from each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.states.state import Groups, NumbersReader, both_valid
from projseg.algebra.aggregates.primitive import Primitive
from projseg.kernels.folds.fold_sum import sum_into
from projseg.segment_format.vectors.arrow_arrays import primitive_array
from projseg.segment_format.vectors.vectors import Numbers, Vector

Floats = NDArray[np.float64]


class _CentralMoments:
    """Counts, means and sums of each group; what is summed is said by subclasses."""

    parts: ClassVar[tuple[str, ...]]
    mean_count: ClassVar[int]

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        del primitive
        self._columns = [np.zeros(group_count) for _ in self.parts]
        self._reader = NumbersReader()

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Add doubles; rows in which one is null do not count."""
        numbers = [self._reader.read(one) for one in inputs]
        valid = None
        for one in numbers:
            valid = both_valid(valid, one.validity)
        counts = np.ones(groups.row_count) if valid is None else valid.astype(np.float64)
        means = [one.wide().astype(np.float64) for one in numbers]
        if valid is not None:
            means = [np.where(valid, mean, 0.0) for mean in means]
        sums = [np.zeros(groups.row_count)] * (len(self.parts) - 1 - len(means))
        self._join(groups, [counts, *means, *sums])

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Add states to states."""
        read = [self._reader.read(columns[part]).wide() for part in self.parts]
        self._join(groups, [one.astype(np.float64) for one in read])

    def columns(self) -> dict[str, Vector]:
        """Return the counts, means and sums; none is stored."""
        return {
            part: Numbers(column, pa.float64())
            for part, column in zip(self.parts, self._columns, strict=True)
        }

    def _join(self, groups: Groups, rows: Sequence[Floats]) -> None:
        """Join the states, each a row of its own group, with further rows."""
        count = len(self._columns[0])
        own = np.arange(count, dtype=np.uint32)
        others = np.zeros(groups.row_count, np.uint32) if groups.ids is None else groups.ids
        ids = np.concatenate([own, others.astype(np.uint32)])
        counts, *rest = (np.concatenate(pair) for pair in zip(self._columns, rows, strict=True))
        totals = _sums(ids, counts, count)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            shares = counts / np.maximum(totals, 1)[ids]
            means = [_sums(ids, shares * mean, count) for mean in rest[: self.mean_count]]
            apart = [
                np.where(counts > 0, mean - centre[ids], 0.0)
                for mean, centre in zip(rest, means, strict=False)
            ]
            moved = self.moved(counts, apart, rest[self.mean_count :])
            self._columns = [totals, *means, *(_sums(ids, one, count) for one in moved)]

    def moved(
        self, counts: Floats, apart: Sequence[Floats], sums: Sequence[Floats]
    ) -> Sequence[Floats]:
        """Return the sums about centres from which the means are `apart`."""
        raise NotImplementedError

    def _chosen(self, selection: NDArray[Any] | None) -> list[Floats]:
        chosen = slice(None) if selection is None else selection
        return [column[chosen] for column in self._columns]


class ComomentsState(_CentralMoments):
    """Sums of products of two values' deviations, and of their squares."""

    parts = ("count", "left", "right", "products", "left_squares", "right_squares")
    mean_count = 2

    def moved(
        self, counts: Floats, apart: Sequence[Floats], sums: Sequence[Floats]
    ) -> Sequence[Floats]:
        """Return products and squares about other centres."""
        left, right = apart
        products, left_squares, right_squares = sums
        return (
            products + counts * left * right,
            left_squares + counts * left * left,
            right_squares + counts * right * right,
        )

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return covar_pop."""
        return self.covariance(selection, is_sample=False)

    def covariance(self, selection: NDArray[Any] | None, *, is_sample: bool) -> pa.Array:
        """Return covar_pop or covar_samp; null of too few rows."""
        counts, _, _, products, _, _ = self._chosen(selection)
        divisors = counts - 1 if is_sample else counts
        return primitive_array(products / np.where(divisors > 0, divisors, 1), divisors > 0)

    def correlation(self, selection: NDArray[Any] | None) -> pa.Array:
        """Return corr; null of fewer than two rows, or where one value is everywhere the same."""
        counts, _, _, products, left, right = self._chosen(selection)
        divisors = np.sqrt(left * right)
        with np.errstate(invalid="ignore", divide="ignore"):
            return primitive_array(products / divisors, (counts > 1) & (divisors != 0))


class ShapeState(_CentralMoments):
    """Sums of the second, third and fourth powers of deviations."""

    parts = ("count", "mean", "squares", "cubes", "fourths")
    mean_count = 1

    def moved(
        self, counts: Floats, apart: Sequence[Floats], sums: Sequence[Floats]
    ) -> Sequence[Floats]:
        """Return powers about another centre."""
        (by,) = apart
        squares, cubes, fourths = sums
        return (
            squares + counts * by**2,
            cubes + 3 * by * squares + counts * by**3,
            fourths + 4 * by * cubes + 6 * by**2 * squares + counts * by**4,
        )

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the skewness; null where no two values differ."""
        counts, _, squares, cubes, _ = self._chosen(selection)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.sqrt(counts) * cubes / np.sqrt(squares**3)
        return primitive_array(values, (counts > 0) & (squares != 0))

    def kurtosis(self, selection: NDArray[Any] | None) -> pa.Array:
        """Return the excess kurtosis; null where no two values differ."""
        counts, _, squares, _, fourths = self._chosen(selection)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = counts * fourths / squares**2 - 3.0
        return primitive_array(values, (counts > 0) & (squares != 0))


def _sums(ids: NDArray[np.uint32], values: Floats, group_count: int) -> Floats:
    totals = np.zeros((group_count, 2))
    sum_into(totals, ids, values)
    return totals[:, 0]
