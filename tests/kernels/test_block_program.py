"""Block programs against their twin, and programs that reach for what is not there."""

import block_program as oracle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

from projseg.errors import InvalidInputError
from projseg.kernels.block_operations import Operation as Op
from projseg.kernels.block_program import BLOCK_ROWS, BlockProgram
from projseg.segment_format.arrow_arrays import WIDE, to_objects

EDGES = [0, 1, -1, 2, 7, 10, -(2**63), 2**63 - 1, 2**53, -(2**31)]
DOUBLES = [0.0, -0.0, 1.5, -2.25, 1e308, float("inf"), float("-inf"), float("nan")]
BITS = [oracle.as_bits(double) for double in DOUBLES]
LONGS = st.sampled_from([*EDGES, *BITS]) | st.integers(-(2**63), 2**63 - 1)
LOADED = [
    (Op.CONSTANT, 0, 0, 0, 0, 5, 0),
    (Op.LOAD_LONG, 1, 3, 0, 0, 0, 0),
    (Op.LOAD_LONG, 2, 4, 0, 0, 0, 0),
    (Op.LOAD_BYTE, 3, 0, 0, 0, -3, 0),
    (Op.LOAD_SHORT, 4, 1, 0, 0, 9, 0),
    (Op.LOAD_WORD, 5, 2, 0, 0, 1 << 40, 0),
    (Op.LOOK_UP_BYTE, 6, 0, 3, 0, 0, 0),
    (Op.LOOK_UP_SHORT, 7, 1, 4, 0, 0, 0),
    (Op.LOOK_UP_WORD, 8, 2, 3, 0, 0, 0),
]
HALVES = [
    (Op.LOAD_LOW_HALF, 10, 5, 0, 0, 0, 0),
    (Op.LOAD_HIGH_HALF, 11, 5, 0, 0, 0, 0),
]
STORED = [(Op.STORE_LONG, 0, 9, 0, 0, 3, 0), (Op.STORE_BYTE, 0, 9, 1, 0, 0, 0)]


def columns_of(first, second):
    count = len(first)
    ids = np.arange(count)[::-1]
    return [
        ids.astype(np.uint8),
        ids.astype(np.uint16),
        ids.astype(np.uint32),
        np.array(first, np.int64),
        np.array(second, np.int64),
        np.array([*zip(first, second, strict=True)], WIDE),
    ]


def is_same(found, expected, operation):
    """Whether values agree; one NaN is as good as another."""
    if operation not in oracle.DOUBLES:
        return found == expected
    doubles = [
        [oracle.as_double(oracle.wrapped(one + 3)) for one in some] for some in (found, expected)
    ]
    return np.array_equal(*doubles, equal_nan=True)


@given(
    st.lists(st.tuples(LONGS, LONGS), min_size=1, max_size=6),
    st.tuples(*[st.integers(0, 8)] * 3),
    st.integers(1, 10**18),
    LONGS,
)
@settings(max_examples=tries(40), deadline=None)
def test_every_step_is_what_its_twin_does(rows, registers, low, high):
    columns = columns_of(*zip(*rows, strict=True))
    for operation in Op:
        if operation >= Op.STORE_BYTE:
            continue
        step = (operation, 9, *registers, low, high)
        if operation <= Op.LOOK_UP_WORD:
            known = [*LOADED, *HALVES]
            step = next((op, 9, *rest) for op, _, *rest in known if op == operation)
        if operation in (Op.DIVIDE_HALVES, Op.DIVIDE_HALVES_HIGH):
            step = (operation, 9, *registers, low % (2**31 - 1) + 1, high % 2)
        steps = [*LOADED, (Op.SELECT, 9, 1, 2, 0, 0, 0), step, *STORED]
        values, truths = np.empty(len(rows), np.int64), np.empty(len(rows), np.uint8)
        succeeded = BlockProgram(steps, columns, len(rows), 1).run(0, len(rows), [values, truths])
        expected = oracle.run(steps, columns, 0, len(rows))
        assert succeeded == (expected is not None)
        if expected is not None:
            assert is_same(values.tolist(), expected[0], operation)
        if expected is not None and operation not in oracle.DOUBLES:
            assert truths.tolist() == [value % 256 for value in expected[1]]


