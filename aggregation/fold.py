"""Rows to groups to states: the one loop behind queries, projections and merging.

Building a projection is folding a segment's base rows; answering from one is folding its rows'
stored states; stitching segments is folding the states of all of them. Of several grouping sets the
finest groups are folded, and each set from the smallest above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.groups import GroupedRows, group_rows, is_dense
from projseg.aggregation.inputs import feed_states, known_columns, stored_states
from projseg.aggregation.keys import Key, WideKey, make_key, make_wide_key
from projseg.aggregation.partial import (
    Partial,
    StoredPartial,
    merge_partials,
    partial_of,
    regrouped,
    with_keys,
)
from projseg.aggregation.state import Groups
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.functions.datum import TextsTooLargeError
from projseg.algebra.expressions.tree import Column, Expression, Literal, literal_array
from projseg.algebra.planning.source_plan import (
    AddRows,
    Feed,
    FoldMultiple,
    FoldSeveral,
    Known,
    MergeStates,
    SourcePlan,
)
from projseg.evaluation.arrow_vectors import grouping_vector, values_by_id
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.rows import Rows
from projseg.segment_format.arrow_arrays import primitive_array
from projseg.segment_format.vectors import Ids, Vector


def fold(
    rows: Rows,
    keys: Sequence[Expression],
    primitives: Sequence[Primitive],
    feeds: Sequence[Feed],
    *,
    mask: NDArray[np.bool_] | None = None,
    in_order: bool = False,
    apart: bool = False,
) -> Partial:
    """Group rows by `keys` and fold them into a state of each primitive for each group.

    A feed adds rows or merges stored states. Only rows where `mask` is true count; groups ascend by
    their keys if `in_order`. With `apart`, each row may be a group, for the caller to merge. Raises
    EvaluationError for a value that Spark's ANSI mode refuses.
    """
    try:
        return _fold_together(rows, keys, primitives, feeds, mask, in_order=in_order, apart=apart)
    except TextsTooLargeError:
        if len(rows) <= 1:
            raise
    middle = len(rows) // 2
    halves = [
        fold(
            rows.slice(first, end),
            keys,
            primitives,
            feeds,
            mask=None if mask is None else mask[first:end],
            in_order=in_order,
        )
        for first, end in ((0, middle), (middle, len(rows)))
    ]
    return merge_partials(halves, primitives, in_order=in_order)


def _fold_together(
    rows: Rows,
    keys: Sequence[Expression],
    primitives: Sequence[Primitive],
    feeds: Sequence[Feed],
    mask: NDArray[np.bool_] | None,
    *,
    in_order: bool,
    apart: bool,
) -> Partial:
    if apart:
        rows = rows if mask is None else rows.where(mask)
        return _fold_into(_each_apart(rows, keys), primitives, feeds, rows)
    if mask is not None and not _may_fold_all(keys, primitives, feeds):
        rows, mask = rows.where(mask), None
    is_alone = len(keys) == 1
    group_keys = [_key(key, rows, is_alone=is_alone, in_order=in_order) for key in keys]
    if mask is not None and not is_dense(group_keys, len(rows)):
        rows, mask = rows.where(mask), None
        group_keys = [_key(key, rows, is_alone=is_alone, in_order=in_order) for key in keys]
    grouped = group_rows(group_keys, len(rows), in_order=in_order)
    if mask is not None:
        grouped = grouped.with_rest(mask)
    return _fold_into(grouped, primitives, feeds, rows)


def _each_apart(rows: Rows, keys: Sequence[Expression]) -> GroupedRows:
    """Return each row as a group of its own."""
    count = len(rows)
    groups = Groups(np.arange(count, dtype=np.uint32), count, count)
    return GroupedRows(groups, (), vectors=[evaluate_over(key, rows) for key in keys])


def _fold_into(
    grouped: GroupedRows, primitives: Sequence[Primitive], feeds: Sequence[Feed], rows: Rows
) -> Partial:
    states = [new_state(primitive, grouped.groups.count) for primitive in primitives]
    feed_states(states, primitives, feeds, rows, grouped.groups)
    return partial_of(grouped, states)


def _key(expression: Expression, rows: Rows, *, is_alone: bool, in_order: bool) -> Key | WideKey:
    """Return a key of rows; of an expression over a dictionary it is that of each value."""
    if not isinstance(expression, Column) and len(expression.columns) == 1:
        (name,) = expression.columns
        vector = rows.vector(name)
        if isinstance(vector, Ids) and len(vector.dictionary) <= len(vector):
            # Where a value fails that perhaps no row holds, the rows' own are evaluated.
            with suppress(ArithmeticError, TextsTooLargeError):
                by_id = values_by_id(expression, name, vector.dictionary)
                return make_key(by_id, in_order=in_order).take(vector.ids)
    make = make_key if is_alone else make_wide_key
    return make(evaluate_over(expression, rows), in_order=in_order)


def _may_fold_all(
    keys: Sequence[Expression], primitives: Sequence[Primitive], feeds: Sequence[Feed]
) -> bool:
    """Whether masked-out rows may be folded too: nothing can raise an error, all is quick."""
    return (
        all(isinstance(key, Column) for key in keys)
        and all(primitive.kind.is_quick for primitive in primitives)
        and all(_is_plain(feed) for feed in feeds)
    )


def _is_plain(feed: Feed) -> bool:
    if isinstance(feed, FoldSeveral):
        return all(map(_is_plain, feed.feeds))
    if isinstance(feed, FoldMultiple):
        return not feed.factors and _is_plain(feed.feed)
    if isinstance(feed, AddRows):
        return feed.filter is None and all(isinstance(a, Column) for a in feed.arguments)
    return isinstance(feed, MergeStates) and feed.filter is None


def fold_base_rows(
    rows: Rows, keys: Sequence[Expression], primitives: Sequence[Primitive]
) -> Partial:
    """Fold rows of the base table in key order, each primitive over its arguments and filter."""
    feeds = [AddRows(primitive.arguments, primitive.filter) for primitive in primitives]
    return fold(rows, keys, primitives, feeds, in_order=True)


def stored_partial(
    rows: Rows, keys: Sequence[Expression], primitives: Sequence[Primitive], feeds: Sequence[Feed]
) -> StoredPartial:
    """Return a projection's rows as a partial without folding; its grouping columns are the keys.

    Every feed must merge stored states, unfiltered.
    """
    columns = [
        stored_states(primitive, feed.prefix, rows)
        for primitive, feed in zip(primitives, feeds, strict=True)
        if isinstance(feed, MergeStates)
    ]
    vectors = [evaluate_over(key, rows) for key in keys]
    return StoredPartial(vectors, primitives, columns, len(rows))


def known_partial(plans: Sequence[SourcePlan], primitives: Sequence[Primitive]) -> StoredPartial:
    """Return the answers of metadata for several segments, a row for each, without folding.

    Every key must be a constant, and every feed known.
    """
    keys = [[plan.keys[place] for plan in plans] for place in range(len(plans[0].keys))]
    columns = [
        known_columns(primitive, [_value_of(plan.feeds[place]) for plan in plans])
        for place, primitive in enumerate(primitives)
    ]
    return StoredPartial([*map(constants, keys)], primitives, columns, len(plans))


def _value_of(feed: Feed) -> object:
    assert isinstance(feed, Known), "metadata answers all or nothing"
    return feed.value


def constants(literals: Sequence[Expression]) -> Vector:
    """Return constants of one type, at least one, as a vector to group by."""
    values = [literal.value for literal in literals if isinstance(literal, Literal)]
    return grouping_vector(literal_array(values, literals[0].type))


def groups_of_sets(
    finest: Partial, sets: Sequence[Sequence[int]], primitives: Sequence[Primitive]
) -> Partial:
    """Return the groups of all sets of key positions, with the grouping id as a further key.

    As in Spark, no rows make no groups, not even one of the empty set, and a set that is given
    twice is answered twice. Keys outside a group's set are null; the id has a bit for each key, the
    first the highest, which is 1 where the key is not in the set.
    """
    key_count = len(finest.keys)
    known = _folded(finest, sets, primitives)
    parts = []
    for number, one in enumerate(sets):
        groups = known[frozenset(one)]
        numbers = grouping_vector(primitive_array(np.full(groups.group_count, number, np.int64)))
        parts.append(with_keys(groups, (*_all_keys(groups, one, finest), numbers)))
    together = merge_partials(parts, primitives)
    *keys, numbers = together.keys
    ids = np.array([_grouping_id(one, key_count) for one in sets], np.int64)
    ids = ids[numbers.to_arrow().to_numpy(zero_copy_only=False)]
    return with_keys(together, (*keys, grouping_vector(primitive_array(ids))))


def _folded(
    finest: Partial, sets: Sequence[Sequence[int]], primitives: Sequence[Primitive]
) -> Mapping[frozenset[int], Partial]:
    """Return the groups of each set, whose keys ascend by position, larger sets first."""
    every = frozenset(range(len(finest.keys)))
    known = {every: finest}
    for wanted in sorted({frozenset(one) for one in sets} - {every}, key=len, reverse=True):
        above = min((k for k in known if wanted < k), key=lambda k: known[k].group_count)
        source = known[above]
        keys = [key for name, key in zip(sorted(above), source.keys, strict=True) if name in wanted]
        if source.group_count or wanted:
            known[wanted] = regrouped(source, keys, primitives)
        else:
            known[wanted] = with_keys(source, ())
    return known


def _all_keys(groups: Partial, chosen: Sequence[int], finest: Partial) -> Sequence[Vector]:
    """Return a vector for each key of the finest groups, null where a set lacks it."""
    own = dict(zip(sorted(set(chosen)), groups.keys, strict=True))
    return [
        own[number] if number in own else grouping_vector(pa.nulls(groups.group_count, key.type))
        for number, key in enumerate(finest.keys)
    ]


def _grouping_id(chosen: Sequence[int], key_count: int) -> int:
    absent = (number for number in range(key_count) if number not in set(chosen))
    return sum(1 << (key_count - 1 - number) for number in absent)
