"""How what a read has to do is divided among tasks: all rows once, in order, in fit portions."""

from hypothesis import given
from hypothesis import strategies as st

from projseg.segment_format.format_limits import PAGE_ROWS_MAX
from projseg.spark_datasource.task_split import (
    ROWS_WORK_MAX,
    ROWS_WORK_MIN,
    Piece,
    SegmentWork,
    shares_of,
    work_of_a_task,
)

PART_ROWS_MIN = 4 * PAGE_ROWS_MAX
works = st.builds(
    SegmentWork,
    nanoseconds=st.integers(0, 3_000_000_000),
    row_count=st.one_of(st.just(0), st.integers(1, 20_000_000)),
)


def rows_of(work, piece):
    return (0, work.row_count) if piece.rows is None else piece.rows


@given(st.lists(works, max_size=8), st.integers(0, 500_000_000))
def test_tasks_read_all_rows_once_in_order(works, of_a_task):
    shares = shares_of(works, of_a_task)
    pieces = [piece for share in shares for piece in share]
    assert [piece.index for piece in pieces] == sorted(piece.index for piece in pieces)
    assert all(shares) or shares == [[]]
    for index, work in enumerate(works):
        parts = [piece for piece in pieces if piece.index == index]
        ends = [rows_of(work, piece) for piece in parts]
        assert [start for start, _ in ends] == [0, *(end for _, end in ends[:-1])]
        assert ends[-1][1] == work.row_count
        assert all(start % PAGE_ROWS_MAX == 0 for start, _ in ends)
        if len(parts) > 1:
            assert all(end - start >= PART_ROWS_MIN - PAGE_ROWS_MAX for start, end in ends)
        else:
            assert parts[0].rows is None


@given(st.lists(works, max_size=8), st.integers(1, 500_000_000))
def test_no_task_has_much_more_to_do_than_it_should(works, of_a_task):
    for share in shares_of(works, of_a_task):
        found = [
            works[piece.index].nanoseconds
            if piece.rows is None
            else works[piece.index].after(piece.rows[0]) - works[piece.index].after(piece.rows[1])
            for piece in share
        ]
        least = max((works[piece.index].of_a_part for piece in share), default=0)
        if len(found) > 1:
            assert sum(found) <= 1.1 * of_a_task + least + 1


def test_a_segment_is_cut_evenly_and_small_ones_stay_together():
    million = SegmentWork(100_000_000, 1_000_000)
    assert shares_of([million] * 5, 250_000_000) == [
        [Piece(0), Piece(1), Piece(2, (0, 524288))],
        [Piece(2, (524288, 1_000_000)), Piece(3), Piece(4)],
    ]
    small = SegmentWork(1_000_000, 10_000)
    assert shares_of([small] * 200, 100_000_000) == [
        [Piece(n) for n in range(110)],
        [Piece(n) for n in range(110, 200)],
    ]
    assert shares_of([SegmentWork(10**9)] * 2, 10**8) == [[Piece(0)], [Piece(1)]]
    assert shares_of([], 10**8) == [[]]


def test_no_part_is_too_small_to_be_worth_it():
    dear = SegmentWork(10**9, 3 * PART_ROWS_MIN)
    assert shares_of([dear], 1) == [
        [Piece(0, (0, PART_ROWS_MIN))],
        [Piece(0, (PART_ROWS_MIN, 2 * PART_ROWS_MIN))],
        [Piece(0, (2 * PART_ROWS_MIN, 3 * PART_ROWS_MIN))],
    ]
    assert shares_of([SegmentWork(10**9, 2 * PART_ROWS_MIN - 1)], 1) == [[Piece(0)]]


def test_a_task_has_its_share_within_bounds():
    assert work_of_a_task([SegmentWork(9 * ROWS_WORK_MAX)], 4) == ROWS_WORK_MAX * 3 // 4
    assert work_of_a_task([SegmentWork(8 * ROWS_WORK_MAX)], 4) == ROWS_WORK_MAX
    assert work_of_a_task([SegmentWork(10**6)] * 3, 4) == ROWS_WORK_MIN
    assert work_of_a_task([SegmentWork(100_000_000)] * 4, 4) == 100_000_000
