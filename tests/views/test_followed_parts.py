"""Parts follow their rows: deleted ones are subtracted, rewritten segments are stood for."""

import shutil

import pyarrow as pa
import pytest
from msgspec.structs import replace
from viewed_tables import SCHEMA, answer, check_covers, in_duckdb, new_viewed_table, row, rows

from projseg import Table
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.views.cover_test import listed_segments
from projseg.views.followed_parts import connected

SUMS = (
    "SELECT k, g, sum(n) AS n, count(*) AS c, sum(price) AS p, bit_xor(n) AS x FROM t GROUP BY k, g"
)
QUESTIONS = [
    "SELECT k, sum(n) AS n FROM t GROUP BY k",
    "SELECT g, count(*) AS c, sum(price) AS p, bit_xor(n) AS x FROM t GROUP BY g",
    "SELECT sum(n) AS n FROM t",
]


def some_rows(hours, keys="abc", minutes=(0, 10, 20, 30, 40, 50)):
    return [
        row(hour, minute, keys[(hour + minute) % len(keys)], (hour * 7 + minute) % 5, hour, 100)
        for hour in hours
        for minute in minutes
    ]


def check(table, content):
    """Require that all questions are answered from the view alone, as DuckDB answers them."""
    for question in QUESTIONS:
        wanted = in_duckdb(question, content)
        assert answer(table, question, useView="v", forceViews=True) == wanted, question
        assert answer(table, question, noViews=True) == wanted, question
    check_covers(table)
    assert table.verify() == []
    assert table.view("v").verify(deep=True) == []


def figures(view):
    done = view.detail()["last_refresh"]
    names = ("kept", "relabelled", "subtracted", "refolded", "added", "dropped")
    return {name: done[name] for name in names if done[name]}


def duckdb_without(content, condition):
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("t", content)
        sql = f"SELECT * FROM t WHERE ({condition}) IS NOT TRUE"
        return connection.sql(sql).to_arrow_table().cast(SCHEMA)


@pytest.fixture
def viewed(tmp_path):
    """Return a table of three days with a view of daily parts, and its rows."""
    several = some_rows(range(72))
    table = new_viewed_table(str(tmp_path / "t"), several)
    table.create_view("v", SUMS, chunk="day")
    assert table.view("v").parts().num_rows == 3
    return table, rows(several)


def test_deleted_rows_are_subtracted(viewed):
    table, content = viewed
    condition = "n IN (3, 30, 60) AND minute(time) = 20"
    table.delete(condition)
    view = table.view("v")
    assert figures(view) == {"subtracted": 3, "added": 3}
    before = view.detail()["last_refresh"]["rows_read"]
    assert before <= 3 + 3 * 15, "three rows and the groups of three parts"
    check(table, duckdb_without(content, condition))


def test_rows_deleted_twice_are_subtracted_once(viewed):
    table, content = viewed
    table.view("v").set_properties({"refresh": "deferred"})
    for condition in ("n = 3 AND minute(time) = 20", "n = 3 AND minute(time) = 40", "n = 4"):
        table.delete(condition)
        content = duckdb_without(content, condition)
    done = table.view("v").refresh()
    assert (done.subtracted, done.refolded, done.kept) == (1, 0, 2)
    check(table, content)


def test_a_group_without_rows_is_gone(viewed):
    table, content = viewed
    table.delete("k = 'a' AND g = 0")
    assert figures(table.view("v")).get("refolded") is None
    content = duckdb_without(content, "k = 'a' AND g = 0")
    check(table, content)
    found = table.sql("SELECT k, g FROM t GROUP BY k, g", context={"useView": "v"}).to_pylist()
    assert {"k": "a", "g": 0} not in found


def test_updated_rows_are_subtracted_and_added(viewed):
    table, content = viewed
    table.update({"n": "n + 1"}, filter="n = 30")
    assert figures(table.view("v"))["subtracted"] == 1
    changed = [{**one, "n": 31} if one["n"] == 30 else one for one in content.to_pylist()]
    check(table, pa.Table.from_pylist(changed, SCHEMA))


@pytest.mark.parametrize("aggregate", ["max(n)", "sum(cast(n AS double))", "count(DISTINCT n)"])
def test_states_that_cannot_lose_rows_are_folded_anew(tmp_path, aggregate):
    several = some_rows(range(72))
    table = new_viewed_table(str(tmp_path / "t"), several)
    sql = f"SELECT k, {aggregate} AS v FROM t GROUP BY k"
    view = table.create_view("v", sql, chunk="day")
    table.delete("n = 71")
    assert figures(view) == {"kept": 2, "refolded": 1, "added": 1}
    content = duckdb_without(rows(several), "n = 71")
    assert answer(table, sql, forceViews=True) == in_duckdb(sql, content)


def test_most_rows_of_a_part_deleted_are_not_subtracted(viewed):
    table, content = viewed
    table.delete("n < 20")
    assert figures(table.view("v"))["refolded"] == 1
    check(table, duckdb_without(content, "n < 20"))


def test_a_file_that_is_gone_is_not_needed(viewed):
    """Rows of a removed segment cannot be read after a vacuum: the part is folded anew."""
    table, content = viewed
    table.view("v").set_properties({"refresh": "deferred"})
    table.delete("n = 30")
    table.vacuum(0, dry_run=False, force=True)
    done = table.view("v").refresh()
    assert (done.subtracted, done.refolded) == (0, 1)
    check(table, duckdb_without(content, "n = 30"))


