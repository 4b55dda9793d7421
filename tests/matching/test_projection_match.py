"""Each reason of matching.md section 3, and each way to answer of section 2."""

import pyarrow as pa
import pytest
from matching_cases import (
    BASE_ROWS,
    SCHEMA,
    chosen,
    facts,
    instant,
    only_plan,
    query,
    reason,
    spec,
)

from projseg.algebra.expressions.render import to_sql
from projseg.algebra.planning.source_plan import AddRows, AddWeighted, FoldSeveral, MergeStates
from projseg.algebra.proofs.segment_facts import ColumnFacts
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.request import Query

HOURLY = spec(
    "hourly",
    ["date_trunc('HOUR', time) AS h", "channel"],
    ["sum(added) AS added", "count(*) AS n", "max(delta) AS d", "hll_sketch_agg(user) AS u"],
)
DAILY = spec("daily", ["to_date(time) AS d", "page"], ["sum(added)", "count(deleted)"])
TIMELESS = spec("timeless", ["channel", "page"], ["sum(added)", "count(*)"])
EXACT = spec("exact", ["time", "channel"], ["sum(added)", "count(*)"])
FILTERED = spec("filtered", ["page"], ["sum(added)", "count(*)"], where="channel IN ('#en', '#fr')")


@pytest.mark.parametrize(
    ("one", "parts", "expected"),
    [
        (HOURLY, {"columns": "channel"}, "ROW_SCAN"),
        (HOURLY, {"group_by": "page"}, "MISSING_GROUPING_COLUMN page"),
        (HOURLY, {"group_by": "channel, upper(page)"}, "MISSING_VIRTUAL_COLUMN upper(page)"),
        (spec("v", ["upper(page) AS u"]), {"group_by": "lower(page)"},
         "MISSING_VIRTUAL_COLUMN lower(page)"),
        (HOURLY, {"group_by": "date_trunc('MINUTE', time)"},
         "GRANULARITY_TOO_COARSE date_trunc('MINUTE', time)"),
        (HOURLY, {"group_by": "time"}, "GRANULARITY_TOO_COARSE time"),
        (HOURLY, {"group_by": "minute(time)"}, "GRANULARITY_TOO_COARSE minute(time)"),
        (TIMELESS, {"group_by": "date_trunc('DAY', time)"},
         "GRANULARITY_TOO_COARSE date_trunc('DAY', time)"),
        (HOURLY, {"group_by": "timestamp_floor(time, 'PT1H', null, 'Asia/Kolkata')"},
         "TIME_ZONE in_zone('Asia/Kolkata', date_trunc('HOUR', time))"),
        (DAILY, {"group_by": "timestamp_floor(time, 'P1D', null, 'America/Los_Angeles')"},
         "TIME_ZONE in_zone('America/Los_Angeles', date_trunc('DAY', time))"),
        (TIMELESS, {"aggregators": "sum(added)", "interval": "2024-03-10T03:00/P1D"},
         "UNALIGNED_INTERVAL the projection keeps no time"),
        (DAILY, {"aggregators": "sum(added)", "interval": "2024-03-10T03:00/PT2H"},
         "UNALIGNED_INTERVAL 2024-03-10T03:00:00Z/2024-03-10T05:00:00Z holds no whole P1D"),
        (FILTERED, {"group_by": "page"}, "FILTER_NOT_IMPLIED channel IN ('#en', '#fr')"),
        (FILTERED, {"group_by": "page", "filter": "channel = '#de'"},
         "FILTER_NOT_IMPLIED channel IN ('#en', '#fr')"),
        (FILTERED, {"group_by": "page", "filter": "channel = '#en'"},
         "FILTER_COLUMN_NOT_STORED channel"),
        (HOURLY, {"group_by": "channel", "filter": "page = 'B' OR channel = '#en'"},
         "FILTER_COLUMN_NOT_STORED page"),
        (HOURLY, {"group_by": "channel", "filter": "minute(time) = 3"},
         "GRANULARITY_TOO_COARSE minute(time) = 3"),
        (HOURLY, {"aggregators": "sum(deleted)"}, "AGGREGATOR_NOT_STORED sum(deleted)"),
        (HOURLY, {"aggregators": "sum(added) FILTER (WHERE robot)"},
         "AGGREGATOR_NOT_STORED sum(added) FILTER (WHERE robot)"),
        (HOURLY, {"group_by": "channel", "aggregators": "count(user)"},
         "AGGREGATOR_NOT_STORED count(user)"),
        (HOURLY, {"aggregators": "count(DISTINCT user)"},
         "AGGREGATOR_NOT_STORED count(DISTINCT user)"),
        (HOURLY, {"aggregators": "hll_sketch_agg(user, 14)"},
         "AGGREGATOR_NOT_STORED hll_sketch_agg(user, 14)"),
        (DAILY, {"group_by": "page", "aggregators": "count(*)"}, "AGGREGATOR_NOT_STORED count(*)"),
        (HOURLY, {"aggregators": "sum(added DIV 2)"},
         "AGGREGATOR_NOT_STORED sum(added DIV 2L)"),
        (HOURLY, {"group_by": "channel", "context": {"noProjections": True}},
         "DISABLED noProjections is set"),
        (HOURLY, {"group_by": "channel", "context": {"excludeProjections": "hourly"}},
         "EXCLUDED excludeProjections names it"),
        (HOURLY, {"group_by": "channel", "context": {"useProjection": "other"}},
         "EXCLUDED useProjection names 'other'"),
    ],
)  # fmt: skip
def test_reasons(one, parts, expected):
    assert reason(query(**parts), one) == expected


