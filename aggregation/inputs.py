"""The inputs of aggregates over rows: values of arguments and masks, and exact products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.aggregation.state import (
    Groups,
    NumbersReader,
    State,
    WeighedState,
    both_valid,
    valid_rows,
)
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.primitive import Extreme, Primitive
from projseg.algebra.aggregates.state_columns import state_column_name
from projseg.algebra.expressions.tree import Expression, literal_array
from projseg.algebra.planning.source_plan import (
    AddFunction,
    AddPresence,
    AddRows,
    AddWeighted,
    Feed,
    FoldMultiple,
    FoldSeveral,
    Known,
    MergeStates,
)
from projseg.evaluation.arrow_vectors import grouping_vector
from projseg.evaluation.choose import evaluate_over, without_joins
from projseg.evaluation.in_blocks import block_values
from projseg.evaluation.masks import condition_mask
from projseg.evaluation.rows import MemorySource, Rows, all_rows
from projseg.kernels.fold_extremum import INT64_MAX
from projseg.kernels.row_selection import gather
from projseg.kernels.sorting import distinct
from projseg.memory.forks import late_import
from projseg.segment_format.vectors import Numbers, Opaque, Vector


def _multiplied(left: Numbers, right: Numbers | int) -> Numbers:
    """Return the products of unscaled integers, row by row; null where an operand is.

    They keep the type of `left`; `right` may be one number for all rows.
    """
    factors: NDArray[Any] | int
    if isinstance(right, int):
        low = high = right
        factors, validity = right, left.validity
    else:
        low, high = right.limits()
        factors, validity = right.wide(), both_valid(left.validity, right.validity)
    values = left.wide()
    least, largest = left.limits()
    if max(abs(least), abs(largest), 1) * max(abs(low), abs(high), 1) > INT64_MAX:
        values = values.astype(object)
    found = values * factors
    if validity is not None:
        found = np.where(validity, found, 0)
    return Numbers(found, left.type, validity=validity)


# How many rows a weighted fold makes of its rows at a time.
_UNFOLDED_ROWS_MAX: Final = 1 << 20
# States that are folded already: sum(x + 1) and sum(x + 2) share sum(x) and a count.
_Sums: TypeAlias = dict[tuple[Primitive, Feed], State]


def feed_states(
    states: Sequence[State],
    primitives: Sequence[Primitive],
    feeds: Sequence[Feed],
    rows: Rows,
    groups: Groups,
) -> None:
    """Fold `rows` into the state of each primitive, in the way that its feed says.

    Raises EvaluationError for a value that Spark's ANSI mode refuses.
    """
    sums: _Sums = {}
    values = _SharedValues(feeds, rows)
    fed = zip(primitives, feeds, states, strict=True)
    for primitive, feed, state in sorted(fed, key=lambda one: isinstance(one[1], FoldSeveral)):
        if isinstance(feed, AddRows) and feed.filter is None:
            _add_rows(state, primitive, feed, rows, groups, values.of)
        else:
            _feed_state(state, primitive, feed, rows, groups, sums)
        sums[primitive, feed] = state


class _SharedValues:
    """Values of rows, each expression computed once and held until no feed needs it again."""

    def __init__(self, feeds: Iterable[Feed], rows: Rows) -> None:
        self._rows = rows
        self._held: dict[Expression, Vector] = {}
        self._left = Counter(
            argument
            for feed in feeds
            if isinstance(feed, AddRows) and feed.filter is None
            for argument in feed.arguments
        )

    def of(self, expression: Expression) -> Vector:
        """Return the values of an expression."""
        found = self._held.pop(expression, None)
        if found is None:
            found = evaluate_over(expression, self._rows)
        self._left[expression] -= 1
        if self._left[expression] > 0:
            self._held[expression] = found
        return found


def _feed_state(
    state: State, primitive: Primitive, feed: Feed, rows: Rows, groups: Groups, sums: _Sums
) -> None:
    if isinstance(feed, FoldSeveral):
        for part in feed.feeds:
            _feed_state(state, primitive, part, rows, groups, sums)
        return
    if isinstance(feed, FoldMultiple):
        _add_multiple(state, primitive, feed, rows, groups, sums)
        return
    if isinstance(feed, Known):
        state.merge(Groups(None, 1, 1), known_columns(primitive, [feed.value]))
        return
    rows, groups = _filtered(feed.filter, rows, groups)
    match feed:
        case AddRows():
            _add_rows(state, primitive, feed, rows, groups, partial(evaluate_over, rows=rows))
        case AddFunction():
            state.add(groups, [_function_of_state(feed, rows)])
        case AddPresence():
            state.add(groups, [_presence(feed, rows)])
        case MergeStates():
            state.merge(groups, stored_states(primitive, feed.prefix, rows))
        case AddWeighted():
            inputs = [evaluate_over(argument, rows) for argument in feed.arguments]
            weights = _stored_counts(feed.count_prefix, rows)
            _add_weighted(state, primitive, groups, inputs, weights)


def _add_rows(
    state: State,
    primitive: Primitive,
    feed: AddRows,
    rows: Rows,
    groups: Groups,
    values_of: Callable[[Expression], Vector],
) -> None:
    if primitive.kind.sums and _add_in_blocks(state, feed.arguments[0], rows, groups):
        return
    state.add(groups, [*map(values_of, feed.arguments)])


def _add_in_blocks(state: State, argument: Expression, rows: Rows, groups: Groups) -> bool:
    """Add an expression's values as they are computed, if they are exact and cannot fail."""
    values = block_values(without_joins(argument, rows), rows)
    if values is None or values.may_fail or argument.type == pa.float64():
        return False
    for start, numbers in values.chunks(len(rows)):
        end = start + len(numbers)
        ids = None if groups.ids is None else groups.ids[start:end]
        state.add(Groups(ids, groups.count, len(numbers)), [numbers])
    return True


