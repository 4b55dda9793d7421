"""Compute a projection's states from base rows by SPEC.md 7.1, for the texts that the test uses."""

import math
import struct
from functools import reduce
from operator import and_, or_, xor

from plain_sketches import hll_sketch, theta_sketch

HOUR = 3_600_000_000


def bits(value):
    """The value with floats as their bits, so that NaN equals itself and -0.0 differs from 0.0."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    return type(value)(bits(item) for item in value) if isinstance(value, (list, tuple)) else value


def plain_float(value):
    """A float as projections group by it: one NaN, and both zeros the positive one (4.4)."""
    if isinstance(value, float):
        return value + 0.0 if value == value else math.nan
    return value


def order(value):
    """A sort key: null first, NaN above all numbers, strings by their bytes."""
    if isinstance(value, str):
        value = value.encode()
    return (value is not None, value != value, 0 if value is None or value != value else value)


def distinct(values):
    """Each value once, ascending; floats as `plain_float` makes them."""
    return sorted({bits(plain_float(v)): plain_float(v) for v in values}.values(), key=order)


def close(found, expected):
    """Whether the values are equal, except for the rounding of a sum of floats."""
    if isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-6)
    return found == expected


def grouped(rows, texts):
    """{tuple of the grouping columns: rows}, in the order of a projection's rows."""
    groups = {}
    for row in rows:
        key = tuple(plain_float(evaluate(text, row)) for text in texts)
        groups.setdefault(bits(key), (key, []))[1].append(row)
    return sorted(groups.values(), key=lambda group: [order(value) for value in group[0]])


def evaluate(text, row):
    """The value of a grouping column: a column of the table, or its hour."""
    if text == "date_trunc('HOUR', time)":
        return row["time"] // HOUR * HOUR
    return row[text]


def state_value(state, part, rows, types):
    """One part of one state of one group of rows."""
    call, _, condition = state.partition(" FILTER (WHERE ")
    if condition:
        rows = [row for row in rows if row[condition.removesuffix(")")]]
    function, _, arguments = call.removesuffix(")").partition("(")
    column, *rest = arguments.split(", ")
    if column == "*":
        return len(rows)
    values = [row[column] for row in rows if row[column] is not None]
    if function in ("min_by", "max_by"):
        return by_time(function, part, column, rest[0], rows)
    if function in ("hll", "theta"):
        sketch = hll_sketch if function == "hll" else theta_sketch
        return sketch(values, types[column], int(rest[0]))
    return SIMPLE[function](values, part)


def by_time(function, part, column, time, rows):
    pairs = [(row[time], row[column]) for row in rows if row[time] is not None]
    best = min if function == "min_by" else max
    moment = best((at for at, _ in pairs), default=None)
    if part == "time" or moment is None:
        return moment
    return best((value for at, value in pairs if at == moment), key=order)


def moments(values, part):
    mean = math.fsum(values) / len(values) if values else 0.0
    squares = math.fsum((value - mean) ** 2 for value in values)
    return {"count": len(values), "mean": mean, "squares": squares}[part]


def extreme(best):
    return lambda values, _: plain_float(best(values, key=order, default=None))


def folded(operator):
    return lambda values, _: reduce(operator, values) if values else None


SIMPLE = {
    "count": lambda values, _: len(values),
    "sum": lambda values, _: sum(values) if values else None,
    "min": extreme(min),
    "max": extreme(max),
    "distinct": lambda values, _: distinct(values),
    "moments": moments,
    "bit_and": folded(and_),
    "bit_or": folded(or_),
    "bit_xor": folded(xor),
}