def test_a_projection_that_a_segment_lacks_is_not_in_segment():
    question = query(group_by="channel")
    assert str(chosen(question, facts(), [HOURLY]).rejected["hourly"]) == "NOT_IN_SEGMENT"
    failed = facts(not_built={"hourly": "sum(added) overflows"})
    found = chosen(question, failed, [HOURLY]).rejected["hourly"]
    assert str(found) == "NOT_IN_SEGMENT not built: sum(added) overflows"


@pytest.mark.parametrize(
    ("one", "parts"),
    [
        (HOURLY, {"group_by": "channel"}),
        (HOURLY, {"group_by": "window(time, '1 hour').start AS w, channel AS c"}),
        (HOURLY, {"group_by": "date_trunc('DAY', time), upper(channel)"}),
        (HOURLY, {"group_by": "date_trunc('WEEK', time)"}),
        (HOURLY, {"group_by": "year(time), hour(time), to_date(time)"}),
        (HOURLY, {"group_by": "timestamp_floor(time, 'P1D', null, 'America/Los_Angeles')"}),
        (HOURLY, {"group_by": "timestamp_floor(time, 'PT1H', null, 'America/Los_Angeles')"}),
        (HOURLY, {"aggregators": "avg(added), sum(added), count(*), max(delta)"}),
        (HOURLY, {"group_by": "channel", "aggregators": "count(added)"}),
        (HOURLY, {"aggregators": "count(channel), count(DISTINCT channel), min(channel)"}),
        (HOURLY, {"aggregators": "approx_count_distinct(user), hll_sketch_agg(user, 12)"}),
        (HOURLY, {"aggregators": "sum(added) FILTER (WHERE channel = '#en')"}),
        (HOURLY, {"aggregators": "count_if(channel > '#en' AND hour(time) < 3)"}),
        (HOURLY, {"aggregators": "sum(length(channel)), min_by(channel, length(channel))"}),
        (HOURLY, {"filter": "NOT (channel = '#en' OR (channel > '#x' AND hour(time) = 3))",
                  "aggregators": "sum(added)"}),
        (HOURLY, {"filter": "time < timestamp '2024-03-10 05:00:00Z' OR channel = '#en'",
                  "aggregators": "sum(added)"}),
        (HOURLY, {"filter": "time <= timestamp '2024-03-10 04:59:59.999999Z' OR channel = '#en'",
                  "aggregators": "sum(added)"}),
        (DAILY, {"group_by": "date_trunc('DAY', time), month(time)"}),
        (DAILY, {"group_by": "to_date(time)", "aggregators": "count(deleted)"}),
        (DAILY, {"group_by": "to_date(time), trunc(time, 'MONTH'), date_trunc('YEAR', time)"}),
        (EXACT, {"group_by": "minute(time), channel", "aggregators": "sum(added)"}),
        (EXACT, {"aggregators": "first(channel), max(time), count(*)"}),
        (FILTERED, {"group_by": "page", "filter": "channel IN ('#fr', '#en')"}),
        (FILTERED, {"aggregators": "sum(added)", "filter": "channel IN ('#fr', '#en')"}),
    ],
)  # fmt: skip
def test_what_a_projection_serves(one, parts):
    assert reason(query(**parts), one) == "serves"


