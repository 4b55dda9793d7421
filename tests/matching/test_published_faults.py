"""One test for each wrong result that other systems published, at the level of matching.

matching.md section 4. That rows come out right is tested on whole tables elsewhere; here it is that
no plan is made which could make them wrong.
"""

import pyarrow as pa
import pytest
from matching_cases import chosen, facts, micros, only_plan, query, reason, spec
from msgspec.structs import replace

from projseg.algebra.aggregates.state_columns import stored_column
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.planning.planner import check_forced
from projseg.algebra.planning.source_plan import AddRows, AddWeighted, Known, MergeStates
from projseg.algebra.projection.parse import parse_projection
from projseg.algebra.proofs.segment_facts import ColumnFacts
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.request import Query
from projseg.errors import InvalidInputError

HOURLY = spec(
    "hourly", ["date_trunc('HOUR', time) AS h", "channel"], ["sum(added) AS a", "count(*) AS n"]
)


def test_druid_18215_a_floor_coarser_than_the_buckets_is_recomputed():
    days = facts(HOURLY, end="2024-03-12T23:59:30")
    plan = only_plan(query(group_by="date_trunc('DAY', time)"), days)
    assert plan.source == HOURLY
    assert to_sql(plan.keys[0]) == "date_trunc('DAY', `date_trunc('HOUR', time)`)"


def test_druid_18486_an_unaligned_interval_is_not_rounded():
    question = query(aggregators="sum(added)", interval="2024-03-10T05:30/2024-03-10T07:00")
    plans = chosen(question, facts(HOURLY)).plans
    assert [(plan.source_name, plan.interval.start_us) for plan in plans] == [
        ("hourly", micros("2024-03-10T06:00")),
        (None, micros("2024-03-10T05:30")),
    ]
    timeless = spec("timeless", ["channel"], ["sum(added)"])
    assert reason(question, timeless).startswith("UNALIGNED_INTERVAL")


def test_druid_17711_buckets_are_sought_by_their_own_start():
    segment = facts(HOURLY, start="2024-03-10T05:40:00", end="2024-03-10T08:10:00")
    question = query(aggregators="sum(added)", interval="2024-03-10T05:20/2024-03-10T07:00")
    plan = only_plan(question, segment)
    assert plan.interval.start_us == micros("2024-03-10T05:00")


def test_druid_18532_a_filter_on_a_virtual_column_reads_the_stored_one():
    one = spec("p", ["upper(page) AS v", "channel"], ["count(*)"])
    plan = only_plan(query(aggregators="count(*)", filter="upper(page) = 'A'"), facts(one))
    assert to_sql(plan.filter) == "`upper(page)` = 'A'"
    assert reason(query(aggregators="count(*)", filter="page = 'A'"), one) == (
        "FILTER_COLUMN_NOT_STORED page"
    )


def test_a_column_that_the_projection_only_filtered_by_is_not_there_to_filter_by():
    one = spec("p", ["page"], ["count(*)"], where="channel IN ('#en', '#fr')")
    question = query(group_by="page", filter="channel = '#en'", aggregators="count(*)")
    assert reason(question, one) == "FILTER_COLUMN_NOT_STORED channel"


def test_druid_19599_plans_speak_of_values_never_of_ids():
    one, other = facts(HOURLY), facts(HOURLY, columns={"channel": ColumnFacts("#x", "#z")})
    question = query(group_by="channel", filter="channel > '#en'", aggregators="sum(added)")
    plans = [only_plan(question, segment) for segment in (one, other)]
    assert plans[0].keys == plans[1].keys
    assert [plan.filter and to_sql(plan.filter) for plan in plans] == ["channel > '#en'", None]


def test_doris_47650_a_grouping_column_is_not_summed_once_a_group():
    counted = spec("p", ["channel", "added"], ["count(*)"])
    plan = only_plan(query(group_by="channel", aggregators="sum(added), count(added)"),
                     facts(counted))  # fmt: skip
    weighed, merged = plan.feeds
    assert weighed == AddWeighted((stored_column(counted.grouping[1].expression),), "count(*)")
    assert merged == MergeStates("count(*)")
    bare = spec("p", ["channel", "added"])
    question = query(group_by="channel", aggregators="sum(added)")
    assert reason(question, bare) == "AGGREGATOR_NOT_STORED sum(added)"
    assert reason(query(group_by="channel", aggregators="count(*)"), bare) == (
        "AGGREGATOR_NOT_STORED count(*)"
    )


