"""The cost of a source: nanoseconds of one processor to read its columns and to work on its rows.

The figures were measured on columns in memory, each kind of work alone; they only need to be right
in relation to each other. `projseg bench run choices` tells how often they choose well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.aggregates.state_columns import state_column_name
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.planning.call_work import measured_work
from projseg.algebra.planning.source_plan import (
    AddFunction,
    AddPresence,
    AddRows,
    AddWeighted,
    Feed,
    FoldMultiple,
    FoldSeveral,
    MergeStates,
)
from projseg.algebra.query.bound_query import QuerySpec

BYTE_WORK: Final = 0.25
"""For each stored byte of a column: much of it in a first answer, none in those that follow."""
_ROW_WORK: Final = 0.5
_CONDITION_WORK: Final = 1.5
_MASKED_SHARE_MIN: Final = 0.25
"""A filter that keeps this share of the rows spares no work: the others are folded with them."""
_KEY_WORK: Final = 2.0
_UNRANKED_KEY_WORK: Final = 20.0
"""More for a key that is hashed: of doubles and of decimals, the least and greatest help little."""

_OF_STATE_WORK: Final = 10.0
_LOOK_UP_WORK: Final = 1.0
"""For an expression over one column that has a dictionary, which is computed for each value."""
_CALL_WORK: Final = 1.5
_DIVISION_WORK: Final = 3.0
_DECIMAL_CALL_WORK: Final = 4.0
_TIME_CALL_WORK: Final = 25.0
_TEXT_CALL_WORK: Final = 40.0

_PLAIN: Final = (
    *(pa.types.is_integer, pa.types.is_floating),
    *(pa.types.is_decimal, pa.types.is_timestamp),
)
_WEIGH_WORK: Final = 4.0
_ASSUMED_COLUMN_BYTES: Final = 4
"""Bytes for each row of a column whose size is not known."""
_SELECTIVITY: Final = {"=": 0.1, "is_null": 0.1, "in": 0.25, "like": 0.25}
_RANGE_SELECTIVITY: Final = 0.5


class ReadShape(msgspec.Struct, frozen=True):
    """What answering from a source reads and computes, for each of its rows.

    The filter's stored columns are read for every row, the fold's for the share `selectivity` that
    is expected to pass. Work is in nanoseconds a row, `weighed_work` for each base row that a
    weighted fold counts, and `byte_work` for each byte of stored columns whose size tells it.
    """

    filter_columns: tuple[str, ...]
    fold_columns: tuple[str, ...]
    filter_work: float
    fold_work: float
    weighed_work: float
    selectivity: float
    byte_work: tuple[tuple[str, float], ...] = ()

    def filtered(self, conditions: tuple[Expression, ...]) -> ReadShape:
        """Return the shape of the same with more conditions in the filter."""
        if not conditions:
            return self
        filter_columns = tuple(dict.fromkeys((*self.filter_columns, *_columns(conditions))))
        return replace(
            self,
            filter_columns=filter_columns,
            fold_columns=tuple(name for name in self.fold_columns if name not in filter_columns),
            filter_work=self.filter_work + _Computed().conditions(conditions, self.selectivity),
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
        """Return the cost of reading a share, 0 to 1, of a source's rows.

        `byte_count` bounds the bytes of columns whose own are unknown; the projection was made from
        `base_row_count` base rows.
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
        """Return the cost of reading rows in an order that leaves some of them to be examined."""
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
        filter_bytes = sum([sizes(name, assumed) for name in self.filter_columns])
        fold_bytes = sum([sizes(name, assumed) for name in self.fold_columns])
        filtering = BYTE_WORK * filter_bytes + row_count * self.filter_work
        folding = BYTE_WORK * fold_bytes + row_count * self.fold_work
        if self.filter_columns and kept >= _MASKED_SHARE_MIN * examined:
            kept = examined
        for name, work in self.byte_work:
            folding += work * sizes(name, assumed)
        return examined * filtering + kept * folding


def base_shape(query: QuerySpec, conditions: tuple[Expression, ...]) -> ReadShape:
    """Return the shape of reading base rows; `conditions` are the rest of the filter."""
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
    more_columns: tuple[str, ...],
    buckets: frozenset[str] = frozenset(),
) -> ReadShape:
    """Return the shape of evaluating keys, conditions and feeds over a source's columns.

    `more_columns` are read for the rows that pass; `buckets` are columns of buckets of time, which
    have dictionaries as times do not.
    """
    filter_columns = _columns(conditions)
    fold_columns = dict.fromkeys((*more_columns, *_columns(keys)))
    computed = _Computed(buckets)
    filter_work = computed.conditions(conditions)
    work = _ROW_WORK + sum(_key_work(key) + computed.value(key) for key in keys)
    for primitive, feed in zip(primitives, feeds, strict=True):
        fold_columns |= dict.fromkeys(_feed_columns(primitive, feed))
        work += _feed_work(primitive, feed, computed)
    fed = list(zip(primitives, feeds, strict=True))
    return ReadShape(
        filter_columns=filter_columns,
        fold_columns=tuple(name for name in fold_columns if name not in filter_columns),
        filter_work=filter_work,
        fold_work=work,
        weighed_work=sum(_weighed_work(primitive, feed) for primitive, feed in fed),
        selectivity=selectivity(conditions),
        byte_work=tuple(each for primitive, feed in fed for each in _byte_work(primitive, feed)),
    )


def _columns(expressions: Iterable[Expression | None]) -> tuple[str, ...]:
    found = (expression.columns for expression in expressions if expression is not None)
    return tuple(dict.fromkeys(name for names in found for name in sorted(names)))


