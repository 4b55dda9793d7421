"""The cost of a source: bytes to read, and work on rows expressed in bytes.

The figures only need to be right in relation to each other, which `projseg bench run choices`
measures. One byte-equivalent is about the time in which a core reads and decodes a byte: a
nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.tree import Call, Expression
from projseg.algebra.planning.source_plan import (
    AddFunction,
    AddRows,
    AddWeighted,
    Feed,
    FoldMultiple,
    FoldSeveral,
    MergeStates,
)
from projseg.algebra.projection.stored_names import state_column_name
from projseg.algebra.query.bound_query import QuerySpec

_ROW_WORK: Final = 1
_KEY_WORK: Final = 4
_COMPUTED_WORK: Final = 16
"""For each call in an expression that is evaluated row by row."""
_FOLD_WORK: Final = 2
_SET_ADD_WORK: Final = 24
_SET_MERGE_WORK: Final = 400
_ASSUMED_COLUMN_BYTES: Final = 4
"""Bytes for each row of a column whose size is not known."""
_SELECTIVITY: Final = {"=": 0.1, "is_null": 0.1, "in": 0.25, "like": 0.25}
_RANGE_SELECTIVITY: Final = 0.5


class ReadShape(msgspec.Struct, frozen=True):
    """What answering from a source reads and computes, for each of its rows.

    Parameters
    ----------
    filter_columns : tuple of str
        Stored columns that the filter reads, for every row.
    fold_columns : tuple of str
        Stored columns that are read for the rows that pass.
    filter_work, fold_work : int
        Byte-equivalents of work on a row.
    weighed_work : int
        Byte-equivalents of work on each base row that a weighted fold counts.
    selectivity : float
        The part of the rows that is expected to pass.
    """

    filter_columns: tuple[str, ...]
    fold_columns: tuple[str, ...]
    filter_work: int
    fold_work: int
    weighed_work: int
    selectivity: float

    def filtered(self, conditions: tuple[Expression, ...]) -> ReadShape:
        """Return the shape of the same with more conditions in the filter."""
        if not conditions:
            return self
        filter_columns = tuple(dict.fromkeys((*self.filter_columns, *_columns(conditions))))
        return replace(
            self,
            filter_columns=filter_columns,
            fold_columns=tuple(name for name in self.fold_columns if name not in filter_columns),
            filter_work=self.filter_work + sum(_ROW_WORK + _computing(c) for c in conditions),
            selectivity=self.selectivity * selectivity(conditions),
        )

    def cost(
        self,
        row_count: int,
        column_bytes: Mapping[str, int],
        byte_count: int,
        share: float,
        base_row_count: int = 0,
    ) -> int:
        """Return the cost of reading a share of a source.

        Parameters
        ----------
        row_count : int
            The source's rows.
        column_bytes : mapping of str to int
            Its stored bytes by column.
        byte_count : int
            A bound on the bytes of columns whose own are not known.
        share : float
            The part of its rows that lies in the interval, 0 to 1.
        base_row_count : int
            Base rows from which the projection was made.
        """
        weighing = share * self.selectivity * base_row_count * self.weighed_work
        return round(
            weighing
            + self._cost_of_shares(
                row_count, column_bytes, byte_count, share, share * self.selectivity
            )
        )

    def cost_of_sorted(
        self,
        row_count: int,
        column_bytes: Mapping[str, int],
        byte_count: int,
        *,
        examined: float,
        kept: float,
    ) -> int:
        """Return the cost of reading rows in an order that leaves some of them to be examined.

        Parameters
        ----------
        row_count, column_bytes, byte_count
            As of `cost`.
        examined, kept : float
            The parts of the rows that the filter is evaluated on, and that pass it.
        """
        return round(self._cost_of_shares(row_count, column_bytes, byte_count, examined, kept))

    def _cost_of_shares(
        self,
        row_count: int,
        column_bytes: Mapping[str, int],
        byte_count: int,
        examined: float,
        kept: float,
    ) -> float:
        assumed = min(row_count * _ASSUMED_COLUMN_BYTES, byte_count)
        sizes = column_bytes.get
        filter_bytes = sum(sizes(name, assumed) for name in self.filter_columns)
        fold_bytes = sum(sizes(name, assumed) for name in self.fold_columns)
        filtering = filter_bytes + row_count * self.filter_work
        folding = fold_bytes + row_count * self.fold_work
        return examined * filtering + kept * folding


def base_shape(query: QuerySpec, conditions: tuple[Expression, ...]) -> ReadShape:
    """Return the shape of reading base rows; `conditions` are what is left of the filter."""
    keys = query.scanned or tuple(named.expression for named in query.keys)
    feeds = tuple(AddRows(p.arguments, p.filter) for p in query.primitives)
    time = () if query.interval is None or query.time_column is None else (query.time_column,)
    return _base_shape(keys, query.primitives, feeds, time).filtered(conditions)


@lru_cache(maxsize=1024)
def _base_shape(
    keys: tuple[Expression, ...],
    primitives: tuple[Primitive, ...],
    feeds: tuple[AddRows, ...],
    time: tuple[str, ...],
) -> ReadShape:
    return read_shape(keys, (), primitives, feeds, time)


def read_shape(
    keys: tuple[Expression, ...],
    conditions: tuple[Expression, ...],
    primitives: tuple[Primitive, ...],
    feeds: tuple[Feed, ...],
    more_columns: tuple[str, ...] = (),
) -> ReadShape:
    """Return the shape of evaluating keys, conditions and feeds over a source's columns."""
    filter_columns = _columns(conditions)
    fold_columns = dict.fromkeys((*more_columns, *_columns(keys)))
    work = _ROW_WORK + sum(_KEY_WORK + _computing(key) for key in keys)
    for primitive, feed in zip(primitives, feeds, strict=True):
        fold_columns |= dict.fromkeys(_feed_columns(primitive, feed))
        work += _feed_work(primitive, feed)
    return ReadShape(
        filter_columns=filter_columns,
        fold_columns=tuple(name for name in fold_columns if name not in filter_columns),
        filter_work=sum(_ROW_WORK + _computing(condition) for condition in conditions),
        fold_work=work,
        weighed_work=_FOLD_WORK * sum(isinstance(feed, AddWeighted) for feed in feeds),
        selectivity=selectivity(conditions),
    )