def test_doris_40803_all_plans_of_a_query_feed_the_same_keys_and_primitives():
    question = query(group_by="date_trunc('DAY', time), channel", aggregators="avg(added)",
                     interval="2024-03-10T05:30/2024-03-10T09:10")  # fmt: skip
    plans = chosen(question, facts(HOURLY)).plans
    assert len(plans) == 3
    for plan in plans:
        assert [key.type for key in plan.keys] == [n.expression.type for n in question.keys]
        assert len(plan.feeds) == len(question.primitives) == 2


def test_starrocks_75235_a_filtered_projection_serves_no_unfiltered_query():
    one = spec("p", ["channel"], ["sum(added)"], where="robot")
    assert reason(query(group_by="channel", aggregators="sum(added)"), one) == (
        "FILTER_NOT_IMPLIED robot = TRUE"
    )
    other = query(group_by="channel", aggregators="sum(added)", filter="NOT robot")
    assert reason(other, one) == "FILTER_NOT_IMPLIED robot = TRUE"


def test_starrocks_72799_narrow_sums_are_merged_as_states_not_summed_again():
    schema = pa.schema([("c", pa.string()), ("n", pa.int8())])
    one = parse_projection({"name": "p", "group_by": ["c"], "aggregators": ["sum(n) AS n"]}, schema)
    plan = only_plan(bind_query(schema, None, Query(aggregators="sum(n)")), facts(one))
    assert plan.feeds == (MergeStates("sum(n)"),)


def test_pinot_or_over_nested_and_and_not_is_kept_whole():
    text = "NOT (channel = '#en' AND hour(time) < 3) OR (channel > '#x' AND NOT hour(time) = 7)"
    plan = only_plan(query(filter=text, aggregators="sum(added)"), facts(HOURLY))
    assert plan.source == HOURLY
    assert plan.filter.function == "or"
    one_foreign = query(filter=f"({text}) OR page = 'A'", aggregators="sum(added)")
    assert reason(one_foreign, HOURLY) == "FILTER_COLUMN_NOT_STORED page"
    filtered = spec("p", ["channel"], ["sum(added)"], where="channel = '#en' AND robot")
    either = query(filter="channel = '#en' OR robot", aggregators="sum(added)")
    assert reason(either, filtered).startswith("FILTER_NOT_IMPLIED")


def test_clickhouse_50613_deleted_rows_are_not_in_answers():
    segment = facts(HOURLY, deleted_row_count=1)
    plan = only_plan(query(aggregators="sum(added)"), segment)
    assert plan.source == HOURLY
    assert plan.subtracted_rows.rows.row_count == segment.deleted_row_count
    assert only_plan(query(aggregators="max(added)"), segment).source_name is None
    (known,) = only_plan(query(aggregators="count(*)"), segment).feeds
    assert known == Known(segment.row_count - 1)


def test_clickhouse_121221_a_name_that_means_something_else_in_an_older_segment():
    new = spec("p", ["page"], ["sum(added)"])
    old = spec("p", ["channel"], ["sum(added)"])
    question = query(group_by="page", aggregators="sum(added)")
    assert chosen(question, facts(old), [new]).plans[0].source is None
    assert chosen(question, facts(new), [new]).plans[0].source == new
    by_channel = query(group_by="channel", aggregators="sum(added)")
    assert chosen(by_channel, facts(old), [new]).plans[0].source == old


def test_clickhouse_103052_distinct_over_a_partly_projected_table():
    question = query(group_by="channel", aggregators="count(DISTINCT channel)")
    from_projection = only_plan(question, facts(HOURLY))
    from_base = only_plan(question, facts())
    assert from_projection.source == HOURLY
    assert from_base.source is None
    assert all(isinstance(plan.feeds[0], AddRows) for plan in (from_projection, from_base))


def test_clickhouse_77091_loosened_bounds_are_no_extremes():
    loose = facts(columns={"channel": ColumnFacts("#a", "#zz", is_exact=False)})
    assert not only_plan(query(aggregators="min(channel)"), loose).is_metadata
    exact = facts(columns={"channel": ColumnFacts("#a", "#zz")})
    assert only_plan(query(aggregators="min(channel)"), exact).is_metadata


