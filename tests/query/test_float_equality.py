"""One equality of floats for every spelling, layout and width: one NaN, and one zero."""

import random
from collections import Counter

import pyarrow as pa
import pytest
from float_cases import LAYOUTS, WIDTHS, drawn_rows, floats, make_table, same, spellings
from scale import tries

import projseg

SPELLINGS = tries(100, 6)
"""How many are asked of each table."""


def drawn(seed, place, layout):
    """Return what draws, a table of drawn rows, and these as Python's."""
    r = random.Random(f"{seed} {layout}")
    width = r.choice(sorted(WIDTHS))
    rows, plain = drawn_rows(r, r.choice((6, 40, 40, 300)), width)
    return r, width, make_table(place / str(seed), layout, rows, width), plain


def selected(table, text, given=None):
    """Return the rows of a SELECT as tuples that are equal for equal values."""
    rows = table.sql(text, args=given).to_pylist()
    return [tuple(same(value) for value in row.values()) for row in rows]


def asked_of(r, width):
    """Return some spellings."""
    found = spellings(r, width)
    return r.sample(found, min(SPELLINGS, len(found)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_spelling_is_true_of_the_same_rows(tmp_path, layout):
    for seed in range(tries(10)):
        r, width, table, plain = drawn(seed, tmp_path, layout)
        for text, given, truth in asked_of(r, width):
            truths = {row["id"]: truth(row["v"], row["w"]) for row in plain}
            true = [id for id, found in truths.items() if found is True]
            why = (seed, width, text)
            rows = selected(table, f"SELECT id FROM t WHERE {text}", given)
            assert sorted(rows) == [(id,) for id in true], why
            rows = selected(table, f"SELECT id, ({text}) FROM t", given)
            assert dict(rows) == truths, why
            rows = selected(table, f"SELECT ({text}), count(*) FROM t GROUP BY 1", given)
            assert dict(rows) == dict(Counter(truths.values())), why
            totals = (
                f"SELECT count(*) FILTER (WHERE {text}), sum(CASE WHEN {text} THEN id END), "
                f"sum(if({text}, 1, 0)), count_if(({text}) IS NULL) FROM t"
            )
            nulls = list(truths.values()).count(None)
            expected = [(len(true), sum(true) if true else None, len(true), nulls)]
            assert selected(table, totals, given) == expected, why


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_groups_extremes_and_orders_know_the_same_equality(tmp_path, layout):
    for seed in range(tries(10)):
        _, _, table, plain = drawn(seed, tmp_path, layout)
        groups = Counter(row["v"] for row in plain)
        assert dict(selected(table, "SELECT v, count(*) FROM t GROUP BY v")) == dict(groups)
        distinct = selected(table, "SELECT DISTINCT v FROM t")
        assert len(distinct) == len(groups)
        assert {value for (value,) in distinct} == set(groups)
        pairs = Counter((row["v"], row["w"]) for row in plain)
        both = selected(table, "SELECT v, w, count(*) FROM t GROUP BY v, w")
        assert {row[:2]: row[2] for row in both} == dict(pairs)
        values = sorted((v for v in groups.elements() if v is not None), key=in_order)
        known = len(set(values))
        ends = (values[0], values[-1]) if values else (None, None)
        totals = "SELECT count(DISTINCT v), approx_count_distinct(v), min(v), max(v) FROM t"
        [(count, estimate, *found)] = selected(table, totals)
        assert (count, tuple(found)) == (known, ends)
        assert abs(estimate - known) <= max(1, known // 20)
        ordered = selected(table, "SELECT v FROM t WHERE v IS NOT NULL ORDER BY v DESC LIMIT 9")
        assert ordered == [(value,) for value in values[::-1][:9]]
        some = "v IN (7, CAST('NaN' AS DOUBLE), 0) OR v = 1.5D"
        having = selected(table, f"SELECT v, count(*) FROM t GROUP BY v HAVING {some}")
        assert dict(having) == {v: n for v, n in groups.items() if v in (7, "NaN", 0, 1.5)}


def in_order(value):
    """Return the key of Spark's order: NaN is above all numbers."""
    return (value == "NaN", 0.0 if value == "NaN" else value)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_changes_and_views_know_the_same_equality(tmp_path, layout):
    for seed in range(tries(10)):
        r, width, table, plain = drawn(seed, tmp_path, layout)
        if layout != "widened":  # what a view stands for keeps its types
            table.create_view("groups", "SELECT v, count(*) AS n, sum(id) AS s FROM t GROUP BY v")
        statements = [(text, truth) for text, given, truth in spellings(r, width) if not given]
        (updated, to_update), (deleted, to_delete) = r.sample(statements, 2)
        table.update({"id": "id + 1000"}, updated)
        table.delete(deleted)
        expected = [
            (row["id"] + 1000 * (to_update(row["v"], row["w"]) is True), row["v"])
            for row in plain
            if to_delete(row["v"], row["w"]) is not True
        ]
        why = (seed, width, updated, deleted)
        assert Counter(selected(table, "SELECT id, v FROM t")) == Counter(expected), why
        counts = selected(table, "SELECT v, count(*) FROM t GROUP BY v")
        assert dict(counts) == dict(Counter(v for _, v in expected)), why


def test_nan_with_a_sign_is_found_by_a_list_and_deleted_by_it(tmp_path):
    rows = pa.table({"v": floats([0xFFF8 << 48, 0x7FF8 << 48, 0x3FF8 << 48, None], "double")})
    table = projseg.Table.create(tmp_path, rows.schema, data=rows)
    assert table.delete("v IN (7D, CAST('NaN' AS DOUBLE))").deleted_rows == 2
    assert table.query().to_pylist() == [{"v": 1.5}, {"v": None}]


def test_a_signalling_nan_hides_no_least_value(tmp_path):
    rows = pa.table({"v": floats([0x7FF0 << 48 | 1, 0xBFF8 << 48, 0x3FF8 << 48] * 99, "double")})
    table = projseg.Table.create(tmp_path, rows.schema, data=rows)
    found = table.query(aggregators="min(v) AS low", context={"noProjections": True})
    assert found.to_pylist() == [{"low": -1.5}]