def _stored_counts(prefix: str, rows: Rows) -> NDArray[Any]:
    counts = rows.vector(state_column_name(prefix, "count"), is_state=True)
    assert isinstance(counts, Numbers)
    return counts.wide()


def _presence(feed: AddPresence, rows: Rows) -> Numbers:
    other = 0 if feed.other is None else _stored_counts(feed.other, rows)
    differ = _stored_counts(feed.prefix, rows) != other
    return Numbers((differ == feed.differ).view(np.uint8), pa.bool_())


def _function_of_state(feed: AddFunction, rows: Rows) -> Vector:
    columns = stored_states(feed.primitive, feed.prefix, rows)
    if feed.primitive.kind.is_thinned:
        columns = {"value": _extremes_of_sketches(feed, columns, len(rows))}
    (state,) = columns.values()
    names = feed.argument.columns - {feed.STATE}
    vectors = {feed.STATE: state, **{name: rows.vector(name) for name in names}}
    return evaluate_over(feed.argument, all_rows(MemorySource(len(rows), vectors)))


def _extremes_of_sketches(
    feed: AddFunction, columns: Mapping[str, Vector], row_count: int
) -> Vector:
    """Return the least or the greatest value of each sketch; a sketch keeps them as they are."""
    with late_import:
        from projseg.aggregation.kll import KllState
    sketches = KllState(feed.primitive, row_count)
    sketches.merge(_each_apart(row_count), columns)
    share = 0.0 if feed.extreme is Extreme.LEAST else 1.0
    return grouping_vector(sketches.percentiles([share], None))


def _each_apart(count: int) -> Groups:
    return Groups(np.arange(count, dtype=np.uint32), count, count)


def _add_multiple(
    state: State,
    primitive: Primitive,
    feed: FoldMultiple,
    rows: Rows,
    groups: Groups,
    sums: _Sums,
) -> None:
    ((part, arrow_type),) = primitive.fields
    if feed.factors:
        assert isinstance(feed.feed, MergeStates), "the states of rows are multiplied"
        rows, groups = _filtered(feed.feed.filter, rows, groups)
        numbers = _counted(stored_states(feed.primitive, feed.feed.prefix, rows))
        for factor in feed.factors:
            numbers = _multiplied(numbers, NumbersReader().read(evaluate_over(factor, rows)))
    else:
        inner = sums.get((feed.primitive, feed.feed))
        if inner is None:
            inner = new_state(feed.primitive, groups.count)
            _feed_state(inner, feed.primitive, feed.feed, rows, groups, sums)
            sums[feed.primitive, feed.feed] = inner
        numbers = _counted(inner.columns())
        groups = _each_apart(groups.count)
    found = _multiplied(numbers, feed.constant)
    if arrow_type == pa.float64():
        found = replace(found, values=found.wide().astype(np.float64), base=0, bounds=None)
    state.merge(groups, {part: replace(found, type=arrow_type)})


class SharedTerm(msgspec.Struct, frozen=True):
    """The sums or counts of groups, of which multiples are added to other sums.

    Groups without a value hold 0; no value is farther from 0 than `most`.
    """

    values: NDArray[Any]
    validity: NDArray[np.bool_] | None
    most: int

    @classmethod
    def of(cls, state: State) -> SharedTerm:
        """Return the term of a state of sums or counts."""
        numbers = _counted(state.columns())
        values = numbers.wide()
        if numbers.validity is not None:
            values = np.where(numbers.validity, values, 0)
        ends = (int(values.min()), int(values.max())) if len(values) else (0,)
        return cls(values, numbers.validity, max(map(abs, ends)))


