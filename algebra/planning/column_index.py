"""An index of projections by column, which rules most of them out without looking at each."""

from __future__ import annotations

from collections.abc import Sequence

from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.planning.match_facts import SegmentView
from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.query.bound_query import QuerySpec


class ColumnIndex:
    """For each base column, a bit for each projection whose stored columns read it.

    Parameters
    ----------
    specs : sequence of ProjectionSpec
        The projections; bit i is the i-th.
    """

    def __init__(self, specs: Sequence[ProjectionSpec]) -> None:
        self._specs = specs
        self._keeping: dict[str, int] = {}
        for index, spec in enumerate(specs):
            bit = 1 << index
            for column in spec.read_columns:
                self._keeping[column] = self._keeping.get(column, 0) | bit

    def narrow(
        self, query: QuerySpec, view: SegmentView, allowed: frozenset[int]
    ) -> tuple[list[int], dict[str, Reason]]:
        """Return the projections that have all columns of the query's keys, and why others fail."""
        left = sum(1 << index for index in allowed)
        rejected: dict[str, Reason] = {}
        if query.is_row_scan:
            grouped = sum(1 << index for index in allowed if not self._specs[index].holds_rows)
            left &= ~grouped
            rejected = {self._specs[i].name: Reason(ReasonCode.ROW_SCAN) for i in _bits(grouped)}
        for expression in query.scanned or [named.expression for named in query.keys]:
            for name in sorted(_needed(expression, view)):
                if name in view.constant_by_column:
                    continue
                lacking = left & ~self._keeping.get(name, 0)
                left &= ~lacking
                reason = _missing(expression, name, query.time_column)
                rejected |= {self._specs[index].name: reason for index in _bits(lacking)}
        return list(_bits(left)), rejected


def _needed(expression: Expression, view: SegmentView) -> frozenset[str]:
    """Return the columns that an expression depends on beyond what has one value."""
    if not view.single or expression.columns == frozenset():
        return expression.columns
    if expression in view.single:
        return frozenset()
    if isinstance(expression, Column):
        return expression.columns
    return frozenset[str]().union(*(_needed(child, view) for child in expression.children))


def _missing(key: Expression, column: str, time_column: str | None) -> Reason:
    is_column = isinstance(key, Column)
    text = column if is_column else to_sql(key)
    if column == time_column:
        return Reason(ReasonCode.GRANULARITY_TOO_COARSE, text)
    is_plain = (
        ReasonCode.MISSING_GROUPING_COLUMN if is_column else ReasonCode.MISSING_VIRTUAL_COLUMN
    )
    return Reason(is_plain, text)


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found
