import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matching_cases import (
    BASE_ROWS,
    PROJECTION_ROWS,
    chosen,
    facts,
    micros,
    only_plan,
    query,
    spec,
)
from msgspec.structs import replace

from projseg.algebra.aggregates.state_columns import stored_column
from projseg.algebra.planning.match_projections import CandidateGroup
from projseg.algebra.planning.partial_match import Cover, cover, data_interval
from projseg.algebra.planning.planner import Planner, check_forced
from projseg.algebra.planning.source_plan import Known
from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.projection.spec import TimeGrouping
from projseg.algebra.proofs.segment_facts import ColumnFacts, ProjectionFacts
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import ProjectionNotUsableError

HOURLY = spec("hourly", ["date_trunc('HOUR', time) AS h", "channel"], ["sum(added)", "count(*)"])
DAILY = spec("daily", ["date_trunc('DAY', time) AS h", "channel"], ["sum(added)", "count(*)"])
TIMELESS = spec("timeless", ["channel"], ["sum(added)", "count(*)"])
SKETCHED = spec("sketched", ["channel"], ["hll_sketch_agg(user)"])
BY_CHANNEL = query(group_by="channel", aggregators="sum(added)")


def sized(*sizes, **more):
    """A segment of projections with (spec, rows, column bytes)."""
    segment = facts(**more)
    stored = tuple(
        ProjectionFacts(one, rows, sum(columns.values()), columns) for one, rows, columns in sizes
    )
    return replace(segment, projections=stored)


def test_the_cheapest_is_chosen_and_the_others_bear_both_costs():
    segment = sized((HOURLY, 9_000, {}), (DAILY, 400, {}))
    choice = chosen(BY_CHANNEL, segment)
    (plan,) = choice.plans
    assert plan.source == DAILY
    code, cost, *_, best = str(choice.rejected["hourly"]).split()
    assert code == "COSTLIER"
    assert int(best.replace(",", "")) == plan.cost < int(cost.replace(",", ""))


def test_cost_is_bytes_and_work_not_rows():
    wide = {"channel": 1_000, "hll(user, 12).sketch": 900_000_000}
    question = query(group_by="channel", aggregators="hll_sketch_agg(user)")
    assert only_plan(question, sized((SKETCHED, 200_000, wide))).source is None
    slim = {"channel": 1_000, "hll(user, 12).sketch": 100_000}
    assert only_plan(question, sized((SKETCHED, 1_000, slim))).source == SKETCHED


def test_ties_go_to_the_coarser_then_the_narrower_then_by_name():
    twin = replace(TIMELESS, name="a twin")
    wider = spec("wider", ["channel", "page"], ["sum(added)", "count(*)"])
    order = [HOURLY, DAILY, wider, TIMELESS, twin]
    for count in range(1, len(order) + 1):
        segment = sized(*((one, 100, {}) for one in reversed(order[:count])))
        assert only_plan(BY_CHANNEL, segment).source == order[count - 1]


@given(st.permutations([HOURLY, DAILY, TIMELESS, SKETCHED]))
def test_the_choice_does_not_depend_on_the_order_of_storage(specs):
    assert only_plan(BY_CHANNEL, facts(*specs)).source == TIMELESS


def test_base_rows_bear_no_reason_and_a_costlier_projection_does():
    segment = sized((HOURLY, BASE_ROWS, {"sum(added).sum": 10**9}), row_count=BASE_ROWS)
    choice = chosen(BY_CHANNEL, segment)
    assert choice.plans[0].source_name is None
    assert str(choice.rejected["hourly"]).startswith("COSTLIER")


def _holds(interval, micros):
    return interval.start_us <= micros < interval.end_us


