"""Wrong results that other engines published, each asked of whole tables here.

Every test names where the mistake was made. `check` asks a query with and without projections and
against a third answer worked out in the test.
"""

import datetime

import pyarrow as pa
import pytest

import projseg
from projseg.errors import InvalidInputError, ProjectionNotUsableError

UTC = datetime.UTC
DAY = datetime.datetime(2024, 3, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("channel", pa.string()),
        ("page", pa.string()),
        ("d", pa.int32()),
        ("added", pa.int64()),
        ("small", pa.int8()),
    ]
)


def row(minute, channel="#a", page="p", d=1, added=10, small=100):
    time = DAY + datetime.timedelta(minutes=minute)
    values = (time, channel, page, d, added, small)
    return dict(zip(SCHEMA.names, values, strict=True))


def make(path, *appends, projections=(), **options):
    table = projseg.Table.create(
        path / "table", SCHEMA, time_column="time", projections=projections, **options
    )
    for rows in appends:
        table.append(pa.Table.from_pylist(rows, SCHEMA))
    return table


def check(table, expected, *, used=None, **query):
    """Answers with and without projections are `expected`; `used` is a source of the first."""
    for context in ({}, {"noProjections": True}):
        found = table.query(**query, context=context).to_pylist()
        assert len(found) == len(expected), context
        assert all(one in expected for one in found), context
    if used is not None:
        assert used in table.explain(**query).sources


def big(rows, copies=400):
    """Enough rows that a projection is always cheaper than they are."""
    return [row for _ in range(copies) for row in rows]


HOURLY = projseg.Projection(
    "hourly", ["date_trunc('HOUR', time) AS hour", "channel"], ["sum(added)", "count(*)"]
)


def test_druid_18215_floor_coarser_than_the_projection(tmp_path):
    table = make(tmp_path, big([row(1), row(61), row(24 * 60 + 5)]), projections=[HOURLY])
    expected = [
        {"day": DAY, "s": 8000},
        {"day": DAY + datetime.timedelta(days=1), "s": 4000},
    ]
    query = {"group_by": "date_trunc('DAY', time) AS day", "aggregators": "sum(added) AS s"}
    check(table, expected, used="hourly", **query)


def test_druid_18486_unaligned_interval(tmp_path):
    minutes = list(range(0, 600, 5))
    table = make(tmp_path, big([row(m) for m in minutes], 40), projections=[HOURLY])
    interval = (DAY + datetime.timedelta(minutes=30), DAY + datetime.timedelta(minutes=450))
    inside = sum(30 <= m < 450 for m in minutes) * 40
    check(
        table,
        [{"n": inside}],
        used="hourly",
        aggregators="count(*) AS n",
        interval=interval,
    )


def test_druid_17711_seek_by_the_projections_own_smallest_bucket(tmp_path):
    table = make(tmp_path, big([row(50), row(70)]), projections=[HOURLY])
    interval = (DAY, DAY + datetime.timedelta(hours=1))
    check(table, [{"n": 400}], aggregators="count(*) AS n", interval=interval)


def test_druid_18532_filter_on_a_virtual_column(tmp_path):
    upper = projseg.Projection("upper", ["upper(page) AS u", "channel"], ["sum(added)"])
    table = make(tmp_path, big([row(0, page="x"), row(1, page="y")]), projections=[upper])
    query = {"group_by": "channel", "aggregators": "sum(added) AS s", "filter": "upper(page) = 'X'"}
    check(table, [{"channel": "#a", "s": 4000}], used="upper", **query)


def test_residual_filter_on_a_column_the_projection_only_filtered_by(tmp_path):
    only_a = projseg.Projection("only_a", ["page"], ["sum(added)"], where="channel = '#a'")
    rows = big([row(0, "#a", "p"), row(1, "#b", "p"), row(2, "#a", "q")])
    table = make(tmp_path, rows, projections=[only_a])
    query = {"group_by": "page", "aggregators": "sum(added) AS s"}
    check(
        table,
        [{"page": "p", "s": 4000}, {"page": "q", "s": 4000}],
        used="only_a",
        filter="channel = '#a'",
        **query,
    )
    check(table, [{"page": "p", "s": 4000}], filter="channel = '#b'", **query)
    both = "channel = '#a' OR channel = '#b'"
    check(table, [{"page": "p", "s": 8000}, {"page": "q", "s": 4000}], filter=both, **query)


def test_druid_19599_dictionary_ids_are_local_to_a_segment(tmp_path):
    by_page = projseg.Projection("by_page", ["page"], ["sum(added)"])
    first = big([row(0, page="b"), row(0, page="d")])
    second = big([row(0, page="a"), row(0, page="d"), row(0, page="c")])
    table = make(tmp_path, first, second, projections=[by_page])
    expected = [
        {"page": p, "s": s} for p, s in [("a", 4000), ("b", 4000), ("c", 4000), ("d", 8000)]
    ]
    check(table, expected, used="by_page", group_by="page", aggregators="sum(added) AS s")


