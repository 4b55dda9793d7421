"""A refresh after an append folds rows that are in memory, and says what files would say."""

import pytest
from viewed_tables import QUESTIONS, VIEWS, answer, in_duckdb, new_viewed_table, row, rows

from projseg import Table
from projseg.views import part_files, written_rows


def some(first, end):
    return [
        row(hour, n * 7, "abc"[n % 3] if n else None, n % 4 or None, hour * n - 9, hour - n)
        for hour in range(first, end)
        for n in range(6)
    ]


def refused(*_):
    raise AssertionError("a file was read")


@pytest.mark.parametrize("view", VIEWS)
def test_an_append_reads_no_file_that_this_process_wrote(tmp_path, monkeypatch, view):
    content = some(0, 30)
    table = new_viewed_table(tmp_path / "t", content)
    table.create_view("v", view)
    with monkeypatch.context() as patch:
        patch.setattr(written_rows, "run_partial", refused)
        patch.setattr(part_files, "stored_groups_of", refused)
        for first in (28, 40, 41):
            new = some(first, first + 3)
            content += new
            table.append(rows(new))
            done = table.view("v").detail()
            assert done["last_error"] is None
            assert done["last_refresh"]["rows_read"] > 0
    assert table.view("v").verify(deep=True) == []
    for question in QUESTIONS:
        assert answer(table, question) == in_duckdb(question, rows(content)), question


def test_projections_are_read_where_they_cost_less(tmp_path, monkeypatch):
    projections = [{"name": "p", "group_by": ["k", "g"], "aggregators": ["sum(n) AS n"]}]
    projections[0]["aggregators"] += ["count(n) AS m", "count(*) AS c"]
    content = [row(0, n % 60, "abc"[n % 3], n % 4, n, n) for n in range(3000)]
    table = new_viewed_table(tmp_path / "t", content[:100], projections=projections)
    table.create_view("v", "SELECT k, sum(n) AS n FROM t GROUP BY k")
    folded = []
    monkeypatch.setattr(written_rows, "fold", lambda *given: folded.append(given) or refused())
    table.append(rows(content[100:]))
    assert not folded
    assert answer(table, QUESTIONS[0]) == in_duckdb(QUESTIONS[0], rows(content))


def test_rows_beyond_the_bound_are_read(tmp_path, monkeypatch):
    table = new_viewed_table(tmp_path / "t", some(0, 3))
    table.create_view("v", VIEWS[0])
    for bound in (0, 200):
        monkeypatch.setattr(written_rows, "_HELD_BYTES_MAX", bound)
        table.append(rows(some(3, 9)))
        assert table.view("v").detail()["last_error"] is None
    content = rows(some(0, 3) + 2 * some(3, 9))
    for question in QUESTIONS:
        assert answer(table, question) == in_duckdb(question, content), question


def test_a_column_that_another_process_adds_is_null_in_rows_in_memory(tmp_path):
    table = new_viewed_table(tmp_path / "t", some(0, 5))
    other = Table(tmp_path / "t")
    other.add_column("late", "bigint")
    other.create_view("v", "SELECT k, sum(late) AS l, count(*) AS c FROM t GROUP BY k")
    table.append(rows(some(5, 9)))  # by the columns that it knows
    table.refresh()
    assert table.views().select(["state", "last_error"]).to_pylist() == [
        {"state": "fresh", "last_error": None}
    ]
    question = "SELECT k, sum(late) AS l, count(*) AS c FROM t GROUP BY k"
    assert answer(table, question, forceViews=True) == answer(table, question, noViews=True)
