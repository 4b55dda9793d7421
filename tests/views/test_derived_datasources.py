"""Derived datasources in Druid's words: made from dimensions, listed, chosen, kept up, removed."""

from __future__ import annotations

import datetime as dt
import json

import pytest

import projseg

DIMENSIONS = '["metroCode","namespace","page","regionIsoCode","regionName","user"]'
DAY = dt.datetime(2015, 9, 12, tzinfo=dt.UTC)


def some_rows(hours, count=20):
    return [
        {
            "time": DAY + dt.timedelta(hours=hour, minutes=n),
            "metroCode": 500 + n % 3,
            "namespace": f"n{n % 2}",
            "page": f"p{n % 4}",
            "regionIsoCode": "FR" if n % 2 else None,
            "regionName": "r",
            "user": f"u{n % 5}",
            "channel": f"c{n % 6}",
            "added": n,
        }
        for hour in hours
        for n in range(count)
    ]


@pytest.fixture
def table(tmp_path):
    columns = dict.fromkeys(("namespace", "page", "regionIsoCode"), "string")
    columns |= dict.fromkeys(("regionName", "user", "channel"), "string")
    return projseg.Table.create(
        tmp_path / "wikiticker",
        {"time": "timestamp", "metroCode": "bigint", **columns, "added": "bigint"},
        time_column="time",
        segment_granularity="hour",
        data=some_rows(range(6)),
    )


def check(table, text, view):
    """Compare an answer with that of the rows, and which view it is from; None: from none."""
    plan = table.explain(text)
    used = [one["name"] for one in plan.views if one["reason"] is None]
    assert used == ([] if view is None else [view])
    found = table.sql(text).to_pylist()
    expected = table.sql(text, context={"noProjections": True}).to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_a_derived_datasource_by_its_dimensions(table):
    """What is posted to `.../wikiticker/derivatives`, and what is listed there."""
    view = table.create_view(None, derived=DIMENSIONS)
    assert view.name.startswith("wikiticker-")
    assert len(view.name) == len("wikiticker-0c224343")
    (listed,) = table.views().to_pylist()
    assert listed["name"] == view.name
    for dimension in json.loads(DIMENSIONS):
        assert dimension in listed["definition"]
    assert (listed["state"], listed["segments_covered"]) == ("fresh", 6)
    check(table, "SELECT page, user, sum(added) FROM t GROUP BY page, user", view.name)
    check(table, "SELECT regionName, count(*) FROM t WHERE metroCode = 501 GROUP BY 1", view.name)
    # A dimension that it has not: the base datasource answers.
    check(table, "SELECT channel, sum(added) FROM t GROUP BY channel", None)
    with pytest.raises(projseg.errors.InvalidInputError, match="PROJSEG_VIEW_EXISTS"):
        table.create_view("again", derived=json.loads(DIMENSIONS))


def test_the_smallest_that_fits_is_chosen_and_intervals_are_answered_as_far_as_they_go(table):
    large = table.create_view("large", derived=DIMENSIONS)
    small = table.create_view("small", derived=["namespace"], refresh="deferred")
    text = "SELECT namespace, sum(added) FROM t {} GROUP BY namespace"
    check(table, text.format(""), small.name)
    check(table, text.format("WHERE time < '2015-09-12 03:00:00'"), small.name)
    check(table, "SELECT page, sum(added) FROM t GROUP BY page", large.name)
    # Later data of the base that one lacks: the other, or the base's own segments beside it.
    table.append(some_rows(range(6, 8)))
    for where in ("", "WHERE time < '2015-09-12 03:00:00'", "WHERE time >= '2015-09-12 07:00:00'"):
        found = table.sql(text.format(where)).to_pylist()
        plain = table.sql(text.format(where), context={"noViews": True}).to_pylist()
        assert sorted(map(repr, found)) == sorted(map(repr, plain))
    assert small.detail()["state"] == "behind"
    small.refresh()
    assert small.detail()["state"] == "fresh"


def test_what_is_gone_from_the_base_goes_from_the_derived(table, tmp_path):
    view = table.create_view("derived", derived=DIMENSIONS)
    table.delete("time < '2015-09-12 02:00:00'")
    assert view.detail()["segments_covered"] == 4
    check(table, "SELECT page, sum(added) FROM t GROUP BY page", "derived")
    assert (tmp_path / "wikiticker" / "views").is_dir()  # which goes with the folder of the base


@pytest.mark.parametrize("wrong", ["[1, 2]", "{}", "[", '"page"', [3]])
def test_what_is_no_list_of_dimensions_is_refused(table, wrong):
    with pytest.raises(projseg.errors.InvalidInputError, match="PROJSEG_BAD_VIEW"):
        table.create_view("v", derived=wrong)