def test_a_segment_that_cannot_be_read_any_more_is_not_needed(viewed, tmp_path):
    table, content = viewed
    table.view("v").set_properties({"refresh": "deferred"})
    listed = listed_segments(table.snapshot)
    table.delete("n = 30")
    (gone,) = listed - listed_segments(table.snapshot)
    shutil.move(tmp_path / "t" / gone, tmp_path / "moved")
    done = Table(str(tmp_path / "t")).view("v").refresh()
    assert (done.subtracted, done.refolded) == (0, 1)
    check(table.refresh(), duckdb_without(content, "n = 30"))


def test_compacted_segments_are_stood_for(tmp_path):
    several, more = rows(some_rows(range(72))), rows(some_rows([1, 2, 30], minutes=(15,)))
    table = new_viewed_table(str(tmp_path / "t"))
    table.append(several)
    table.append(more)
    view = table.create_view("v", SUMS, chunk="day")
    files = view.parts().column("file").to_pylist()
    table.compact()
    assert figures(view) == {"kept": 1, "relabelled": 2}
    assert view.detail()["last_refresh"]["rows_read"] == 0
    assert view.parts().column("file").to_pylist() == files, "no part was written"
    check(table, pa.concat_tables([several, more]))


def test_materialized_segments_are_stood_for(viewed):
    table, content = viewed
    table.add_projection({"name": "p", "group_by": ["k"], "aggregators": ["sum(n) AS n"]})
    table.materialize_projection("p")
    assert figures(table.view("v")) == {"relabelled": 3}
    check(table, content)


def test_rows_deleted_and_compacted_since(viewed):
    """The compaction clears deletion vectors; the rows are subtracted all the same."""
    table, content = viewed
    table.view("v").set_properties({"refresh": "deferred"})
    table.append(rows([]))
    table.update({"k": "'z'"}, filter="n = 5 AND minute(time) = 20")
    table.delete("n = 30 AND minute(time) = 0")
    table.compact()
    done = table.view("v").refresh()
    assert done.subtracted + done.refolded == 2
    changed = [
        {**one, "k": "z"} if one["n"] == 5 and one["time"].minute == 20 else one
        for one in content.to_pylist()
    ]
    content = duckdb_without(pa.Table.from_pylist(changed, SCHEMA), "n = 30 AND minute(time) = 0")
    check(table, content)


def test_a_compaction_of_segments_that_were_not_covered_is_folded_anew(viewed):
    table, content = viewed
    table.view("v").set_properties({"refresh": "deferred"})
    more = rows(some_rows(range(24), minutes=(15, 55)))
    table.append(more)
    table.compact()
    done = table.view("v").refresh()
    assert (done.relabelled, done.kept, done.added) == (0, 2, 1), "new segments hold rows of both"
    check(table, pa.concat_tables([content, more]))


def test_parts_of_one_new_segment_become_one(tmp_path):
    several = some_rows(range(24), keys="abcdefghijk")
    table = new_viewed_table(str(tmp_path / "t"), several)
    view = table.create_view("v", SUMS, chunk="day")
    few = rows([row(3, 5, "a", 1, 7, 100)])
    table.append(few)
    assert view.parts().num_rows == 2, "a small part beside a large one"
    table.compact()
    assert figures(view) == {"relabelled": 2, "added": 1}
    check(table, pa.concat_tables([rows(several), few]))


def test_a_table_without_times(tmp_path):
    schema = pa.schema([("k", pa.string()), ("n", pa.int64())])
    table = Table.create(str(tmp_path / "t"), schema)
    for start in (0, 10):
        part = pa.table({"k": ["a", "b"] * 5, "n": range(start, start + 10)}, schema)
        table.append(part)
    view = table.create_view("v", "SELECT k, sum(n) AS n FROM t GROUP BY k")
    table.compact()
    assert figures(view) == {"relabelled": 1}
    wanted = [("a", 90), ("b", 100)]
    assert answer(table, "SELECT k, sum(n) AS n FROM t GROUP BY k", forceViews=True) == wanted
    assert view.verify(deep=True) == []


def test_restored_rows_are_folded_again(viewed):
    table, content = viewed
    version = table.version
    table.delete("n = 30 AND minute(time) = 20")
    table.restore(version)
    check(table, content)


def test_what_is_done_is_what_was_foretold(viewed):
    table, _ = viewed
    view = table.view("v")
    view.set_properties({"refresh": "deferred"})
    table.delete("n = 3 AND minute(time) = 20")
    table.append(rows([row(30, 5, "a", 1, 7, 100)]))
    told, done = view.explain_refresh(), view.refresh()
    for name in ("kept", "relabelled", "subtracted", "refolded", "added"):
        assert getattr(told, name) == getattr(done, name), name
    assert told.rows_read >= 1


def test_segments_that_share_an_instant_are_one_stretch():
    """Rows of that instant may move from one segment into the other."""
    entry = SegmentEntry(
        file="a", write_id="w", row_count=1, byte_count=1, footer_checksum=0, columns={}
    )  # fmt: skip

    def between(low, high):
        return replace(entry, min_time_us=low, max_time_us=high)

    removed = [between(0, 5), between(5, 9), between(10, 12)]
    added = [between(10, 12), between(5, 9), between(0, 5)]
    stretches = [(len(a), len(b)) for a, b in connected(removed, added)]
    assert stretches == [(2, 2), (1, 1)]
    assert [(len(a), len(b)) for a, b in connected([*removed, entry], added)] == [(4, 3)]
