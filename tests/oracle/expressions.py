"""Slow, obvious twins of expressions: one row at a time, in plain Python."""

from __future__ import annotations

import datetime as dt
import math
import zoneinfo
from decimal import ROUND_HALF_UP, Context, Decimal

from projseg.algebra.expressions.tree import Call, Column, Literal
from projseg.algebra.time.duration import DAY, HOUR, MINUTE

EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)
SPARK_UNITS = (MINUTE, HOUR, DAY)
INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


class Refused(ArithmeticError):
    """Spark's ANSI mode would raise."""


def value_of(expression, row):
    """Return the value of an expression for one row, a dict of Python values."""
    if isinstance(expression, Column):
        return row[expression.name]
    if isinstance(expression, Literal):
        return expression.value
    assert isinstance(expression, Call)
    if expression.function in LAZY:
        return LAZY[expression.function](expression, row)
    values = [value_of(argument, row) for argument in expression.arguments]
    return STRICT[expression.function](expression, *values)


def order_key(value):
    """Return a key that sorts as Spark does: NaN last, -0.0 as 0.0, text by its bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value + 0.0)
    return value.encode() if isinstance(value, str) else value


def _deciding(truth):
    """Return AND or OR, which end at the first operand that is `truth`: false for AND."""

    def compute(call, row):
        seen = set()
        for argument in call.arguments:
            seen.add(value_of(argument, row))
            if truth in seen:
                return truth
        return None if None in seen else not truth

    return compute


def _case(call, row):
    *pairs, default = call.arguments
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        if value_of(condition, row) is True:
            return value_of(value, row)
    return value_of(default, row)


def _coalesce(call, row):
    values = (value_of(argument, row) for argument in call.arguments)
    return next((value for value in values if value is not None), None)


def _comparison(test):
    def compute(call, left, right):
        if left is None or right is None:
            return None
        return test(order_key(left), order_key(right))

    return compute


def _null_safe(call, left, right):
    if left is None or right is None:
        return left is None and right is None
    return order_key(left) == order_key(right)


def _in(call, value, *options):
    if value is None:
        return None
    return order_key(value) in [order_key(option) for option in options]


def _arithmetic(exact):
    def compute(call, left, right):
        if left is None or right is None:
            return None
        return _fitted(exact(left, right), call.type)

    return compute


def _fitted(value, arrow_type):
    bits = INTEGER_BITS.get(str(arrow_type))
    if bits is not None and not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise Refused
    if str(arrow_type).startswith("decimal"):
        unit = Decimal(1).scaleb(-arrow_type.scale)
        value = value.quantize(unit, context=Context(prec=200, rounding=ROUND_HALF_UP))
        if abs(value) >= Decimal(10) ** (arrow_type.precision - arrow_type.scale):
            raise Refused
    return value


def _divide(call, left, right):
    if left is None or right is None:
        return None
    if right == 0:
        raise Refused
    if isinstance(left, Decimal):
        return _fitted(Context(prec=120).divide(left, right), call.type)
    return left / right


def _remainder(call, left, right):
    if left is None or right is None:
        return None
    if right == 0:
        raise Refused
    rest = math.fmod(left, right) if isinstance(left, float) else abs(left) % abs(right)
    return rest if isinstance(left, float) or left >= 0 else -rest


def _negative(call, value):
    return None if value is None else _fitted(-value, call.type)


LAZY = {"and": _deciding(False), "or": _deciding(True), "case": _case, "coalesce": _coalesce}
CONTEXT = Context(prec=120)
STRICT = {
    "=": _comparison(lambda a, b: a == b),
    "!=": _comparison(lambda a, b: a != b),
    "<": _comparison(lambda a, b: a < b),
    "<=": _comparison(lambda a, b: a <= b),
    ">": _comparison(lambda a, b: a > b),
    ">=": _comparison(lambda a, b: a >= b),
    "<=>": _null_safe,
    "in": _in,
    "not": lambda call, value: None if value is None else not value,
    "is_null": lambda call, value: value is None,
    "+": _arithmetic(lambda a, b: CONTEXT.add(a, b) if isinstance(a, Decimal) else a + b),
    "-": _arithmetic(lambda a, b: CONTEXT.subtract(a, b) if isinstance(a, Decimal) else a - b),
    "*": _arithmetic(lambda a, b: CONTEXT.multiply(a, b) if isinstance(a, Decimal) else a * b),
    "/": _divide,
    "%": _remainder,
    "negative": _negative,
    "lower": lambda call, value: None if value is None else value.lower(),
    "upper": lambda call, value: None if value is None else value.upper(),
    "length": lambda call, value: None if value is None else len(value),
    "concat": lambda call, *parts: None if None in parts else "".join(parts),
}


def local_floor(local, months, micros, origin):
    """Return the start of the bucket of a naive datetime, by counting whole periods."""
    start = EPOCH + origin * MICROSECOND
    if micros:
        return start + (local - start) // (micros * MICROSECOND) * (micros * MICROSECOND)
    passed = (local.year - start.year) * 12 + local.month - start.month
    count = passed // months
    while True:
        year, month = divmod(start.year * 12 + start.month - 1 + count * months, 12)
        bucket = start.replace(year=year, month=month + 1)
        if bucket <= local:
            return bucket
        count -= 1


def floor_instant(micros, granularity):
    """Return the start, UTC microseconds, of the bucket of one instant, through `zoneinfo`."""
    zone = zoneinfo.ZoneInfo(granularity.timezone)
    moment = (EPOCH + micros * MICROSECOND).replace(tzinfo=dt.UTC).astimezone(zone)
    naive = moment.replace(tzinfo=None, fold=0)
    start = local_floor(naive, granularity.months, granularity.micros, granularity.origin)
    shown = {}
    for fold in (1, 0):
        candidate = start.replace(tzinfo=zone, fold=fold)
        if _clock(candidate.astimezone(dt.UTC), zone) == start:
            shown[candidate.utcoffset()] = candidate
    is_by_clock = granularity.by_clock or granularity.months or granularity.micros > DAY
    if moment.utcoffset() in shown and not is_by_clock:
        return _instant(shown[moment.utcoffset()])
    if shown:
        return min(map(_instant, shown.values()))
    is_sparks = granularity.micros in SPARK_UNITS and granularity.origin == 0
    if is_sparks and not is_by_clock:
        return _instant(
            start.replace(tzinfo=zone)
        )  # the gap's start is read with the offset before it
    return _resumption(start, zone)


def _instant(moment):
    return (moment.astimezone(dt.UTC).replace(tzinfo=None) - EPOCH) // MICROSECOND


def _clock(moment, zone):
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _resumption(start, zone):
    """Return the instant at which a clock goes on after it skipped `start`."""
    before = (start - dt.timedelta(hours=26) - EPOCH) // MICROSECOND
    after = (start + dt.timedelta(hours=26) - EPOCH) // MICROSECOND
    while after - before > 1:
        middle = (before + after) // 2
        if _clock((EPOCH + middle * MICROSECOND).replace(tzinfo=dt.UTC), zone) < start:
            before = middle
        else:
            after = middle
    return after
