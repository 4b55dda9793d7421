"""Which of several sources planning expects to be quicker, where measurements are clear."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
from matching_cases import BASE_ROWS, SCHEMA, facts, only_plan, query, spec
from msgspec.structs import replace

from projseg.algebra.planning.call_work import _TABLE as CALLS
from projseg.algebra.projection.parse import parse_projection
from projseg.algebra.proofs.segment_facts import ColumnFacts, ProjectionFacts
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.request import Query

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


def test_a_function_costs_what_was_measured():
    of_pages = "translate(page, channel, channel)"
    assert CALLS["translate of texts"].own > CALLS["concat of texts"].own
    costs = [
        _base_cost(aggregators="max(page), max(channel)"),
        _base_cost(aggregators="max(concat(page, channel))"),
        _base_cost(aggregators=f"max({of_pages})"),
    ]
    assert costs == sorted(set(costs))
    assert costs[2] - costs[1] > BASE_ROWS * 100


def test_a_tenth_of_the_rows_is_quicker_whatever_is_asked():
    segment = _with_rows(BASE_ROWS // 10, BY_PAGE)
    for group_by in ("channel", "page", "channel, page"):
        question = query(group_by=group_by, aggregators="sum(added), count(*)")
        assert only_plan(question, segment).source == BY_PAGE


def test_merging_sketches_of_nearly_every_row_is_slower_than_the_rows():
    question = query(group_by="channel", aggregators="hll_sketch_agg(user)")
    assert only_plan(question, _with_rows(BASE_ROWS // 10, SKETCHED)).source is None
    assert only_plan(question, _with_rows(BASE_ROWS // 10_000, SKETCHED)).source == SKETCHED


def test_merging_sketches_of_a_fiftieth_of_the_rows_is_quicker_than_the_rows():
    for call in ("theta_sketch_agg(user)", "kll_sketch_agg_bigint(added)"):
        question = query(group_by="channel", aggregators=call)
        sketched = spec("sketched", ["channel", "page"], [call])
        assert only_plan(question, _with_rows(BASE_ROWS // 50, sketched)).source == sketched


def test_states_beside_sketches_do_not_bear_their_cost():
    question = query(group_by="channel", aggregators="sum(added)")
    assert only_plan(question, _with_rows(BASE_ROWS // 10, SKETCHED)).source == SKETCHED


def test_states_of_most_rows_are_wider_than_the_values():
    question = query(aggregators="sum(added), count(*)")
    assert only_plan(question, _with_rows(BASE_ROWS * 9 // 10, BY_PAGE)).source is None
    assert only_plan(question, _with_rows(BASE_ROWS // 10, BY_PAGE)).source == BY_PAGE


def test_an_expression_costs_once_however_often_a_query_has_it():
    once, twice, other = (
        _base_cost(group_by="added % 7", aggregators=f"sum({argument})")
        for argument in ("added", "added % 7", "deleted % 7")
    )
    assert once == twice < other


def test_what_a_dictionary_decides_costs_less_than_what_each_row_computes():
    assert _base_cost(group_by="dayofweek(day)") < _base_cost(group_by="hour(time)")


def test_rows_in_no_order_of_time_bear_the_reading_of_their_times():
    declaration = {"name": "by_user", "columns": ["time", "channel", "added"], "order_by": "added"}
    by_added = parse_projection(declaration, SCHEMA, time_column="time")
    sizes = {"time": 4 * BASE_ROWS, "channel": BASE_ROWS, "added": BASE_ROWS}
    stored = ProjectionFacts(by_added, BASE_ROWS, 6 * BASE_ROWS, sizes)
    segment = replace(facts(), projections=(stored,))
    totals = {"group_by": "channel", "aggregators": "sum(added)"}
    assert only_plan(query(**totals), segment).source == by_added
    slice_of_day = query(**totals, interval="2024-03-10T05:00/PT3H")
    assert only_plan(slice_of_day, segment).source is None


def test_sets_bear_the_bytes_that_are_merged():
    distinct = spec("distinct", ["channel"], ["count(DISTINCT user)"])
    question = query(aggregators="count(DISTINCT user)")
    for byte_count, is_used in ((100_000, True), (1_000_000, False)):
        sizes = {"channel": 300, "distinct(user).values": byte_count}
        stored = ProjectionFacts(distinct, 300, byte_count + 300, sizes)
        plan = only_plan(question, replace(facts(), projections=(stored,)))
        assert (plan.source == distinct) == is_used


def test_sketches_of_quantiles_bear_the_values_that_are_sorted_again():
    """Three hundred sketches, whose bytes take longer to merge than rows to be sketched."""
    sketched = spec("sketched", ["channel"], ["kll_sketch_agg_bigint(added)"])
    question = query(aggregators="kll_sketch_agg_bigint(added)")
    for byte_count, is_used in ((500_000, True), (1_300_000, False)):
        sizes = {"channel": 300, "kll(added, 200).sketch": byte_count}
        stored = ProjectionFacts(sketched, 300, byte_count + 300, sizes)
        plan = only_plan(question, replace(facts(), projections=(stored,)))
        assert (plan.source == sketched) == is_used


def test_a_filtered_product_comes_from_rows_where_groups_are_nearly_as_many():
    """TPC-H's Q6 over a million rows, or over nine tenths as many groups."""
    price = pa.decimal128(15, 2)
    schema = pa.schema(
        [("l_shipdate", pa.date32()), *((f"l_{n}", price) for n in ("quantity", "price", "off"))]
    )
    daily = parse_projection(
        {
            "name": "daily",
            "group_by": ["l_shipdate", "l_off", "l_quantity"],
            "aggregators": ["sum(l_price * l_off)"],
        },
        schema,
        time_column=None,
    )
    segment = replace(
        facts(),
        columns={
            "l_shipdate": ColumnFacts(date(1992, 1, 2), date(1998, 12, 1)),
            "l_quantity": ColumnFacts(Decimal(1), Decimal(50)),
            "l_off": ColumnFacts(Decimal(0), Decimal("0.10")),
            "l_price": ColumnFacts(Decimal(900), Decimal(105_000)),
        },
        column_bytes=dict.fromkeys(schema.names, 2 * BASE_ROWS),
        projections=(ProjectionFacts(daily, BASE_ROWS * 9 // 10, 20 * BASE_ROWS),),
    )
    q6 = bind_query(
        schema,
        None,
        Query(
            aggregators="sum(l_price * l_off)",
            filter="l_shipdate >= DATE'1994-01-01' AND l_shipdate < DATE'1995-01-01'"
            " AND l_off BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
        ),
    )
    assert only_plan(q6, segment).source is None