def multiples_of(primitive: Primitive, terms: Sequence[tuple[int, SharedTerm]]) -> State:
    """Return the state of sums that are sums of multiples of other sums, group by group."""
    ((part, arrow_type),) = primitive.fields
    is_wide = sum(abs(factor) * term.most for factor, term in terms) > INT64_MAX
    is_wide = is_wide or any(term.values.dtype == object for _, term in terms)
    values: NDArray[Any] = np.zeros(1, object if is_wide else np.int64)
    valid: NDArray[np.bool_] | None = np.zeros(1, np.bool_)
    for factor, term in terms:
        own = term.values.astype(object) if is_wide else term.values
        values = values + own * factor
        valid = None if valid is None or term.validity is None else valid | term.validity
    if arrow_type == pa.float64():
        values = values.astype(np.float64)
    state = new_state(primitive, len(values))
    state.merge(_each_apart(len(values)), {part: Numbers(values, arrow_type, validity=valid)})
    return state


def _counted(columns: Mapping[str, Vector]) -> Numbers:
    """Return a sum or a count; a count of no rows is null, as a sum of none is."""
    ((part, numbers),) = columns.items()
    assert isinstance(numbers, Numbers), "sums and counts are numbers"
    if part != "count":
        return numbers
    counts = numbers.wide()
    return Numbers(counts, numbers.type, validity=counts > 0)


def _filtered(condition: Expression | None, rows: Rows, groups: Groups) -> tuple[Rows, Groups]:
    if condition is None:
        return rows, groups
    kept = np.flatnonzero(condition_mask(condition, rows)).astype(np.uint32)
    if len(kept) == len(rows):
        return rows, groups
    ids = None if groups.ids is None else gather(groups.ids, kept)
    return rows.subset(kept), Groups(ids, groups.count, len(kept))


def stored_states(primitive: Primitive, prefix: str, rows: Rows) -> dict[str, Vector]:
    """Return a stored state's columns by part name, one row for each row of the projection."""
    parts = [part for part, _ in primitive.fields]
    return {part: rows.vector(state_column_name(prefix, part), is_state=True) for part in parts}


def known_columns(primitive: Primitive, values: Sequence[object]) -> dict[str, Vector]:
    """Return the state columns of counts, minima or maxima that metadata knows, a row for each."""
    ((part, arrow_type),) = primitive.fields
    return {part: grouping_vector(literal_array(values, arrow_type))}


def _add_weighted(
    state: State,
    primitive: Primitive,
    groups: Groups,
    inputs: Sequence[Vector],
    weights: NDArray[np.int64],
) -> None:
    """Fold each row in `weights[row]` times, which may be 0."""
    if primitive.kind.counts:
        validity = valid_rows(inputs[0]) if inputs else None
        counted = weights if validity is None else np.where(validity, weights, 0)
        state.merge(groups, {"count": Numbers(counted, pa.int64())})
        return
    if isinstance(state, WeighedState):
        state.add_weighted(groups, inputs, weights)
        return
    product = _integer_product(inputs[0], weights) if primitive.kind.sums else None
    if product is not None:
        ((part, arrow_type),) = primitive.fields
        state.merge(groups, {part: replace(product, type=arrow_type)})
        return
    for start, end in _unfolded_slices(weights):
        repeated = np.repeat(np.arange(start, end), weights[start:end])
        ids = None if groups.ids is None else groups.ids[repeated]
        unfolded: list[Vector] = [vector.take(repeated) for vector in inputs]
        state.add(Groups(ids, groups.count, len(repeated)), unfolded)


def _integer_product(vector: Vector, weights: NDArray[np.int64]) -> Numbers | None:
    """Return values times weights, null where the weight is 0; None if one may exceed int64."""
    numbers = None if isinstance(vector, Opaque) else NumbersReader().read(vector)
    if numbers is None or numbers.values.dtype.kind not in "iu" or len(numbers) == 0:
        return None
    values = numbers.wide()
    largest = max(abs(int(values.min())), abs(int(values.max())))
    if largest * int(weights.max()) >= 1 << 63:
        return None
    counted = weights > 0 if numbers.validity is None else numbers.validity & (weights > 0)
    return Numbers(np.where(counted, values * weights, 0), numbers.type, validity=counted)


def _unfolded_slices(weights: NDArray[np.int64]) -> list[tuple[Any, Any]]:
    """Cut rows into slices whose weights add up to about `_UNFOLDED_ROWS_MAX` at most."""
    below = np.cumsum(weights)
    cuts = np.searchsorted(below, np.arange(0, below[-1] if len(below) else 0, _UNFOLDED_ROWS_MAX))
    edges = distinct(np.concatenate([[0], cuts, [len(weights)]]))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