def test_doris_47650_sum_and_count_of_a_grouping_column(tmp_path):
    by_d = projseg.Projection("by_d", ["d", "channel"], ["count(*)"])
    rows = big([row(0, d=3), row(1, d=3), row(2, d=None), row(3, d=5, channel="#b")])
    table = make(tmp_path, rows, projections=[by_d])
    check(
        table,
        [{"s": 400 * 11, "n": 1200, "m": 5, "u": 2}],
        aggregators="sum(d) AS s, count(d) AS n, max(d) AS m, count(DISTINCT d) AS u",
    )


def test_doris_40803_rows_merge_after_a_union_of_projection_and_base(tmp_path):
    table = make(tmp_path, big([row(0), row(1, "#b")]))
    table.add_projection(HOURLY)
    table.append(pa.Table.from_pylist(big([row(0), row(2, "#c")]), SCHEMA))
    query = {"group_by": "channel", "aggregators": "sum(added) AS s"}
    expected = [{"channel": c, "s": s} for c, s in [("#a", 8000), ("#b", 4000), ("#c", 4000)]]
    check(table, expected, **query)
    assert table.explain(**query).sources == {"base": 1, "hourly": 1}


def test_starrocks_75235_a_filtered_projection_serves_no_unfiltered_query(tmp_path):
    only_a = projseg.Projection("only_a", ["page"], ["sum(added)"], where="channel = '#a'")
    table = make(tmp_path, big([row(0), row(1, "#b")]), projections=[only_a])
    query = {"group_by": "page", "aggregators": "sum(added) AS s"}
    check(table, [{"page": "p", "s": 8000}], used="base", **query)
    (segment,) = table.explain(**query).segments.to_pylist()
    assert dict(segment["rejected"])["only_a"].startswith("FILTER_NOT_IMPLIED")


def test_starrocks_72799_narrow_integers_do_not_overflow_when_summed_again(tmp_path):
    narrow = projseg.Projection("narrow", ["channel"], ["sum(small)"])
    table = make(tmp_path, big([row(0, small=127)]), big([row(0, small=127)]), projections=[narrow])
    check(table, [{"s": 2 * 400 * 127}], used="narrow", aggregators="sum(small) AS s")


def test_pinot_or_over_nested_and_and_not(tmp_path):
    by_all = projseg.Projection("by_all", ["channel", "page", "d"], ["count(*)"])
    rows = big(
        [row(0, c, p, d) for c in ("#a", "#b", None) for p in ("p", "q") for d in (1, 2, None)], 50
    )
    table = make(tmp_path, rows, projections=[by_all])
    text = "channel = '#a' OR NOT (page = 'p' AND (d = 1 OR NOT channel = '#b'))"

    def matches(r):
        is_a = None if r["channel"] is None else r["channel"] == "#a"
        not_b = None if r["channel"] is None else r["channel"] != "#b"
        is_1 = None if r["d"] is None else r["d"] == 1
        inner = True if True in (is_1, not_b) else (None if None in (is_1, not_b) else False)
        if r["page"] != "p":
            inner = False
        negated = None if inner is None else not inner
        return True in (is_a, negated)

    expected = [{"n": sum(map(matches, rows))}]
    check(table, expected, used="by_all", aggregators="count(*) AS n", filter=text)


def test_clickhouse_121221_same_name_new_definition(tmp_path):
    old = projseg.Projection("p", ["channel"], ["sum(added)"])
    table = make(tmp_path, big([row(0)]), projections=[old])
    table.drop_projection("p")
    table.add_projection(projseg.Projection("p", ["page"], ["sum(d)"]))
    table.append(pa.Table.from_pylist(big([row(0, d=7)]), SCHEMA))
    query = {"group_by": "channel", "aggregators": "sum(added) AS s"}
    check(table, [{"channel": "#a", "s": 8000}], **query)
    assert table.explain(**query).sources == {"p": 1, "base": 1}


def test_clickhouse_103052_distinct_over_a_partly_projected_table(tmp_path):
    table = make(tmp_path, big([row(0, "#a"), row(0, "#b")]))
    table.add_projection(projseg.Projection("channels", ["channel"], []))
    table.append(pa.Table.from_pylist(big([row(0, "#b"), row(0, None)]), SCHEMA))
    check(table, [{"channel": c} for c in ("#a", "#b", None)], used="channels", group_by="channel")
    check(table, [{"n": 2}], aggregators="count(DISTINCT channel) AS n")


def test_clickhouse_77091_min_and_max_from_metadata_are_exact(tmp_path):
    long = "x" * 200
    rows = big([row(0, page=long + "b"), row(1, page=long + "a"), row(2, page=None)])
    table = make(tmp_path, rows)
    check(
        table,
        [{"a": long + "a", "b": long + "b", "m": 1, "n": 1200}],
        aggregators="min(page) AS a, max(page) AS b, max(d) AS m, count(*) AS n",
    )


