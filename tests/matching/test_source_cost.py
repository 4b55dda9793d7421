"""Which of several sources planning expects to be quicker, where measurements are clear."""

from __future__ import annotations

from matching_cases import BASE_ROWS, facts, only_plan, query, spec
from msgspec.structs import replace

from projseg.algebra.proofs.segment_facts import ProjectionFacts

BY_PAGE = spec("by_page", ["channel", "page"], ["sum(added)", "count(*)"])
SKETCHED = spec("sketched", ["channel", "page"], ["hll_sketch_agg(user)", "sum(added)"])


def _with_rows(row_count, *specs):
    """A segment of projections of so many rows, with 8 bytes for each."""
    stored = tuple(ProjectionFacts(one, row_count, 8 * row_count) for one in specs)
    return replace(facts(), projections=stored)


def _base_cost(**parts):
    return only_plan(query(**parts), facts()).cost


def test_work_on_rows_rises_with_what_is_asked():
    costs = [
        _base_cost(aggregators="sum(added)"),
        _base_cost(group_by="added", aggregators="sum(added)"),
        _base_cost(group_by="added, month(day)", aggregators="sum(added)"),
        _base_cost(group_by="added, month(day)", aggregators="sum(added), hll_sketch_agg(user)"),
    ]
    assert costs == sorted(set(costs))


def test_a_tenth_of_the_rows_is_quicker_whatever_is_asked():
    segment = _with_rows(BASE_ROWS // 10, BY_PAGE)
    for group_by in ("channel", "page", "channel, page"):
        question = query(group_by=group_by, aggregators="sum(added), count(*)")
        assert only_plan(question, segment).source == BY_PAGE


def test_merging_sketches_of_nearly_every_row_is_slower_than_the_rows():
    question = query(group_by="channel", aggregators="hll_sketch_agg(user)")
    assert only_plan(question, _with_rows(BASE_ROWS // 10, SKETCHED)).source is None
    assert only_plan(question, _with_rows(BASE_ROWS // 10_000, SKETCHED)).source == SKETCHED


def test_states_beside_sketches_do_not_bear_their_cost():
    question = query(group_by="channel", aggregators="sum(added)")
    assert only_plan(question, _with_rows(BASE_ROWS // 10, SKETCHED)).source == SKETCHED


def test_states_of_most_rows_are_wider_than_the_values():
    question = query(aggregators="sum(added), count(*)")
    assert only_plan(question, _with_rows(BASE_ROWS * 9 // 10, BY_PAGE)).source is None
    assert only_plan(question, _with_rows(BASE_ROWS // 10, BY_PAGE)).source == BY_PAGE
