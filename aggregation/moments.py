"""Moments: behind variance and deviation, and central ones behind correlation and skewness.

Let u be 2**-53 and k the condition of the values, the root of 1 + (mean / deviation)**2.

- Over base rows, in however many segments and threads, a variance of n values is right to about
  n u, whatever k is: deviations are taken from a centre near the mean, the centre's error is
  corrected afterwards, and a mean is kept as the sum of two doubles.
- A projection stores each mean as one double. Merged from stored states a variance is right to
  about (n + 4 k) u, which is better than the n k u of one pass of running means (Welford's, and
  Spark's), and bad only where k u is not small: at a mean of 1e15 and a deviation of 1.

Merging follows Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
sample variances", 1979: no large squares are subtracted from each other.

Of central moments a row is a group of one: its means are its values, and its sums are 0. So adding
rows and merging states is one step: the means of a group are found first, and then each part's sums
are moved to them, as Pebay, "Formulas for robust, one-pass parallel computation of covariances and
arbitrary-order statistical moments", 2008, has it. No large powers are subtracted from each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.state import Groups, NumbersReader, both_valid
from projseg.algebra.aggregates.primitive import Primitive
from projseg.kernels.fold_sum import deviations_into, sum_into
from projseg.segment_format.arrow_arrays import primitive_array
from projseg.segment_format.vectors import Numbers, Vector

# After so many corrections a centre is as near to the mean as a double can be.
_CENTRINGS_MAX: Final = 2
_SCALE_DOWN: Final = 2.0**-64

_Floats = NDArray[np.float64]


class MomentsState:
    """Count, mean and sum of squared deviations of each group; the module states their accuracy."""

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        input_type = primitive.arguments[0].type
        self._scale = 10.0**input_type.scale if pa.types.is_decimal(input_type) else 1.0
        self._moments = _Moments.of_nothing(group_count)
        self._reader = NumbersReader()

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Add values; nulls do not count."""
        numbers = self._reader.read(inputs[0])
        with np.errstate(invalid="ignore", over="ignore"):
            values = numbers.wide().astype(np.float64)
            if self._scale != 1.0:
                values /= self._scale
            if numbers.validity is not None and numbers.base:
                values[~numbers.validity] = 0.0
            self._moments = self._moments.joined(
                _of_values(groups, values, numbers.validity, len(self._moments.counts))
            )

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Add moments to moments."""
        parts = {part: self._reader.read(vector).wide() for part, vector in columns.items()}
        counts = parts["count"].astype(np.float64)
        means, squares = parts["mean"], parts["squares"]
        rows = _Moments(counts, means, parts.get("rest", np.zeros(len(means))), squares)
        with np.errstate(invalid="ignore", over="ignore"):
            self._moments = self._moments.joined(
                _of_moments(groups, rows, len(self._moments.counts))
            )

    def columns(self) -> dict[str, Vector]:
        """Return the moments, 0 where there was no value, and the rests of the means."""
        moments = self._moments
        return {
            "count": Numbers(moments.counts.astype(np.int64), pa.int64()),
            "mean": Numbers(moments.means, pa.float64()),
            "squares": Numbers(moments.squares, pa.float64()),
            "rest": Numbers(moments.rests, pa.float64()),
        }

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the variances of populations; null of no value."""
        return primitive_array(*self._variances(selection, 0))

    def sample_variances(self, selection: NDArray[Any] | None) -> pa.Array:
        """Return the variances of samples; null for less than two values."""
        return primitive_array(*self._variances(selection, 1))

    def deviations(self, selection: NDArray[Any] | None) -> pa.Array:
        """Return the standard deviations of populations; null of no value."""
        values, is_valid = self._variances(selection, 0)
        return primitive_array(np.sqrt(values), is_valid)

    def sample_deviations(self, selection: NDArray[Any] | None) -> pa.Array:
        """Return the standard deviations of samples; null for less than two values."""
        values, is_valid = self._variances(selection, 1)
        return primitive_array(np.sqrt(values), is_valid)

    def _variances(
        self, selection: NDArray[Any] | None, fewer: int
    ) -> tuple[_Floats, NDArray[np.bool_]]:
        """Return squares by the number of values less some, and where there are enough."""
        chosen = slice(None) if selection is None else selection
        counts, squares = self._moments.counts[chosen], self._moments.squares[chosen]
        divisors = counts - fewer
        values = squares / np.where(divisors > 0, divisors, 1)
        return values, divisors > 0


class _Moments(msgspec.Struct, frozen=True):
    """Moments of groups: counts, means and sums of squared deviations from them.

    The exact mean is `means + rests`: the rest is what rounding took from `means`.
    """

    counts: _Floats
    means: _Floats
    rests: _Floats
    squares: _Floats

    @staticmethod
    def of_nothing(group_count: int) -> _Moments:
        return _Moments(*(np.zeros(group_count) for _ in range(4)))

    def joined(self, other: _Moments) -> _Moments:
        """Return the moments of the values of both."""
        counts = self.counts + other.counts
        share = other.counts / np.maximum(counts, 1)
        delta = np.where(
            other.counts > 0, (other.means - self.means) + (other.rests - self.rests), 0.0
        )
        is_new = self.counts == 0
        means, rests = _two_sum(self.means, self.rests + delta * share)
        between = delta**2 * self.counts * share
        return _Moments(
            counts,
            np.where(is_new, other.means, means),
            np.where(is_new, other.rests, rests),
            self.squares + other.squares + np.where(is_new, 0.0, between),
        )


