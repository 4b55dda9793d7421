"""Answer queries over lists of Python rows: slow, obvious, and sharing no code with the engine.

A row is a dict; null is None. Conditions and expressions are Python functions given beside their
SQL text (see `support/query_cases.py`), so nothing here parses anything.
"""

import math
from collections import defaultdict


def normal(value):
    """A value as it is grouped by: all NaNs are equal, and -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def order_of(value):
    """A sort key of a value that is not null, in Spark's order: NaN is the greatest."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (0, value)


def answer(rows, keys, aggregates, condition=None, having=None):
    """Return {key tuple: tuple of aggregate values}; no keys: always exactly one group.

    keys: functions of a row. aggregates: (name, function of a row or None, filter or None), or
    (function of values, aggregates of these values). having: such an aggregate.
    """
    groups = defaultdict(list)
    for row in rows:
        if condition is None or condition(row) is True:
            groups[tuple(normal(key(row)) for key in keys)].append(row)
    if not keys:
        groups[()]
    return {
        key: tuple(aggregate(members, *call) for call in aggregates)
        for key, members in groups.items()
        if having is None or aggregate(members, *having) is True
    }


def aggregate(rows, name, argument, condition=None):
    """One aggregate over the rows of one group, or a function of several."""
    if callable(name):
        return name(*(aggregate(rows, *call) for call in argument))
    rows = [row for row in rows if condition is None or condition(row) is True]
    if argument is None:
        return len(rows)
    values = [value for value in map(argument, rows) if value is not None]
    if name == "count":
        return len(values)
    if name == "count_distinct":
        return len({normal(value) for value in values})
    return AGGREGATES[name](values) if values else None


def total(values):
    """The exact sum, floats by `math.fsum`."""
    return math.fsum(values) if isinstance(values[0], float) else sum(values)


def variance(values):
    """The variance of the whole population."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values)


AGGREGATES = {
    "sum": total,
    "avg": lambda values: float(total(values)) / len(values),
    "min": lambda values: min(values, key=order_of),
    "max": lambda values: max(values, key=order_of),
    "var_pop": variance,
}