@given(
    st.lists(st.tuples(LONGS, LONGS), min_size=1, max_size=6),
    st.sampled_from([1, 2, 10, 10**9, 2**31 - 1]),
    st.integers(0, 1),
)
@settings(max_examples=tries(200), deadline=None)
def test_halves_are_divided_as_whole_numbers(pairs, divisor, is_half_up):
    values = np.array(pairs, WIDE)
    found = np.empty(len(pairs), WIDE)
    steps = [
        *HALVES,
        (Op.DIVIDE_HALVES, 12, 10, 11, 0, divisor, is_half_up),
        (Op.DIVIDE_HALVES_HIGH, 13, 10, 11, 0, divisor, is_half_up),
        (Op.STORE_LOW_HALF, 0, 12, 0, 0, 0, 0),
        (Op.STORE_HIGH_HALF, 0, 13, 0, 0, 0, 0),
    ]
    columns = [np.zeros(len(pairs), np.int64)] * 5 + [values]
    assert BlockProgram(steps, columns, len(pairs), 0).run(0, len(pairs), [found])
    divided = oracle.half_up if is_half_up else oracle.truncated
    whole = [divided(value, divisor) for value in to_objects(values).tolist()]
    edge = 1 << 127
    assert to_objects(found).tolist() == [(one + edge) % (2 * edge) - edge for one in whole]


def test_blocks_follow_one_another_from_any_row():
    count = 2 * BLOCK_ROWS + 100
    numbers = np.arange(count, dtype=np.uint32)
    steps = [
        (Op.CONSTANT, 0, 0, 0, 0, 2, 0),
        (Op.LOAD_WORD, 1, 0, 0, 0, 1, 0),
        (Op.MULTIPLY, 2, 0, 1, 0, 0, 0),
        (Op.STORE_WORD, 0, 2, 0, 0, 7, 0),
    ]
    program = BlockProgram(steps, [numbers], count, 1)
    for start, end in [(0, count), (50, count), (BLOCK_ROWS, 2 * BLOCK_ROWS + 1), (3, 3)]:
        found = np.empty(end - start, np.uint32)
        assert program.run(start, end, [found])
        assert found.tolist() == [(2 * (row + 1) - 7) % 2**32 for row in range(start, end)]


def test_columns_that_cannot_be_written_are_read():
    numbers = np.frombuffer(np.arange(4).tobytes(), np.int64)
    found = np.empty(4, np.int64)
    steps = [(Op.LOAD_LONG, 0, 0, 0, 0, 0, 0), (Op.STORE_LONG, 0, 0, 0, 0, 0, 0)]
    assert BlockProgram(steps, [numbers], 4, 0).run(0, 4, [found])
    assert found.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "step",
    [
        (Op.LOAD_LONG, 0, 1, 0, 0, 0, 0),  # no such column
        (Op.LOAD_BYTE, 0, 0, 0, 0, 0, 0),  # of another width
        (Op.LOAD_LONG, 64, 0, 0, 0, 0, 0),  # no such register
        (Op.LOAD_LONG, -1, 0, 0, 0, 0, 0),
        (Op.LOAD_LONG, 0, -1, 0, 0, 0, 0),
        (Op.ADD, 0, 1, 0, 0, 0, 0),
        (Op.SELECT, 0, 0, 0, 1, 0, 0),
        (Op.STORE_LONG, 0, 1, 0, 0, 0, 0),
        (Op.STORE_LONG, 0, 0, 2, 0, 0, 0),
        (Op.LOOK_UP_WORD, 0, 2, 0, 0, 0, 0),  # id 5 of 3 values
        (Op.LOOK_UP_WORD, 0, 2, 2, 0, 0, 0),  # a table of another width
        (Op.LOOK_UP_BYTE, 0, 2, 0, 0, 0, 0),
        (Op.DIVIDE_HALF_UP, 0, 0, 0, 0, 0, 0),
        (Op.LOAD_LOW_HALF, 0, 0, 0, 0, 0, 0),
        (Op.DIVIDE_HALVES, 0, 0, 0, 0, 0, 0),
        (Op.DIVIDE_HALVES_HIGH, 0, 0, 0, 0, 2**31, 0),
    ],
)
def test_a_step_that_reaches_for_what_is_not_there_is_refused(step):
    columns = [np.arange(3), np.arange(2, dtype=np.uint8), np.array([5, 0, 0], np.uint32)]
    if step[0] == Op.LOAD_LONG and step[2] == 1:
        columns = columns[:1]
    with pytest.raises(InvalidInputError, match="what is not there"):
        BlockProgram([step], columns, 3, 0)


def test_columns_that_are_too_short_and_outputs_without_room_are_refused():
    steps = [(Op.LOAD_LONG, 0, 0, 0, 0, 0, 0), (Op.STORE_LONG, 0, 0, 0, 0, 0, 0)]
    with pytest.raises(InvalidInputError, match="what is not there"):
        BlockProgram(steps, [np.arange(3)], 4, 0)
    program = BlockProgram(steps, [np.arange(3)], 3, 0)
    for start, end in ((0, 4), (-1, 2), (2, 1), (0, 3)):
        with pytest.raises(InvalidInputError, match="no room"):
            program.run(start, end, [np.empty(2, np.int64)])
