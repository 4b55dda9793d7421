"""States without those of some rows, against their slow twin."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from subtracted_rows import left_of

from projseg.aggregation.fold import fold_base_rows
from projseg.aggregation.subtract_deleted import without
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.tree import Column
from projseg.errors import CorruptSegmentError
from projseg.evaluation.arrow_vectors import vector_of_array
from projseg.evaluation.rows import MemorySource, RowIds, Rows, all_rows

INTEGERS = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
DECIMALS = (st.integers(-9, 9) | st.integers(-(10**36), 10**36)).map(Decimal)
KEYS = st.sampled_from(["a", "b", "c", None])


def partials(rows, arrow_type, positions, has_keys):
    """What all rows fold into, and what those at `positions` do."""
    keys, values = zip(*rows, strict=True)
    vectors = {
        "k": vector_of_array(pa.array(keys, pa.string())),
        "v": vector_of_array(pa.array(values, arrow_type)),
    }
    source = MemorySource(len(rows), vectors)
    value = Column(arrow_type, "v")
    primitives = [Primitive("sum", (value,)), Primitive("count", (value,))]
    if pa.types.is_integer(arrow_type):
        primitives.append(Primitive("bit_xor", (value,)))
    primitives.append(Primitive("count", ()))
    grouping = [Column(pa.string(), "k")] if has_keys else []
    gone = Rows(source, RowIds(np.array(sorted(positions), np.uint32)))
    return (
        primitives,
        fold_base_rows(all_rows(source), grouping, primitives),
        fold_base_rows(gone, grouping, primitives),
    )


def rows_of(partial, primitives, has_keys):
    columns = {p.function + str(len(p.arguments)): i for i, p in enumerate(primitives)}
    keys = partial.keys[0].to_arrow().to_pylist() if has_keys else [None]

    def values(name):
        if name not in columns:
            return [None] * partial.group_count
        (vector,) = partial.state_columns(columns[name]).values()
        return vector.to_arrow().to_pylist()

    found = zip(values("count0"), values("count1"), values("sum1"), values("bit_xor1"), strict=True)
    return dict(zip(keys, found, strict=True))


@pytest.mark.parametrize("has_keys", [True, False])
@pytest.mark.parametrize(
    ("arrow_type", "values"), [(pa.int64(), INTEGERS), (pa.decimal128(38, 0), DECIMALS)]
)
@given(data=st.data())
def test_it_is_the_fold_of_the_rows_that_are_left(data, arrow_type, values, has_keys):
    rows = data.draw(st.lists(st.tuples(KEYS, st.none() | values), min_size=1, max_size=30))
    deleted = data.draw(st.sets(st.integers(0, len(rows) - 1)))
    primitives, stored, gone = partials(rows, arrow_type, deleted, has_keys)
    is_count = [p.function == "count" for p in primitives]
    left = without(
        stored,
        gone,
        primitives,
        row_count=len(primitives) - 1 if has_keys else None,
        value_counts=[None if one else 1 for one in is_count],
        path="x",
    )
    found = rows_of(left, primitives, has_keys)
    wanted = left_of([(key if has_keys else None, value) for key, value in rows], deleted)
    if not has_keys:
        wanted = wanted or {None: (0, 0, None, None)}
    for key, (count, known, total, bits) in wanted.items():
        bits = bits if pa.types.is_integer(arrow_type) else None
        assert found.pop(key) == (count, known, total, bits)
    assert not found


def test_more_taken_out_than_there_is_means_damage():
    primitives, stored, _ = partials([("a", 1), ("b", 2)], pa.int64(), {0}, True)
    _, more, _ = partials([("a", 1), ("a", 1)], pa.int64(), {0}, True)
    with pytest.raises(CorruptSegmentError, match="verify"):
        without(stored, more, primitives, row_count=3, value_counts=[1], path="x")