class TestMetadata:
    @pytest.mark.parametrize(
        ("aggregators", "values"),
        [
            ("count(*)", [BASE_ROWS]),
            ("count(deleted), count(added)", [BASE_ROWS - 7, BASE_ROWS]),
            ("min(added), max(added)", [0, 9_000]),
            ("min(channel)", ["#ar"]),
            ("min(delta)", [-1.0]),
            ("count(*) FILTER (WHERE added >= 0)", [BASE_ROWS]),
            ("count(*) FILTER (WHERE day(time) > 30)", [0]),
            ("max(added) FILTER (WHERE to_date(time) < DATE '2024-03-10')", [None]),
            ("min(added) FILTER (WHERE month(time) = 3)", [0]),
            ("count(*) FILTER (WHERE channel = '#en')", None),
        ],
    )
    def test_whole_segments_are_answered_without_a_read(self, aggregators, values):
        plan = only_plan(query(aggregators=aggregators), facts(HOURLY))
        if values is None:
            assert plan.source == HOURLY
        else:
            assert plan.source_name == "metadata"
            assert [feed.value for feed in plan.feeds] == values

    @pytest.mark.parametrize(
        "parts",
        [
            {"aggregators": "min(page)"},  # the bound is loose
            {"aggregators": "count(*), sum(added)"},
            {"aggregators": "max(added + 1)"},
            {"group_by": "channel", "aggregators": "count(*)"},
            {"aggregators": "count(*)", "filter": "added > 5"},
            {"aggregators": "count(*)", "interval": "2024-03-10T05:00/P1D"},
            {"aggregators": "count(*)", "context": {"noProjections": True}},
            {"aggregators": "count(*)", "context": {"forceProjections": True}},
        ],
    )
    def test_what_metadata_does_not_know_is_read(self, parts):
        choice = chosen(query(**parts), facts(HOURLY))
        assert not any(plan.is_metadata for plan in choice.plans)
        assert choice.plans

    def test_nan_is_the_largest_value(self):
        plan = only_plan(query(aggregators="max(delta)"), facts())
        assert plan.feeds[0].value != plan.feeds[0].value

    def test_columns_of_nothing_have_no_extremes(self):
        empty = facts(columns={"user": ColumnFacts(null_count=BASE_ROWS)}, without=["page"])
        plan = only_plan(query(aggregators="max(user), min(page), count(page)"), empty)
        assert plan.feeds == (Known(None), Known(None), Known(0))

    def test_a_filter_that_every_row_fulfils_is_no_hindrance(self):
        question = query(aggregators="count(*)", filter="added >= 0 AND time IS NOT NULL")
        assert only_plan(question, facts()).is_metadata

    @pytest.mark.parametrize(
        ("aggregators", "values"),
        [
            ("count(*), count(added)", [BASE_ROWS - 3, BASE_ROWS - 3]),
            ("count(*), count(deleted)", None),  # whether a null was deleted is not known
            ("min(added)", None),
            ("max(added)", None),
        ],
    )
    def test_of_deleted_rows_metadata_know_how_many(self, aggregators, values):
        plan = only_plan(query(aggregators=aggregators), facts(deleted_row_count=3))
        assert plan.is_metadata == (values is not None)
        assert values is None or [feed.value for feed in plan.feeds] == values