def plan_of(one, segment=None, **parts):
    plan = only_plan(query(**parts), segment or facts(one))
    assert plan.source == one
    return plan


def test_keys_are_over_stored_columns_only():
    plan = plan_of(HOURLY, group_by="date_trunc('DAY', time), concat(channel, '!')")
    stored = {column.name for column in HOURLY.column_by_expression.values()}
    assert all(key.columns <= stored for key in plan.keys)
    assert to_sql(plan.keys[1]) == "concat(channel, '!')"


def test_feeds_of_the_four_kinds():
    one = spec("p", ["channel"], ["sum(added)", "sum(deleted)", "count(*)"])
    segment = facts(one, columns={"deleted": ColumnFacts(0, 500)})
    plan = plan_of(one, segment, aggregators="sum(added), max(channel), sum(length(channel)), "
                                             "sum(added + deleted)")  # fmt: skip
    merge, add, weigh, several = plan.feeds
    assert merge == MergeStates("sum(added)")
    assert isinstance(add, AddRows)
    assert isinstance(weigh, AddWeighted)
    assert weigh.count_prefix == "count(*)"
    assert several == FoldSeveral((MergeStates("sum(added)"), MergeStates("sum(deleted)")))


@pytest.mark.parametrize(
    "columns",
    [
        {"deleted": ColumnFacts(0, 500, null_count=1)},
        {"deleted": ColumnFacts(0, 2**62), "added": ColumnFacts(0, 2**62)},
        {"deleted": ColumnFacts()},
    ],
)
def test_sum_of_a_sum_needs_no_nulls_and_no_overflow(columns):
    one = spec("p", ["channel"], ["sum(added)", "sum(deleted)"])
    found = reason(query(aggregators="sum(added + deleted)"), one, facts(one, columns=columns))
    assert found.startswith("AGGREGATOR_NOT_STORED sum(added + deleted")


def test_a_product_is_not_summed_where_a_row_may_overflow():
    one = spec("p", ["channel"], ["sum(added)", "count(*)"])
    question = query(aggregators="sum(added * 2), avg(added + 1)")
    assert reason(question, one, facts(one)) == "serves"
    near_the_end = facts(one, columns={"added": ColumnFacts(0, 2**62)})
    assert reason(question, one, near_the_end) == "AGGREGATOR_NOT_STORED sum(added * 2L)"


def test_a_count_is_not_taken_where_a_row_may_raise_an_error():
    one = spec("p", ["channel"], ["sum(added)", "count(*)"])
    question = query(group_by="channel", aggregators="count(added + 1)")
    assert reason(question, one, facts(one)) == "serves"
    at_the_end = facts(one, columns={"added": ColumnFacts(0, 2**63 - 1)})
    assert reason(question, one, at_the_end) == "AGGREGATOR_NOT_STORED count(added + 1L)"


