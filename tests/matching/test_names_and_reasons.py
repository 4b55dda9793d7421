"""Projections under several names, and reasons that say what to type."""

from __future__ import annotations

import pytest

import projseg
from projseg import Projection
from projseg.errors import ProjectionNotUsableError

ROWS = {
    "c": ["a", "b", None] * 40,
    "d": [f"d{i % 7}" for i in range(120)],
    "n": list(range(120)),
    "x": [i / 4 for i in range(120)],
    "f": [float(i % 9) for i in range(120)],
    "b": [i % 3 == 0 for i in range(120)],
}
TYPES = {"c": "string", "d": "string", "n": "bigint", "x": "double", "f": "float", "b": "boolean"}
ASKED = {"group_by": "c", "aggregators": "sum(n) AS s", "order_by": "c"}


def made(folder, *projections):
    return projseg.Table.create(folder / "t", TYPES, projections=projections, data=ROWS)


def by_c(name):
    return Projection(name, ["c"], ["sum(n) AS n"])


def sources(table, **context):
    return table.explain(**ASKED, context=context).sources


def embedded(table):
    return [[one.name for one in entry.projections] for entry in table.snapshot.segments]


def test_a_definition_has_one_stored_form_and_any_number_of_names(tmp_path):
    table = made(tmp_path, by_c("one"))
    wanted = table.query(**ASKED, context={"noProjections": True})
    for name in ("two", "three"):
        table.add_projection(by_c(name))
    table.append(ROWS)
    assert embedded(table) == [["one"], ["one"]]
    explained = table.explain(**ASKED)
    assert (explained.sources, explained.rejections) == ({"one": 2}, {"base": {"COSTLIER": 2}})
    for name in ("one", "two", "three"):
        assert sources(table, useProjection=name) == {name: 2}
        without = table.explain(**ASKED, context={"excludeProjections": name})
        assert without.sources == {"base": 2}
        assert without.rejections == {n: {"EXCLUDED": 2} for n in ("one", "two", "three")}
    wanted = table.query(**ASKED, context={"noProjections": True})
    for context in ({}, {"useProjection": "two"}, {"forceProjections": True}):
        assert table.query(**ASKED, context=context) == wanted


def test_what_is_left_of_the_names_is_what_answers(tmp_path):
    table = made(tmp_path, by_c("one"), by_c("two"))
    table.drop_projection("one")
    assert sources(table) == sources(table, useProjection="two") == {"two": 1}
    with pytest.raises(ProjectionNotUsableError, match="NOT_IN_SEGMENT"):
        sources(table, useProjection="one")
    table.append(ROWS)  # stored as `two`
    assert sources(table) == {"two": 2}
    table.add_projection(by_c("one"))
    assert sources(table, useProjection="one") == {"one": 2}
    table.add_projection(Projection("other", ["d"], ["sum(n) AS n"]))
    table.materialize_projection("other")
    table.compact()
    assert sources(table, useProjection="one") == {"one": 1}
    assert sorted(embedded(table)[0]) in (["one", "other"], ["other", "two"])
    wanted = table.query(**ASKED, context={"noProjections": True})
    assert table.query(**ASKED) == wanted
    assert table.verify(deep=True) == []


def test_a_name_that_means_something_else_now_is_not_taken_for_what_is_stored(tmp_path):
    table = made(tmp_path, by_c("one"), by_c("two"))
    table.drop_projection("one")
    table.add_projection(Projection("one", ["d"], ["sum(n) AS n"]))
    assert sources(table) == sources(table, useProjection="two") == {"two": 1}
    with pytest.raises(ProjectionNotUsableError, match="NOT_IN_SEGMENT"):
        sources(table, useProjection="one")
    table.append(ROWS)
    assert sources(table) == {"two": 2}
    table.materialize_projection("one")
    table.compact()
    assert table.explain("d", "sum(n) AS n", context={"useProjection": "one"}).sources == {"one": 1}
    assert table.verify(deep=True) == []