class TestIntervals:
    def test_an_interval_over_all_data_is_no_condition(self):
        wide = query(group_by="channel", aggregators="sum(added)", interval="2024-03-10/P1D")
        plan = only_plan(wide, facts(TIMELESS))
        assert plan.source == TIMELESS
        assert plan.interval is None

    def test_an_aligned_interval_needs_no_base_rows(self):
        aligned = query(aggregators="sum(added)", interval="2024-03-10T05:00/PT3H")
        plan = only_plan(aligned, facts(HOURLY))
        assert plan.interval == Interval(micros("2024-03-10T05:00:00"), micros("2024-03-10T08:00"))
        assert plan.time_column == stored_column(HOURLY.grouping[0].expression).name
        assert plan.row_count == round(PROJECTION_ROWS * 3 * 3600 / (24 * 3600 - 60))

    def test_ragged_edges_are_read_from_base_rows_and_only_they(self):
        ragged = query(aggregators="sum(added)", interval="2024-03-10T05:30/2024-03-10T20:10")
        buckets, first, last = chosen(ragged, facts(HOURLY)).plans
        assert (buckets.source_name, first.source_name, last.source_name) == ("hourly", None, None)
        assert buckets.interval == Interval(micros("2024-03-10T06:00"), micros("2024-03-10T20:00"))
        assert first.interval == Interval(micros("2024-03-10T05:30"), micros("2024-03-10T06:00"))
        assert last.interval == Interval(micros("2024-03-10T20:00"), micros("2024-03-10T20:10"))
        assert first.time_column == last.time_column == "time"
        assert first.row_count < BASE_ROWS / 40

    def test_an_edge_may_come_from_finer_buckets(self):
        both = facts(DAILY, HOURLY, start="2024-03-01T00:00:00", end="2024-03-20T10:00:00")
        question = query(aggregators="sum(added)", interval="2024-03-01/2024-03-15T07:00")
        plans = chosen(question, both).plans
        assert [plan.source_name for plan in plans] == ["daily", "hourly"]

    def test_buckets_before_the_first_row_are_not_cut_off(self):
        # The hour's bucket starts before the smallest time of the data, where the query starts.
        question = query(aggregators="sum(added)", interval="2024-03-10T07:20/2024-03-10T09:00")
        late = facts(HOURLY, start="2024-03-10T07:45:00")
        plan = only_plan(question, late)
        assert plan.source == HOURLY
        assert plan.interval.start_us == micros("2024-03-10T07:00")

    def test_rows_without_time_are_left_out_by_any_interval(self):
        some_null = {"time": ColumnFacts(null_count=4)}
        wide = query(group_by="channel", aggregators="sum(added)", interval="2000-01-01/P100Y")
        segment = facts(TIMELESS, HOURLY, columns=some_null)
        choice = chosen(wide, segment)
        assert choice.plans[0].source == HOURLY
        assert choice.plans[0].interval is not None
        assert str(choice.rejected["timeless"]).startswith("UNALIGNED_INTERVAL")
        assert chosen(BY_CHANNEL, segment).plans[0].source == TIMELESS

    def test_dates_are_bounded_by_a_filter(self):
        by_date = spec("p", ["to_date(time) AS d", "channel"], ["sum(added)"])
        question = query(aggregators="sum(added)", interval="2024-03-05/2024-03-08")
        segment = facts(by_date, start="2024-03-01T00:00:00", end="2024-03-20T10:00:00")
        plan = only_plan(question, segment)
        assert plan.source == by_date
        assert plan.interval is None
        assert len(plan.filter.arguments) == 2

    @given(
        st.integers(0, 300), st.integers(0, 300), st.integers(0, 300), st.integers(0, 300),
        st.sampled_from(["PT1M", "PT1H", "PT30M", "none"]),
    )  # fmt: skip
    def test_a_cover_is_a_partition_at_bucket_boundaries(self, a, b, c, d, period):
        minute = 60_000_000
        data = Interval(min(a, b) * minute // 2, max(a, b) * minute // 2 + 1)
        wanted = Interval(min(c, d) * minute // 2, max(c, d) * minute // 2)
        if not wanted.overlaps(data):
            return
        buckets = Granularity.parse(period)
        found = cover(TimeGrouping(0, buckets), wanted, data, has_null_time=False)
        if isinstance(found, Reason):
            assert period != "none"
            return
        parts = [found.buckets or data, *found.edges]
        for time in range(data.start_us, data.end_us, minute // 4):
            is_wanted = _holds(wanted, time)
            in_edges = sum(_holds(edge, time) for edge in found.edges)
            bucket = buckets.floor_one(time)
            in_buckets = found.buckets is None or _holds(found.buckets, bucket)
            assert in_edges + in_buckets == is_wanted, (time, parts)


class TestContext:
    def forced(self, question, *segments):
        check_forced(question, {s.name: chosen(question, s, [HOURLY]) for s in segments})

    @pytest.mark.parametrize(
        ("context", "message"),
        [
            ({"useProjection": "hourly"},
             "Projection[hourly] specified, but does not satisfy query: segment segment-1: "
             "MISSING_GROUPING_COLUMN page"),
            ({"forceProjections": "true"},
             "Force projections specified, but none satisfy query: segment segment-1: "
             "hourly MISSING_GROUPING_COLUMN page, timeless MISSING_GROUPING_COLUMN page"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_forced_fails_with_reasons(self, context, message):
        question = query(group_by="page", context=context)
        with pytest.raises(ProjectionNotUsableError) as caught:
            self.forced(question, facts(HOURLY, TIMELESS))
        assert caught.value.code == "PROJSEG_PROJECTION_NOT_USABLE"
        assert caught.value.message == message

    @pytest.mark.parametrize("flag", [{"useProjection": "hourly"}, {"forceProjections": True}])
    def test_flags_fail_row_scans_and_pass_where_nothing_is_read(self, flag):
        scan = query(columns="page", context=flag)
        with pytest.raises(ProjectionNotUsableError, match="ROW_SCAN"):
            self.forced(scan, facts(HOURLY))
        self.forced(scan)
        self.forced(scan, facts(HOURLY, row_count=0))
        self.forced(query(columns="page", filter="added > 9999", context=flag), facts(HOURLY))

    def test_a_segment_without_the_projection_fails_use(self):
        question = query(group_by="channel", context={"useProjection": "hourly"})
        self.forced(question, facts(HOURLY))
        with pytest.raises(ProjectionNotUsableError, match="segment-1: NOT_IN_SEGMENT"):
            self.forced(question, facts(TIMELESS))

    def test_a_misspelt_name_is_recognised(self):
        question = query(group_by="channel", context={"useProjection": "hourli"})
        with pytest.raises(
            ProjectionNotUsableError, match=r"NOT_IN_SEGMENT; did you mean 'hourly'"
        ):
            self.forced(question, facts(HOURLY, TIMELESS))

    def test_a_forced_segment_prefers_a_costlier_projection_to_base_rows(self):
        dear = sized((HOURLY, BASE_ROWS, {"channel": 10**9}))
        assert only_plan(BY_CHANNEL, dear).source is None
        forced = query(group_by="channel", aggregators="sum(added)",
                       context={"forceProjections": True})  # fmt: skip
        assert only_plan(forced, dear).source == HOURLY

    def test_use_restricts_the_candidates(self):
        used = query(group_by="channel", aggregators="sum(added)",
                     context={"useProjection": "hourly"})  # fmt: skip
        choice = chosen(used, facts(HOURLY, DAILY))
        assert choice.plans[0].source == HOURLY
        assert str(choice.rejected["daily"]) == "EXCLUDED useProjection names 'hourly'"

    def test_no_projections_wins_silently(self):
        context = {"noProjections": True, "forceProjections": True, "useProjection": "nope"}
        question = query(group_by="page", context=context)
        self.forced(question, facts(HOURLY))
        assert only_plan(question, facts(HOURLY)).source is None

    def test_excluded_projections_do_not_serve(self):
        question = query(group_by="channel", context={"excludeProjections": "daily,timeless"})
        assert only_plan(question, facts(HOURLY, DAILY, TIMELESS)).source == HOURLY

    def test_many_failing_segments_are_counted(self):
        question = query(group_by="page", context={"forceProjections": True})
        segments = [replace(facts(HOURLY), name=f"s{n}") for n in range(9)]
        with pytest.raises(ProjectionNotUsableError, match="and 6 more segments"):
            self.forced(question, *segments)


def test_a_planner_gives_each_segment_what_choose_gives():
    question = query(
        group_by="date_trunc('DAY', time), channel",
        aggregators="sum(added), count(deleted)",
        filter="channel > '#b' AND deleted >= 0",
        interval="2024-03-08/2024-03-10T13:30",
        context={"timezone": "America/Los_Angeles"},
    )
    segments = [
        facts(HOURLY, DAILY),
        facts(HOURLY, DAILY, columns={"deleted": ColumnFacts(0, 5)}),
        facts(TIMELESS, columns={"channel": ColumnFacts("#c", "#c")}),
        facts(HOURLY, start="2024-03-09T01:00:00", end="2024-03-09T20:00:00"),
        facts(DAILY, HOURLY, without=["deleted"]),
        facts(HOURLY, deleted_row_count=3),
    ]
    planner = Planner(question, [HOURLY])
    together = [planner.choose(segment) for segment in [*segments, *segments]]
    assert together == [chosen(question, segment, [HOURLY]) for segment in segments] * 2


def test_few_deleted_rows_are_taken_back_and_many_cost_more_than_base_rows():
    few = only_plan(BY_CHANNEL, facts(HOURLY, deleted_row_count=10))
    whole = only_plan(BY_CHANNEL, facts(HOURLY))
    assert few.source == whole.source == HOURLY
    assert few.subtracted_rows.rows.row_count == 10
    assert whole.subtracted_rows is None
    assert few.cost == whole.cost + few.subtracted_rows.rows.cost
    many = chosen(BY_CHANNEL, facts(HOURLY, deleted_row_count=BASE_ROWS - 1))
    assert [plan.source for plan in many.plans] == [None]
    assert str(many.rejected["hourly"]).startswith("COSTLIER")


def test_reasons_where_metadata_answers_are_worked_out_when_they_are_read(monkeypatch):
    asked = []
    verdicts = CandidateGroup.verdicts
    monkeypatch.setattr(
        CandidateGroup, "verdicts", lambda *given: asked.append(1) or verdicts(*given)
    )
    absent = spec("absent", ["page"], ["count(*)"])
    choice = chosen(query(aggregators="max(added)"), facts(HOURLY, SKETCHED), [absent])
    assert choice.plans[0].is_metadata
    assert not asked
    sent = pickle.loads(pickle.dumps(choice))
    found = {name: reason.code for name, reason in sent.rejected.items()}
    assert found == {
        "hourly": ReasonCode.AGGREGATOR_NOT_STORED,
        "sketched": ReasonCode.AGGREGATOR_NOT_STORED,
        "absent": ReasonCode.NOT_IN_SEGMENT,
    }
    assert dict(choice.rejected) == sent.rejected
    assert len(asked) == 1


def test_the_data_interval_holds_both_ends():
    assert data_interval(facts()).end_us == micros("2024-03-10T23:59:30") + 1
    assert data_interval(replace(facts(), time_minimum_us=None)) is None
    assert isinstance(cover(None, None, None, has_null_time=True), Cover)


def test_a_thousand_projections_are_mostly_ruled_out_by_their_columns():
    many = [
        spec(f"p{n}", [f"concat(page, '{n}') AS x", "user" if n % 100 else "channel"], ["count(*)"])
        for n in range(1000)
    ]
    choice = chosen(query(group_by="channel"), facts(*many))
    assert sum(str(r) == "MISSING_GROUPING_COLUMN channel" for r in choice.rejected.values()) == 990


class TestCovers:
    """Edges that fall on the first and the last instant of the data."""

    HOURS = TimeGrouping(0, Granularity.parse("PT1H"))
    HOUR = 3_600_000_000

    def covered(self, wanted, data):
        return cover(self.HOURS, wanted, data, has_null_time=False)

    def test_an_interval_from_the_first_instant_leaves_no_edge_there(self):
        data = Interval(self.HOUR // 2, 5 * self.HOUR)
        found = self.covered(Interval(self.HOUR // 2, 3 * self.HOUR), data)
        assert found == Cover(Interval(0, 3 * self.HOUR))

    def test_an_interval_to_the_last_instant_leaves_no_edge_there(self):
        data = Interval(0, 5 * self.HOUR + 1)
        found = self.covered(Interval(2 * self.HOUR, 5 * self.HOUR + 1), data)
        assert found == Cover(Interval(2 * self.HOUR, 5 * self.HOUR + 1))

    def test_an_interval_between_two_boundaries_holds_no_bucket(self):
        data = Interval(0, 5 * self.HOUR)
        found = self.covered(Interval(self.HOUR + 1, 2 * self.HOUR + 1), data)
        assert found.code is ReasonCode.UNALIGNED_INTERVAL
        found = self.covered(Interval(self.HOUR + 1, 2 * self.HOUR - 1), data)
        assert found.code is ReasonCode.UNALIGNED_INTERVAL

    def test_a_segment_without_times_has_nothing_to_cover(self):
        found = self.covered(Interval(0, self.HOUR), None)
        assert found.code is ReasonCode.UNALIGNED_INTERVAL

    @pytest.mark.parametrize(
        ("part", "data", "share"),
        [
            ((0, 10), (0, 10), 1.0),
            ((0, 5), (0, 10), 0.5),
            ((5, 20), (0, 10), 0.5),
            ((0, 1), (0, 1), 1.0),
            ((3, 4), (0, 10), 0.1),
            ((0, 1), (5, 10), 0.0),
            ((20, 30), (5, 10), 0.0),
            ((0, 0), (0, 0), 0.0),
        ],
    )
    def test_a_share_is_of_the_time_of_the_data(self, part, data, share):
        assert Cover(Interval(*part)).share(Interval(*data)) == share
        assert Cover(None).share(Interval(*data)) == 1.0
