"""Slow, obvious twins of the fold kernels and of the aggregate states.

Values are plain Python: None is null. Rows are (group, value) pairs in two lists.
"""

from __future__ import annotations

import functools
import math
import operator
import statistics
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any


def by_group(groups: Sequence[int], values: Sequence[Any], group_count: int) -> list[list[Any]]:
    """Return each group's values that are not null, in row order."""
    lists: list[list[Any]] = [[] for _ in range(group_count)]
    for group, value in zip(groups, values, strict=True):
        if value is not None:
            lists[group].append(value)
    return lists


def count(groups: Sequence[int], values: Sequence[Any], group_count: int) -> list[int]:
    """Count each group's values."""
    return [len(values) for values in by_group(groups, values, group_count)]


def total(groups: Sequence[int], values: Sequence[Any], group_count: int) -> list[Any]:
    """Sum each group's values exactly, floats by `math.fsum`; None without a value."""
    return [_sum(values) if values else None for values in by_group(groups, values, group_count)]


def _sum(values: list[Any]) -> Any:
    if isinstance(values[0], float):
        try:
            return math.fsum(values)
        except (OverflowError, ValueError):
            return sum(values)
    if isinstance(values[0], Decimal):
        with localcontext() as context:
            context.prec = 60
            return sum(values, start=Decimal(0))
    return sum(values)


def order_key(value: Any) -> Any:
    """Return a key that sorts as Spark does: text by UTF-8 bytes, NaN greatest, -0.0 = 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


def smallest(groups: Sequence[int], values: Sequence[Any], group_count: int) -> list[Any]:
    """Return each group's smallest value; None without a value."""
    lists = by_group(groups, values, group_count)
    return [min(values, key=order_key) if values else None for values in lists]


def largest(groups: Sequence[int], values: Sequence[Any], group_count: int) -> list[Any]:
    """Return each group's largest value; None without a value."""
    lists = by_group(groups, values, group_count)
    return [max(values, key=order_key) if values else None for values in lists]


def value_by_time(
    groups: Sequence[int],
    values: Sequence[Any],
    times: Sequence[Any],
    group_count: int,
    *,
    is_last: bool,
) -> list[Any]:
    """Return the value beside each group's smallest (time, value), or largest; null is smallest."""
    rows: list[list[Any]] = [[] for _ in range(group_count)]
    for group, value, time in zip(groups, values, times, strict=True):
        if time is not None:
            rows[group].append((order_key(time), value is not None, order_key(value), value))
    choose = max if is_last else min

    def key(row: Any) -> Any:
        return row[:2] if not row[1] else row[:3]

    return [choose(found, key=key)[3] if found else None for found in rows]


def combined_bits(
    groups: Sequence[int], values: Sequence[Any], group_count: int, function: str
) -> list[Any]:
    """Combine integers with bit_and, bit_or or bit_xor."""
    combine = {"bit_and": operator.and_, "bit_or": operator.or_, "bit_xor": operator.xor}[function]
    lists = by_group(groups, values, group_count)
    return [functools.reduce(combine, values) if values else None for values in lists]


def spread(
    groups: Sequence[int], values: Sequence[Any], group_count: int, function: str
) -> list[Any]:
    """Return var_pop, var_samp, stddev_pop or stddev_samp of finite numbers."""
    needed = 2 if function.endswith("_samp") else 1
    formula = {
        "var_pop": statistics.pvariance,
        "var_samp": statistics.variance,
        "stddev_pop": statistics.pstdev,
        "stddev_samp": statistics.stdev,
    }[function]
    lists = by_group(groups, values, group_count)
    return [float(formula(values)) if len(values) >= needed else None for values in lists]


def deviations(
    groups: Sequence[int], values: Sequence[Any], centres: Sequence[float]
) -> list[tuple[float, float]]:
    """Return, for each group, the sums of deviations from its centre and of their squares."""
    lists = by_group(groups, values, len(centres))
    apart = [[v - c for v in values] for values, c in zip(lists, centres, strict=True)]
    return [(math.fsum(found), math.fsum(d * d for d in found)) for found in apart]


def distinct(groups: Sequence[int], values: Sequence[Any], group_count: int) -> list[list[Any]]:
    """Return each group's distinct values, ascending."""
    lists = by_group(groups, values, group_count)
    by_key = [{order_key(value): value for value in values} for values in lists]
    return [[found[key] for key in sorted(found)] for found in by_key]
