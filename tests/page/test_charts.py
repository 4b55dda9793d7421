"""Charts of answers: which answers have one, and that what is drawn is what the rows say."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

from projseg.page.charts import charts
from projseg.page.printing import environment

NUMBERS = st.one_of(
    st.none(), st.integers(-(10**30), 10**30), st.floats(), st.sampled_from(["1.50", "NaN"])
)
KEYS = st.one_of(
    st.tuples(
        st.sampled_from(["date", "timestamp", "timestamp_ntz"]),
        st.lists(st.datetimes().map(lambda one: one.isoformat() + "Z"), unique=True, max_size=60),
    ),
    st.tuples(st.just("string"), st.lists(st.text(max_size=40), unique=True, max_size=60)),
    st.tuples(st.just("bigint"), st.lists(st.integers(), unique=True, max_size=60)),
)


@settings(max_examples=tries(200), deadline=None)
@given(KEYS, st.data())
def test_all_rows_are_drawn_within_the_chart(key, data):
    kind, firsts = key
    rows = [(one, data.draw(NUMBERS)) for one in firsts]
    found = charts([("k", kind), ("n", "double")], rows)
    numbers = [one for _, one in rows if one not in (None, "NaN") and abs(float(one)) <= 1e300]
    is_line = "time" in kind or kind == "date"
    if len(rows) < 2 or not numbers or (not is_line and len(rows) > 50):
        assert found == []
        return
    (chart,) = found
    if is_line:
        points = re.findall(r"[ML]([-0-9.]+) ([-0-9.]+)", " ".join(chart.paths))
        assert len(points) == len(numbers)
        assert all(-1 <= float(x) <= 901 and -1 <= float(y) <= 161 for x, y in points)
    else:
        assert len(chart.bars) == len(rows)
        assert all(0 <= one.x <= one.x + one.width <= 901 for one in chart.bars)
        for one, (_, number) in zip(chart.bars, rows, strict=True):
            is_drawn = number in numbers
            assert (one.value != "") == is_drawn


def test_lines_follow_times_and_break_where_there_is_no_number():
    rows = [("2024-01-03", 30), ("2024-01-01", 10), ("2024-01-02", None), ("2024-01-04", 0)]
    (chart,) = charts([("day", "date"), ("n", "bigint")], rows)
    assert chart.paths == ["M0.0 106.7h0", "M600.0 0.0h0L900.0 160.0"]
    assert (chart.low, chart.high, chart.zero) == ("0", "30", 160.0)
    assert (chart.first, chart.last) == ("2024-01-01", "2024-01-04")


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ([("k", "string"), ("n", "bigint")], [("a", 1)]),
        ([("k", "string"), ("n", "bigint")], [("a", 1), ("a", 2)]),
        ([("k", "string"), ("n", "bigint")], [(None, 1), (None, 2), ("a", 2)]),
        ([("k", "string"), ("n", "bigint")], [(f"{n}", n) for n in range(51)]),
        ([("k", "string"), ("n", "string")], [("a", "1"), ("b", "2")]),
        ([("d", "date"), ("n", "bigint")], [("2024-01-01", 1), ("2024-01-01", 2)]),
        ([], []),
    ],
)  # fmt: skip
def test_other_answers_have_no_chart(columns, rows):
    assert charts(columns, rows) == []


def test_bars_of_both_signs_start_at_zero_and_labels_are_text():
    rows = [("<b>", 3), (None, -1), ("\u202e" + "x" * 40, 0)]
    (chart,) = charts([("k", "string"), ("n", "decimal(9,2)")], rows)
    first, second, third = chart.bars
    assert first.x == second.x + second.width == third.x == chart.zero
    assert first.width == pytest.approx(3 * second.width, abs=0.3)
    assert (second.label, len(third.label)) == ("NULL", 30)
    text = environment(may_change=False).from_string(
        "{% for one in charts(columns, rows)[0].bars %}{{ one.label }}{% endfor %}"
    )
    printed = text.render(columns=[("k", "string"), ("n", "int")], rows=rows)
    assert "<b>" not in printed
    assert "\u202e" not in printed