def _columns(expressions: Iterable[Expression | None]) -> tuple[str, ...]:
    found = (expression.columns for expression in expressions if expression is not None)
    return tuple(dict.fromkeys(name for names in found for name in sorted(names)))


def _computing(expression: Expression) -> int:
    return _COMPUTED_WORK * sum(isinstance(node, Call) for node in expression.walk())


def _feed_columns(primitive: Primitive, feed: Feed) -> tuple[str, ...]:
    found: tuple[str, ...] = ()
    match feed:
        case MergeStates(prefix, condition):
            found = (*_stored_columns(primitive, prefix), *_columns([condition]))
        case AddWeighted(arguments, prefix, condition):
            found = (state_column_name(prefix, "count"), *_columns([*arguments, condition]))
        case AddRows(arguments, condition):
            found = _columns([*arguments, condition])
        case AddFunction(stored, _, prefix, argument, condition):
            own = (name for name in _columns([argument, condition]) if name != AddFunction.STATE)
            found = (*_stored_columns(stored, prefix), *own)
        case FoldMultiple(inner, part, _, factors):
            found = (*_feed_columns(inner, part), *_columns(factors))
        case FoldSeveral(feeds):
            found = tuple(name for part in feeds for name in _feed_columns(primitive, part))
    return found


@lru_cache(maxsize=4096)
def _stored_columns(primitive: Primitive, prefix: str) -> tuple[str, ...]:
    return tuple(state_column_name(prefix, part) for part, _ in primitive.fields)


def _feed_work(primitive: Primitive, feed: Feed) -> int:
    is_set = primitive.kind.is_set
    if isinstance(feed, FoldSeveral):
        return sum(_feed_work(primitive, part) for part in feed.feeds)
    if isinstance(feed, FoldMultiple):
        per_row = sum(_FOLD_WORK + _computing(factor) for factor in feed.factors)
        return _feed_work(feed.primitive, feed.feed) + per_row
    if isinstance(feed, MergeStates):
        work = _SET_MERGE_WORK if is_set else _FOLD_WORK
    elif isinstance(feed, AddFunction):
        work = _FOLD_WORK + _computing(feed.argument)
    elif isinstance(feed, AddRows | AddWeighted):
        work = _SET_ADD_WORK if is_set else _FOLD_WORK
        work += sum(_computing(argument) for argument in feed.arguments)
    else:
        return 0
    return work if feed.filter is None else work + _ROW_WORK + _computing(feed.filter)


def selectivity(conditions: tuple[Expression, ...]) -> float:
    """Return the share of the rows for which conditions are expected to be true."""
    share = 1.0
    for condition in conditions:
        function = condition.function if isinstance(condition, Call) else "="
        share *= _SELECTIVITY.get(function, _RANGE_SELECTIVITY)
    return share
