"""Random rows for aggregate states, folded in all the ways in which rows can reach a state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from projseg.aggregation.state import Groups, State, ids_of, narrowed
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.primitive import Primitive
from projseg.evaluation.arrow_vectors import numbers_of_array
from projseg.segment_format.logical_types import TIMESTAMP, is_fixed_width
from projseg.segment_format.vectors import Opaque, Vector

INT64 = st.one_of(
    st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(1000, 70000)
)
VALUES_BY_TYPE: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.int64(): INT64,
    pa.float32(): st.floats(width=32),
    pa.float64(): st.one_of(st.sampled_from([0.0, -0.0, float("nan")]), st.floats()),
    pa.decimal128(9, 2): st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    pa.decimal128(28, 0): st.integers(-(10**28) + 1, 10**28 - 1).map(Decimal),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=3),
    pa.binary(): st.binary(max_size=3),
    pa.date32(): st.dates(),
    TIMESTAMP: st.datetimes(timezones=st.just(UTC)),
}
NUMERIC_TYPES = [
    t for t in VALUES_BY_TYPE if pa.types.is_integer(t) or pa.types.is_floating(t)
    or pa.types.is_decimal(t)
]  # fmt: skip


@dataclass
class Rows:
    """Rows cut into batches: for each batch the groups and the values of each input."""

    types: tuple[pa.DataType, ...]
    group_count: int
    batches: list[tuple[list[int], list[list[Any]]]]

    @property
    def groups(self) -> list[int]:
        """The group of every row."""
        return [group for groups, _ in self.batches for group in groups]

    def values(self, index: int = 0) -> list[Any]:
        """The values of one input, all rows."""
        return [value for _, inputs in self.batches for value in inputs[index]]


@st.composite
def rows_of(
    draw: st.DrawFn, *types: pa.DataType, strategies: tuple[Any, ...] | None = None
) -> Rows:
    """Draw rows in up to four batches, with nulls, repeats and empty groups."""
    # The largest needs 32-bit ids; it is rare because the oracle then makes 70,000 lists.
    group_count = draw(st.sampled_from([1, 1, 2, 2, 2, 5, 5, 5, 5, 300, 300, 70_000]))
    chosen = strategies or tuple(VALUES_BY_TYPE[t] for t in types)
    columns = [st.none() | values for values in chosen]
    group = st.integers(0, group_count - 1) | st.integers(0, min(2, group_count - 1))
    row = st.tuples(group, *columns)
    batches = []
    for _ in range(draw(st.integers(0, 4))):
        drawn = draw(st.lists(row, max_size=12))
        groups = [r[0] for r in drawn]
        batches.append((groups, [[r[i + 1] for r in drawn] for i in range(len(types))]))
    return Rows(types, group_count, batches)


def vector_of(values: list[Any], value_type: pa.DataType, form: str) -> Vector:
    """Return the values as a vector of one of the FORMS."""
    array = pa.array(values, value_type)
    if form == "ids":
        return ids_of(Opaque(array))
    if form == "opaque" or not is_fixed_width(value_type):
        return Opaque(array)
    numbers = numbers_of_array(array)
    return narrowed(numbers) if form == "narrow" else numbers


FORMS = ["ids", "opaque", "numbers", "narrow"]


def groups_of(ids: list[int], group_count: int) -> Groups:
    """Return groups with ids of the narrowest type; without ids if there is one group."""
    if group_count == 1:
        return Groups(None, 1, len(ids))
    dtype = np.uint8 if group_count <= 256 else np.uint16 if group_count <= 65536 else np.uint32
    return Groups(np.array(ids, dtype), group_count, len(ids))


def folded(primitive: Primitive, rows: Rows, choose: Callable[[list[str]], str]) -> State:
    """Fold the batches into one state; `choose` decides which are added and which are merged."""
    state = new_state(primitive, rows.group_count)
    for ids, inputs in rows.batches:
        groups = groups_of(ids, rows.group_count)
        vectors = [
            vector_of(values, value_type, choose(FORMS))
            for values, value_type in zip(inputs, rows.types, strict=True)
        ]
        if choose(["add", "merge"]) == "add":
            state.add(groups, vectors)
        else:
            merge_apart(state, primitive, groups, vectors)
    return state


def merge_apart(state: State, primitive: Primitive, groups: Groups, vectors: list[Vector]) -> None:
    """Fold rows into a new state of only their groups, and merge that into `state`."""
    ids = np.zeros(groups.row_count, np.uint8) if groups.ids is None else groups.ids
    present, local = np.unique(ids, return_inverse=True)
    part = new_state(primitive, len(present))
    part.add(Groups(local.astype(np.uint32), len(present), len(ids)), vectors)
    columns = part.columns()
    stored = {name: len(vector) for name, vector in columns.items()}
    assert set(stored.values()) == {len(present)}
    ids = None if groups.ids is None and len(present) == 1 else present
    state.merge(Groups(ids, groups.count, len(present)), columns)