def test_names_follow_a_renamed_column(tmp_path):
    table = made(tmp_path, by_c("one"))
    table.add_projection(by_c("two"))
    table.rename_column("n", "number")
    table.drop_projection("one")
    asked = {**ASKED, "aggregators": "sum(number) AS s"}
    assert table.explain(**asked).sources == {"two": 1}
    wanted = table.query(**asked, context={"noProjections": True})
    assert table.query(**asked) == wanted


def test_where_metadata_answers_projections_have_their_own_reasons(tmp_path):
    table = made(
        tmp_path,
        Projection("can", ["c"], ["count(*) AS r", "max(n) AS m"]),
        Projection("cannot", ["c"], ["sum(x) AS x"]),
    )
    table.add_projection(Projection("absent", ["d"], ["count(*) AS r"]))
    explained = table.explain(aggregators="max(n)")
    assert explained.sources == {"metadata": 1}
    (segment,) = explained.named_segments()
    assert segment["rejected"]["can"].startswith("COSTLIER")
    assert segment["rejected"]["cannot"] == "AGGREGATOR_NOT_STORED max(n)"
    assert segment["rejected"]["absent"] == "NOT_IN_SEGMENT"


def test_base_rows_have_a_line_with_their_cost(tmp_path):
    table = made(tmp_path, by_c("cheap"), Projection("wide", ["c", "n"], ["sum(n) AS s"]))
    (segment,) = table.explain(**ASKED).named_segments()
    own = {name: reason.split() for name, reason in segment["rejected"].items()}
    assert list(own) == ["base", "wide"]
    (_, base, _, chosen), (_, _, _, also_chosen) = own["base"], own["wide"]
    assert chosen == also_chosen
    assert int(base.replace(",", "")) > int(chosen.replace(",", ""))
    assert "not base: COSTLIER" in str(table.explain(**ASKED))
    for context in ({"useProjection": "cheap"}, {"noProjections": True}):
        (row,) = table.explain(**ASKED, context=context).named_segments()
        assert "base" not in row["rejected"]
    assert table.explain(aggregators="count(*)").rejections["base"] == {"COSTLIER": 1}


AGGREGATES = [
    "sum(n)", "count(x)", "min(x)", "max(n)", "avg(x)", "stddev(x)", "var_pop(n)", "bool_or(b)",
    "bit_and(n)", "min_by(n, x)", "approx_count_distinct(d)", "approx_count_distinct(d, 0.02)",
    "hll_sketch_agg(d, 10)", "theta_sketch_agg(d)", "count(DISTINCT d)",
    "approx_percentile(x, 0.5)", "kll_sketch_agg_bigint(n)", "kll_sketch_agg_double(x)",
    "kll_sketch_agg_float(f)", "collect_set(d)",
    "median(n)", "percentile(x, 0.3)", "mode(d)", "count_if(b)", "sum(n + 1)", "any_value(d)",
    "sum(x) FILTER (WHERE n > 3)", "collect_list(d)",
]  # fmt: skip


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_reason_is_what_to_type(tmp_path, aggregate):
    """What the reason names is declared, until the projection answers."""
    asked = {"group_by": "c", "aggregators": f"{aggregate} AS v"}
    grouping, aggregators = ["c"], ["sum(f) AS none"]
    for attempt in range(6):
        table = made(tmp_path / str(attempt), Projection("p", grouping, aggregators))
        context = {"excludeProjections": ""}
        explained = table.explain(**asked, context=context)
        reason = explained.named_segments()[0]["rejected"].get("p", "COSTLIER")
        if reason.startswith("COSTLIER"):
            break
        code, _, text = reason.partition(" ")
        assert code in ("AGGREGATOR_NOT_STORED", "MISSING_GROUPING_COLUMN")
        if code == "AGGREGATOR_NOT_STORED":
            aggregators = [*aggregators, text]
        else:
            grouping, aggregators = [*grouping, text], [*aggregators, "count(*)"]
    assert reason.startswith("COSTLIER")
    assert attempt > 0
    forced = table.query(**asked, context={"useProjection": "p"})
    assert len(forced) == 3