def _of_values(
    groups: Groups, values: _Floats, validity: NDArray[np.bool_] | None, group_count: int
) -> _Moments:
    totals = np.zeros((group_count, 2))
    sum_into(totals, groups.ids, values, 0, validity)
    counts = totals[:, 1]
    divisors = np.maximum(counts, 1)
    centres = totals[:, 0] / divisors
    if not np.isfinite(centres).all():
        scaled = np.zeros((group_count, 2))
        sum_into(scaled, groups.ids, values * _SCALE_DOWN, 0, validity)
        centres = scaled[:, 0] / divisors / _SCALE_DOWN

    def deviations(centres: _Floats) -> tuple[_Floats, _Floats]:
        totals = np.zeros((group_count, 2))
        deviations_into(totals, centres, groups.ids, values, validity)
        return totals[:, 0], totals[:, 1]

    return _centred(counts, centres, deviations)


def _of_moments(groups: Groups, rows: _Moments, group_count: int) -> _Moments:
    counts = _sums(groups.ids, rows.counts, group_count)
    is_some = rows.counts > 0
    shares = rows.counts / _of_rows(np.maximum(counts, 1), groups.ids)
    centres = _sums(groups.ids, np.where(is_some, rows.means * shares, 0.0), group_count)
    within = _sums(groups.ids, rows.squares, group_count)

    def deviations(centres: _Floats) -> tuple[_Floats, _Floats]:
        apart = (rows.means - _of_rows(centres, groups.ids)) + rows.rests
        apart = np.where(is_some, apart, 0.0)
        weighted = rows.counts * apart
        between = _sums(groups.ids, weighted * apart, group_count)
        return _sums(groups.ids, weighted, group_count), within + between

    return _centred(counts, centres, deviations)


def _centred(
    counts: _Floats, centres: _Floats, deviations: Callable[[_Floats], tuple[_Floats, _Floats]]
) -> _Moments:
    """Return moments from sums of deviations, and of their squares, about approximate means.

    A centre that is off by e adds n e**2 to the squares, which is subtracted again. Where that is
    most of the squares, the subtraction would lose digits, and where it is infinite, as it is of
    equal values of 1e200, nothing is left: a better centre is taken first.
    """
    divisors = np.maximum(counts, 1)
    sums, squares = deviations(centres)
    for _ in range(_CENTRINGS_MAX):
        surplus = sums * (sums / divisors)
        if not np.any((surplus > squares / 2) | np.isinf(surplus)):
            break
        centres = centres + sums / divisors
        sums, squares = deviations(centres)
    offsets = sums / divisors
    means, rests = _two_sum(centres, offsets)
    return _Moments(counts, means, rests, np.maximum(squares - sums * offsets, 0.0))


def _two_sum(left: _Floats, right: _Floats) -> tuple[_Floats, _Floats]:
    """Return the rounded sum and its rounding error, which is 0 where it would not be finite."""
    total = left + right
    added = total - left
    rest = (left - (total - added)) + (right - added)
    return total, np.where(np.isfinite(rest), rest, 0.0)


def _of_rows(by_group: _Floats, ids: NDArray[Any] | None) -> _Floats:
    return by_group[:1] if ids is None else by_group[ids]


def _sums(ids: NDArray[Any] | None, values: _Floats, group_count: int) -> _Floats:
    totals = np.zeros((group_count, 2))
    sum_into(totals, ids, values)
    return totals[:, 0]


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

    def _join(self, groups: Groups, rows: Sequence[_Floats]) -> None:
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
        self, counts: _Floats, apart: Sequence[_Floats], sums: Sequence[_Floats]
    ) -> Sequence[_Floats]:
        """Return the sums about centres from which the means are `apart`."""
        raise NotImplementedError

    def _chosen(self, selection: NDArray[Any] | None) -> list[_Floats]:
        chosen = slice(None) if selection is None else selection
        return [column[chosen] for column in self._columns]


class ComomentsState(_CentralMoments):
    """Sums of products of two values' deviations, and of their squares."""

    parts = ("count", "left", "right", "products", "left_squares", "right_squares")
    mean_count = 2

    def moved(
        self, counts: _Floats, apart: Sequence[_Floats], sums: Sequence[_Floats]
    ) -> Sequence[_Floats]:
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
        return self._covariance(selection, 0)

    def sample_covariance(self, selection: NDArray[Any] | None) -> pa.Array:
        """Return covar_samp."""
        return self._covariance(selection, 1)

    def _covariance(self, selection: NDArray[Any] | None, fewer: int) -> pa.Array:
        """Return products by the number of rows less some; null of too few rows."""
        counts, _, _, products, _, _ = self._chosen(selection)
        divisors = counts - fewer
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
        self, counts: _Floats, apart: Sequence[_Floats], sums: Sequence[_Floats]
    ) -> Sequence[_Floats]:
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
