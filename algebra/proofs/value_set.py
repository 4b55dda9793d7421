"""Sets of values of one ordered type, with or without null, for zone maps and proofs.

A set is a sorted list of cuts, which are places between values. The values from each cut at an even
position to the next cut are inside, so union, intersection and complement are one sweep over cuts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.tree import BOTTOM, TOP, Call, Cut, Expression, Literal, cut_at


class ValueSet(msgspec.Struct, frozen=True):
    """Values between cuts, and perhaps null.

    Cuts ascend: values from the first to the second are inside, and so on.
    """

    cuts: tuple[Cut, ...]
    has_null: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it has no member, not even null."""
        return not self.cuts and not self.has_null

    def complement(self) -> ValueSet:
        """Return the set of all values, and null, that are not in this one."""
        cuts = self.cuts
        cuts = cuts[1:] if cuts[:1] == (BOTTOM,) else (BOTTOM, *cuts)
        cuts = cuts[:-1] if cuts[-1:] == (TOP,) else (*cuts, TOP)
        return ValueSet(cuts, not self.has_null)

    def union(self, other: ValueSet) -> ValueSet:
        """Return the union of two sets."""
        return ValueSet(_sweep(self.cuts, other.cuts, 1), self.has_null or other.has_null)

    def intersection(self, other: ValueSet) -> ValueSet:
        """Return the set of members of both."""
        return ValueSet(_sweep(self.cuts, other.cuts, 2), self.has_null and other.has_null)

    def minus(self, other: ValueSet) -> ValueSet:
        """Return the set of members that are not in the other."""
        return self.intersection(other.complement())

    def without_null(self) -> ValueSet:
        """Return the set without null."""
        return ValueSet(self.cuts) if self.has_null else self

    def is_within(self, other: ValueSet) -> bool:
        """Whether every member is a member of `other`."""
        if self.has_null and not other.has_null:
            return False
        if len(self.cuts) == 2:  # one range of a zone map, against perhaps many
            first, last = _span(other.cuts, *self.cuts)
            return first == last and first % 2 == 1
        return _sweep(self.cuts, other.cuts, 2) == self.cuts

    def overlaps(self, other: ValueSet) -> bool:
        """Whether some member is a member of `other`."""
        if self.has_null and other.has_null:
            return True
        if len(self.cuts) == 2:
            first, last = _span(other.cuts, *self.cuts)
            return first != last or first % 2 == 1
        return bool(_sweep(self.cuts, other.cuts, 2))


NOTHING: Final = ValueSet(())
NULL_ONLY: Final = ValueSet((), has_null=True)
ANY_VALUE: Final = ValueSet((BOTTOM, TOP))
ANYTHING: Final = ValueSet((BOTTOM, TOP), has_null=True)


def _span(cuts: tuple[Cut, ...], start: Cut, end: Cut) -> tuple[int, int]:
    """Return how many cuts lie at or before `start`, and how many before `end`."""
    return bisect_right(cuts, start), bisect_left(cuts, end)


def _sweep(left: tuple[Cut, ...], right: tuple[Cut, ...], depth_wanted: int) -> tuple[Cut, ...]:
    """Merge two cut lists, keeping where at least `depth_wanted` of them are inside."""
    if not left or not right:
        return () if depth_wanted == 2 else left or right
    steps = sorted(
        [(cut, -1 if index % 2 else 1) for index, cut in enumerate(left)]
        + [(cut, -1 if index % 2 else 1) for index, cut in enumerate(right)],
        key=lambda step: step[0],
    )
    kept: list[Cut] = []
    depth = 0
    for index, (cut, change) in enumerate(steps):
        depth += change
        if index + 1 < len(steps) and steps[index + 1][0] == cut:
            continue
        if (depth >= depth_wanted) != bool(len(kept) % 2):
            kept.append(cut)
    return tuple(kept)


def values_between(
    low: object | None,
    high: object | None,
    arrow_type: pa.DataType,
    *,
    with_low: bool = True,
    with_high: bool = True,
) -> ValueSet | None:
    """Return the set of values from `low` to `high`; a bound of None leaves that side open.

    The result is None if a bound is not a value of `arrow_type` in the form that `Literal` uses.
    """
    start: Cut | None = BOTTOM if low is None else cut_at(low, arrow_type, after=not with_low)
    end: Cut | None = TOP if high is None else cut_at(high, arrow_type, after=with_high)
    if start is None or end is None:
        return None
    return ValueSet((start, end)) if start < end else NOTHING


def only(value: object, arrow_type: pa.DataType) -> ValueSet | None:
    """Return the set of one value; None if it is not of the type."""
    return values_between(value, value, arrow_type)


def any_of(values: Iterable[object], arrow_type: pa.DataType) -> ValueSet | None:
    """Return the set of some values; None if a value does not have the type."""
    pairs = []
    for value in values:
        start, end = (cut_at(value, arrow_type, after=after) for after in (False, True))
        if start is None or end is None:
            return None
        pairs.append((start, end))
    cuts: list[Cut] = []
    for start, end in sorted(set(pairs)):
        if cuts and cuts[-1] == start:
            cuts[-1] = end
        else:
            cuts += (start, end)
    return ValueSet(tuple(cuts))


def without_widening(expression: Expression) -> Expression:
    """Strip integer-widening casts from the outside of an expression."""
    while isinstance(expression, Call) and expression.function == "cast":
        (inner,) = expression.arguments
        both = (inner.type, expression.type)
        if not all(map(pa.types.is_integer, both)) or both[0].bit_width > both[1].bit_width:
            break
        expression = inner
    return expression


def values_of_sum(parts: tuple[ValueSet, ...], arrow_type: pa.DataType) -> ValueSet:
    """Return a set that holds every sum of one value from each part, computed without overflow."""
    if not pa.types.is_integer(arrow_type):
        return ANYTHING
    has_null = any(part.has_null for part in parts)
    if any(not part.cuts for part in parts):
        return NULL_ONLY if has_null else ValueSet(())
    if any(len(cut) == 1 for part in parts for cut in (part.cuts[0], part.cuts[-1])):
        return ValueSet(ANY_VALUE.cuts, has_null)
    low = sum(part.cuts[0][1] for part in parts)
    high = sum(part.cuts[-1][1] - 1 for part in parts)
    return ValueSet(((1, low, 0), (1, high + 1, 0)), has_null)


def preimage(term: Expression, values: ValueSet) -> ValueSet | None:
    """Return the exact set of a call's first arguments that give one of some values.

    Arguments for which the call raises are in no such set. None: it is not known, or the term is no
    call of one argument beside constants.
    """
    if not isinstance(term, Call) or FUNCTIONS[term.function].inverse is None:
        return None
    if not all(isinstance(argument, Literal) for argument in term.arguments[1:]):
        return None
    found = NOTHING
    for start, end in zip(values.cuts[::2], values.cuts[1::2], strict=True):
        after_start, after_end = _after(term, start), _after(term, end)
        if after_start is None or after_end is None:
            return None
        found = found.union(after_start.minus(after_end))
    return ValueSet(found.cuts, values.has_null)


@lru_cache(maxsize=4096)
def _after(call: Call, cut: Cut) -> ValueSet | None:
    inverse = FUNCTIONS[call.function].inverse
    cuts = None if inverse is None else inverse(call, cut)
    return None if cuts is None else ValueSet(cuts)