class _Computed:
    """The work of computing expressions on a row, each once however often a query has it."""

    def __init__(self, buckets: frozenset[str] = frozenset()) -> None:
        self._buckets = buckets
        self._known: set[Expression] = set()

    def conditions(self, conditions: Iterable[Expression], share: float = 1.0) -> float:
        """Return the work of conditions after others that a share of the rows passes."""
        by_columns: dict[frozenset[str], list[Expression]] = {}
        for condition in conditions:
            by_columns.setdefault(condition.columns, []).append(condition)
        work = 0.0
        for together in by_columns.values():
            own = _CONDITION_WORK
            for condition in together:
                if not self._is_looked_up(condition):  # it compares what is computed first
                    own += sum(map(self.value, condition.children))
                self._known.add(condition)
            work += own if share >= _MASKED_SHARE_MIN else own * share
            share *= selectivity(together)
        return work

    def value(self, expression: Expression) -> float:
        """Return the work of computing a value."""
        if not isinstance(expression, Call) or not expression.columns:
            return 0.0
        if expression in self._known:
            return 0.0
        self._known.add(expression)
        if self._is_looked_up(expression):
            return _LOOK_UP_WORK
        types = {node.type for node in expression.walk() if isinstance(node, Column)}
        return _call_work(expression, types) + sum(map(self.value, expression.arguments))

    def _is_looked_up(self, expression: Expression) -> bool:
        """Whether an expression is computed for each value of a dictionary, not for each row."""
        return is_looked_up(expression, self._buckets)


def is_looked_up(expression: Expression, buckets: frozenset[str] = frozenset()) -> bool:
    """Whether an expression is over one column that mostly has a dictionary, or is of buckets."""
    columns = {node for node in expression.walk() if isinstance(node, Column)}
    return len(columns) == 1 and all(
        column.name in buckets or _has_dictionary(column.type) for column in columns
    )


def _key_work(key: Expression) -> float:
    if pa.types.is_floating(key.type) or pa.types.is_decimal(key.type):
        return _KEY_WORK + _UNRANKED_KEY_WORK
    return _KEY_WORK


def _has_dictionary(type_: pa.DataType) -> bool:
    """Whether columns of a type mostly have a dictionary: numbers and times mostly have none."""
    return not any(is_of(type_) for is_of in _PLAIN)


def _call_work(call: Call, types: set[pa.DataType]) -> float:
    measured = measured_work(call)
    if measured is not None:
        return measured.own
    if pa.types.is_decimal(call.type):
        return _DECIMAL_CALL_WORK
    if call.function in ("%", "div", "/"):
        return _DIVISION_WORK
    if any(map(_has_dictionary, types)):
        return _TEXT_CALL_WORK
    if call.function != "time_floor" and any(map(pa.types.is_timestamp, types)):
        return _TIME_CALL_WORK
    return _CALL_WORK


def _feed_columns(primitive: Primitive, feed: Feed) -> tuple[str, ...]:
    found: tuple[str, ...] = ()
    match feed:
        case MergeStates(prefix, condition):
            found = (*_stored_columns(primitive, prefix), *_columns([condition]))
        case AddWeighted(arguments, prefix, condition):
            found = (state_column_name(prefix, "count"), *_columns([*arguments, condition]))
        case AddPresence(prefix, other, _, condition):
            counts = [one for one in (prefix, other) if one is not None]
            found = tuple(state_column_name(one, "count") for one in counts)
            found = (*found, *_columns([condition]))
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


def _feed_work(primitive: Primitive, feed: Feed, computed: _Computed) -> float:
    """Return the work of a feed on each row of its source."""
    if isinstance(feed, FoldSeveral):
        return sum(_feed_work(primitive, part, computed) for part in feed.feeds)
    if isinstance(feed, FoldMultiple):
        per_row = sum(_CALL_WORK + computed.value(factor) for factor in feed.factors)
        return _feed_work(feed.primitive, feed.feed, computed) + per_row
    if isinstance(feed, MergeStates | AddPresence):
        work = primitive.kind.merge_work
    elif isinstance(feed, AddFunction):
        work = _OF_STATE_WORK + computed.value(feed.argument)
    elif isinstance(feed, AddRows | AddWeighted):
        work = primitive.kind.add_work if isinstance(feed, AddRows) else _WEIGH_WORK
        work += sum(map(computed.value, feed.arguments))
    else:
        return 0.0
    return work if feed.filter is None else work + computed.conditions([feed.filter])


def _weighed_work(primitive: Primitive, feed: Feed) -> float:
    """Return the work on each base row: rows are repeated where no product tells the result."""
    if not isinstance(feed, AddWeighted) or primitive.kind.is_weighed_whole:
        return 0.0
    is_product = primitive.kind.sums and not any(
        pa.types.is_floating(argument.type) for argument in feed.arguments
    )
    return 0.0 if is_product else _WEIGH_WORK + primitive.kind.add_work


def _byte_work(primitive: Primitive, feed: Feed) -> tuple[tuple[str, float], ...]:
    work = primitive.kind.merge_byte_work
    if not work or not isinstance(feed, MergeStates):
        return ()
    return tuple((name, work) for name in _stored_columns(primitive, feed.prefix))


def selectivity(conditions: Iterable[Expression]) -> float:
    """Return the share of the rows for which conditions are expected to be true."""
    share = 1.0
    for condition in conditions:
        function = condition.function if isinstance(condition, Call) else "="
        share *= _SELECTIVITY.get(function, _RANGE_SELECTIVITY)
    return share
