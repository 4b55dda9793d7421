"""Groups of several grouping sets: the finest are folded, each set from the smallest above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from projseg.aggregation.merge import merge_partials, regrouped
from projseg.aggregation.partial import Partial, with_keys
from projseg.algebra.aggregates.primitive import Primitive
from projseg.evaluation.arrow_vectors import grouping_vector
from projseg.segment_format.vectors.arrow_arrays import primitive_array
from projseg.segment_format.vectors.vectors import Vector

_Keys = frozenset[int]


def groups_of_sets(
    finest: Partial, sets: Sequence[Sequence[int]], primitives: Sequence[Primitive]
) -> Partial:
    """Return the groups of all sets, with the grouping id as a further key.

    As in Spark, no rows make no groups, not even one of the empty set; and a set that is asked for
    twice is answered twice.

    Parameters
    ----------
    finest : Partial
        The groups by all keys.
    sets : sequence of sequence of int
        Positions of the keys of each set.
    primitives : sequence of Primitive
        The primitives of the states, in order.

    Returns
    -------
    Partial
        Keys that are not in a group's set are null. The last key has a bit for each, 1 where it is
        not in the set; the first is the highest.
    """
    key_count = len(finest.keys)
    known = _folded(finest, sets, primitives)
    parts = []
    for number, one in enumerate(sets):
        groups = known[frozenset(one)]
        number_vector = _constant(number, groups.group_count)
        parts.append(with_keys(groups, (*_all_keys(groups, one, finest), number_vector)))
    together = merge_partials(parts, primitives)
    ids = np.array([_grouping_id(one, key_count) for one in sets], np.int64)
    numbers = together.keys[key_count].to_arrow().to_numpy(zero_copy_only=False)
    return with_keys(
        together, (*together.keys[:key_count], grouping_vector(primitive_array(ids[numbers])))
    )


def _folded(
    finest: Partial, sets: Sequence[Sequence[int]], primitives: Sequence[Primitive]
) -> Mapping[_Keys, Partial]:
    """Return the groups of each set, whose keys ascend by position, larger sets first."""
    every = frozenset(range(len(finest.keys)))
    known: dict[_Keys, Partial] = {every: finest}
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
        own[number] if number in own else _nulls(key, groups.group_count)
        for number, key in enumerate(finest.keys)
    ]


def _nulls(like: Vector, count: int) -> Vector:
    return grouping_vector(pa.nulls(count, like.type))


def _constant(value: int, count: int) -> Vector:
    return grouping_vector(primitive_array(np.full(count, value, np.int64)))


def _grouping_id(chosen: Sequence[int], key_count: int) -> int:
    absent = (number for number in range(key_count) if number not in set(chosen))
    return sum(1 << (key_count - 1 - number) for number in absent)