def test_clickhouse_24780_forced_mode_on_empty_input(tmp_path):
    table = make(tmp_path)
    query = {"aggregators": "count(*) AS n, sum(added) AS s"}
    for context in ({"forceProjections": True}, {"useProjection": "any"}):
        assert table.query(**query, context=context).to_pylist() == [{"n": 0, "s": None}]
    table.append(pa.Table.from_pylist([row(0)], SCHEMA))
    with pytest.raises(ProjectionNotUsableError, match="Force projections specified, but none"):
        table.query(group_by="d", context={"forceProjections": True})
    with pytest.raises(ProjectionNotUsableError, match=r"Projection\[any\] specified, but does"):
        table.query(group_by="d", context={"useProjection": "any"})
    outside = ("2031-01-01", "2032-01-01")
    context = {"forceProjections": True}
    assert table.query(group_by="d", interval=outside, context=context).num_rows == 0
    with pytest.raises(ProjectionNotUsableError):
        table.query(columns="d", context=context)


def test_pinot_sketch_parameters_must_match(tmp_path):
    coarse = projseg.Projection("coarse", ["channel"], ["hll_sketch_agg(page, 10)"])
    rows = big([row(0, page=f"p{n}") for n in range(500)], 3)
    table = make(tmp_path, rows, projections=[coarse])
    query = {"group_by": "channel", "aggregators": "hll_sketch_agg(page, 12) AS s"}
    assert table.explain(**query).sources == {"base": 1}
    (found,) = table.query(**query).to_pylist()
    (expected,) = table.query(**query, context={"noProjections": True}).to_pylist()
    assert found == expected


def test_druid_18380_merge_order_is_stable(tmp_path):
    appends = [big([row(n, f"#{(n * k) % 7}") for n in range(20)], 20) for k in range(5)]
    table = make(tmp_path, *appends, projections=[HOURLY])
    query = {"group_by": "channel", "aggregators": "sum(added) AS s", "limit": 5}
    first = table.query(**query)
    assert all(table.query(**query).equals(first) for _ in range(5))


def test_day_buckets_across_a_clock_change(tmp_path):
    start = datetime.datetime(2025, 3, 8, 12, tzinfo=UTC)
    rows = [row(0) | {"time": start + datetime.timedelta(minutes=30 * n)} for n in range(150)]
    table = make(tmp_path, big(rows, 10), projections=[HOURLY])
    query = {
        "group_by": "date_trunc('DAY', time) AS day",
        "aggregators": "count(*) AS n",
    }
    zone = {"timezone": "America/Los_Angeles"}
    found = table.query(**query, context=zone).to_pylist()
    lengths = [day["n"] / 20 for day in found]
    assert lengths[1:3] == [23, 24] or lengths[1] == 23
    assert table.explain(**query, context=zone).sources == {"hourly": 1}
    assert found == table.query(**query, context=zone | {"noProjections": True}).to_pylist()


def test_hours_of_a_half_hour_zone_are_refused(tmp_path):
    table = make(tmp_path, big([row(n) for n in range(0, 300, 7)], 20), projections=[HOURLY])
    explained = table.explain(
        group_by="date_trunc('HOUR', time) AS hour",
        aggregators="count(*) AS n",
        context={"timezone": "Asia/Kolkata"},
    )
    (segment,) = explained.segments.to_pylist()
    assert segment["source"] is None
    assert dict(segment["rejected"])["hourly"].startswith("TIME_ZONE")


def test_an_aggregates_alias_is_never_the_column_of_that_name(tmp_path):
    tricky = projseg.Projection("tricky", ["channel"], ["sum(added) AS d", "count(*) AS page"])
    rows = big([row(0, d=1, added=100), row(1, d=9, added=1)])
    table = make(tmp_path, rows, projections=[tricky])
    check(table, [{"n": 400}], aggregators="count(*) AS n", filter="d > 4")
    check(table, [{"d": 1}, {"d": 9}], group_by="d")
    check(table, [{"channel": "#a", "d": 800}], group_by="channel", aggregators="count(*) AS d")


def test_a_projection_that_cannot_be_built_leaves_the_segment_sound(tmp_path):
    fragile = projseg.Projection("fragile", ["100 / d AS share"], ["count(*)"])
    table = make(tmp_path, big([row(0, d=0), row(1, d=4)]), projections=[fragile, HOURLY])
    (segment,) = table.segments().to_pylist()
    assert segment["projections"] == ["hourly"]
    assert "fragile" in dict(segment["not_built"])
    check(table, [{"n": 800}], aggregators="count(*) AS n")
    assert table.verify(deep=True) == []


def test_outputs_of_one_name_are_refused(tmp_path):
    table = make(tmp_path, [row(0)])
    with pytest.raises(InvalidInputError, match="two outputs are named 'channel'"):
        table.query(group_by="channel", aggregators="sum(added) AS channel")