def test_doubles_of_whole_numbers_are_summed_as_these_where_that_is_exact():
    one = spec("p", ["channel"], ["sum(added)"])
    question = query(aggregators="sum(CAST(added AS DOUBLE))")
    assert reason(question, one, facts(one)) == "serves"
    many = facts(one, columns={"added": ColumnFacts(0, 2**53 // BASE_ROWS + 1)})
    assert reason(question, one, many).startswith("AGGREGATOR_NOT_STORED")


def test_a_count_of_a_column_is_the_count_of_rows_only_without_nulls():
    question = query(group_by="channel", aggregators="count(deleted)")
    whole = facts(HOURLY, columns={"deleted": ColumnFacts(0, 5)})
    assert only_plan(question, whole).feeds == (MergeStates("count(*)"),)
    assert only_plan(question, facts(HOURLY)).source is None
    filtered = query(group_by="channel", aggregators="count(channel)", filter="channel > '#b'")
    assert only_plan(filtered, facts(HOURLY)).feeds == (MergeStates("count(*)"),)
    nulls = query(aggregators="count(channel), sum(added)")
    count, _ = only_plan(nulls, facts(HOURLY)).feeds
    assert to_sql(count.filter) == "channel IS NOT NULL"


def test_a_filter_proved_by_the_segment_is_dropped():
    question = query(group_by="page", aggregators="sum(added)", filter="channel = '#en'")
    only_en = {"channel": ColumnFacts("#en", "#en")}
    plan = only_plan(question, facts(FILTERED, columns=only_en))
    assert plan.source == FILTERED
    assert plan.filter is None


def test_a_filter_proved_false_empties_the_segment():
    question = query(group_by="page", filter="added > 10000")
    assert chosen(question, facts(FILTERED)).is_empty


def test_a_filter_the_projection_implies_is_dropped_and_the_rest_kept():
    one = spec("p", ["page"], ["count(*)"], where="added BETWEEN 10 AND 20")
    text = "added >= 10 AND added <= 20 AND page > 'C'"
    plan = plan_of(one, group_by="page", filter=text, aggregators="count(*)")
    assert to_sql(plan.filter) == "page > 'C'"


def test_a_global_aggregate_is_served_where_all_its_filters_imply_the_projections():
    one = spec("p", ["page"], ["sum(added)", "count(*)"], where="robot")
    plan = plan_of(one, aggregators="sum(added) FILTER (WHERE robot),"
                                    " count(*) FILTER (WHERE robot AND page = 'C')")  # fmt: skip
    assert plan.feeds[0] == MergeStates("sum(added)")
    grouped = query(group_by="page", aggregators="sum(added) FILTER (WHERE robot)")
    assert reason(grouped, one) == "FILTER_NOT_IMPLIED robot = TRUE"
    some = query(aggregators="sum(added) FILTER (WHERE robot), count(*)")
    assert reason(some, one) == "FILTER_NOT_IMPLIED robot = TRUE"


def test_a_stored_filtered_state_serves_where_the_query_implies_its_filter():
    one = spec("p", ["page", "robot"], ["sum(added) FILTER (WHERE channel = '#en')"])
    same = "sum(added) FILTER (WHERE channel = '#en')"
    assert plan_of(one, aggregators=same).feeds[0].filter is None
    narrower = plan_of(one, aggregators="sum(added) FILTER (WHERE channel = '#en' AND robot)")
    assert to_sql(narrower.feeds[0].filter) == "robot = TRUE"
    assert reason(query(aggregators="sum(added)"), one) == "AGGREGATOR_NOT_STORED sum(added)"


def test_a_column_that_the_segment_lacks_reads_as_null_and_disqualifies_nothing():
    segment = facts(HOURLY, without=["user"])
    plan = only_plan(
        query(group_by="channel, user", aggregators="sum(added), count(user), max(user)"), segment
    )
    assert plan.source == HOURLY
    assert plan.keys[1].value is None
    missing = query(group_by="channel", aggregators="sum(added)", filter="user = 'x'")
    assert chosen(missing, segment).is_empty
    negated = query(group_by="channel", aggregators="sum(added)", filter="user IS NULL")
    assert only_plan(negated, segment).filter is None


def test_first_by_time_of_a_lacking_column_still_minds_when_rows_happened():
    segment = facts(HOURLY, without=["user"])
    found = reason(query(aggregators="first(user)"), HOURLY, segment)
    assert found == "AGGREGATOR_NOT_STORED min_by(user, time)"


def test_a_column_of_one_value_stands_for_itself():
    segment = facts(TIMELESS, columns={"user": ColumnFacts("me", "me")})
    plan = only_plan(query(group_by="channel, user", aggregators="sum(added)"), segment)
    assert plan.source == TIMELESS
    assert plan.keys[1].value == "me"
    loose = facts(TIMELESS, columns={"user": ColumnFacts("me", "me", is_exact=False)})
    assert only_plan(query(group_by="user"), loose).source is None


def test_los_angeles_days_follow_the_clock_through_both_changes():
    question = query(group_by="timestamp_floor(time, 'P1D', null, 'America/Los_Angeles')",
                     aggregators="sum(added)")  # fmt: skip
    for start, end in [("2025-03-09T00:00:01", "2025-03-09T23:00:00"),
                       ("2025-11-02T00:00:01", "2025-11-02T23:00:00")]:  # fmt: skip
        assert only_plan(question, facts(HOURLY, start=start, end=end)).source == HOURLY
        assert only_plan(question, facts(DAILY, start=start, end=end)).source is None


def test_zones_are_judged_by_the_offsets_in_force_over_the_data():
    question = query(group_by="timestamp_floor(time, 'PT1H', null, 'Africa/Monrovia')",
                     aggregators="sum(added)")  # fmt: skip
    assert only_plan(question, facts(HOURLY)).source == HOURLY
    old = facts(HOURLY, start="1930-01-10T00:00:00", end="1930-01-10T23:00:00")
    assert only_plan(question, old).source is None  # Monrovia was 44.5 minutes behind


def test_floors_of_other_times_than_the_tables_serve_coarser_ones_too():
    one = spec("p", ["trunc(day, 'MONTH') AS m"], ["count(*)"])
    question = query(group_by="trunc(day, 'YEAR')", aggregators="count(*)")
    years = facts(one, start="2023-12-31T00:00:30")
    assert only_plan(question, years).source == one
    finer = query(group_by="day", aggregators="count(*)")
    assert reason(finer, one) == "GRANULARITY_TOO_COARSE day"
    schema = SCHEMA.append(pa.field("seen", pa.timestamp("us", tz="UTC")))
    hours = spec("p", ["date_trunc('HOUR', seen) AS h"], ["count(*)"], schema=schema)
    days = "timestamp_floor(seen, 'P1D', null, 'Africa/Monrovia')"
    local = bind_query(schema, "time", Query(aggregators="count(*)", group_by=days))
    for year, source in [(2024, hours), (1930, None)]:
        seen = ColumnFacts(instant(f"{year}-01-10"), instant(f"{year}-01-11"))
        assert only_plan(local, facts(hours, columns={"seen": seen})).source == source
    unknown = facts(hours, columns={"seen": ColumnFacts()})
    assert only_plan(local, unknown).source is None
    assert only_plan(local, facts(hours)).source == hours  # the segment lacks it: all null


def test_a_stored_expression_is_recognised_in_any_spelling():
    one = spec("p", ["added + deleted AS both", "coalesce(page, 'x') AS q"], ["count(*)"])
    plan = plan_of(one, group_by="deleted + added, ifnull(`page`, 'x') AS anything",
                   aggregators="count(*)")  # fmt: skip
    assert [len(key.columns) for key in plan.keys] == [1, 1]


def test_a_query_over_an_empty_segment_reads_nothing():
    assert chosen(query(group_by="channel"), facts(HOURLY, row_count=0)).is_empty
    after = query(group_by="channel", interval="2025-01-01/P1D")
    assert chosen(after, facts(HOURLY)).is_empty