def test_clickhouse_24780_forced_mode_on_empty_input():
    question = query(group_by="page", context={"forceProjections": True})
    check_forced(question, {})
    check_forced(question, {"s": chosen(question, facts(HOURLY, row_count=0))})


@pytest.mark.parametrize("lg_k", [4, 11, 13, 21])
def test_pinot_sketches_of_fewer_buckets_are_other_sketches(lg_k):
    one = spec("p", ["channel"], [f"hll_sketch_agg(user, {lg_k})"])
    question = query(group_by="channel", aggregators="hll_sketch_agg(user)")
    is_smaller = "AGGREGATOR_NOT_STORED hll_sketch_agg(user, 12)"
    assert reason(question, one) == (is_smaller if lg_k < 12 else "serves")


def test_clickhouse_43107_a_column_added_later_is_null_in_older_segments():
    older = facts(HOURLY, without=["robot"])
    question = query(group_by="channel, robot", aggregators="sum(added)", filter="robot IS NULL")
    plan = only_plan(question, older)
    assert plan.source == HOURLY
    assert plan.keys[1].value is None
    newer = facts(HOURLY, columns={"robot": ColumnFacts(False, True, null_count=2)})
    assert reason(question, HOURLY, newer) == "MISSING_GROUPING_COLUMN robot"


def test_pinot_17028_clickhouse_60006_a_projection_that_failed_to_build_leaves_the_segment_usable():
    segment = facts(not_built={"hourly": "[PROJSEG_OVERFLOW] sum(added) does not fit"})
    choice = chosen(query(group_by="channel", aggregators="sum(added)"), segment, [HOURLY])
    assert choice.plans[0].source is None
    assert "PROJSEG_OVERFLOW" in str(choice.rejected["hourly"])


def test_druid_18380_the_order_of_candidates_does_not_matter():
    twins = [replace(HOURLY, name=name) for name in ("b", "a", "c")]
    question = query(group_by="channel", aggregators="sum(added)")
    found = {
        only_plan(question, facts(*order)).source_name
        for order in (twins, twins[::-1], [*twins[1:], twins[0]])
    }
    assert found == {"a"}


@pytest.mark.parametrize("day", ["2025-03-09", "2025-11-02"])
def test_days_across_a_clock_change_are_made_of_hours_not_of_utc_days(day):
    segment = facts(
        HOURLY,
        spec("daily", ["date_trunc('DAY', time) AS d"], ["sum(added)"]),
        start=f"{day}T00:00:00",
        end=f"{day}T23:59:00",
    )
    question = query(group_by="date_trunc('DAY', time)", aggregators="sum(added)",
                     context={"timezone": "America/Los_Angeles"})  # fmt: skip
    choice = chosen(question, segment)
    assert choice.plans[0].source == HOURLY
    assert str(choice.rejected["daily"]).startswith("TIME_ZONE")


def test_an_aggregate_named_like_a_base_column_is_never_that_column():
    one = spec("p", ["channel"], ["sum(deleted) AS added", "max(added) AS page"])
    segment = facts(one)
    assert reason(query(group_by="added"), one) == "MISSING_GROUPING_COLUMN added"
    assert reason(query(group_by="channel", filter="added > 4"), one, segment) == (
        "FILTER_COLUMN_NOT_STORED added"
    )
    assert reason(query(group_by="channel", aggregators="sum(added)"), one) == (
        "AGGREGATOR_NOT_STORED sum(added)"
    )
    plan = only_plan(query(group_by="channel", aggregators="sum(deleted) AS anything"), segment)
    assert plan.feeds == (MergeStates("sum(deleted)"),)


def test_a_query_alias_like_a_grouping_column_is_only_a_name():
    plan = only_plan(query(group_by="channel AS h", aggregators="sum(added) AS channel"),
                     facts(HOURLY))  # fmt: skip
    assert plan.source == HOURLY
    assert to_sql(plan.keys[0]) == "channel"
    with pytest.raises(InvalidInputError, match="two outputs"):
        query(group_by="channel", aggregators="sum(added) AS channel")
