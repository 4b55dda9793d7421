"""What was removed leaves a table's files with the next compaction, and history has no values."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from life_tables import BY_CHANNEL, HOURLY, answers, new_table, opened_segments, rows
from scale import tries

import projseg
from projseg.algebra.expressions.sql_words import hide_literals
from projseg.segment_format.footer import BASE_TABLE
from projseg.table_layer.still_stored import LiveParts
from projseg.table_layer.storage.paths import new_write_id, segment_name, snapshot_name

COARSE = {"name": "coarse", "sql": "SELECT robot, min(page) AS p, count(*) AS n GROUP BY ALL"}


@pytest.fixture
def table(tmp_path):
    """A table of three days, one segment each, with two projections."""
    table = new_table(tmp_path / "t", projections=[HOURLY, COARSE])
    for day in range(3):
        table.append(rows(day, count=200))
    return table


def dead(table):
    live = LiveParts.of(table.snapshot)
    return [live.dead(entry) for entry in table.snapshot.segments]


def stored(table):
    """The columns and projections of each segment's file."""
    return [
        ({field.name for field in segment.schema}, {t.name for t in segment.tables} - {BASE_TABLE})
        for segment in opened_segments(table)
    ]


def test_a_dropped_column_leaves_with_a_compaction_of_segments_that_are_alone(table):
    before = [entry.columns["tags"].bytes for entry in table.snapshot.segments]
    table.drop_column("tags")
    assert [one.columns for one in dead(table)] == [{"tags": size} for size in before]
    made = table.compact()
    assert (made.segments, made.rows) == (3, 600)
    assert not any(dead(table))
    assert all("tags" not in columns for columns, _ in stored(table))
    assert all("tags" not in entry.columns for entry in table.snapshot.segments)
    assert table.compact().segments == 0
    assert table.verify(deep=True) == []


def test_a_full_segment_is_written_without_a_dropped_projection(tmp_path):
    table = new_table(tmp_path / "t", projections=[HOURLY, COARSE], target_segment_rows=100)
    table.append(rows(0, count=200))
    wanted = answers(table)
    table.drop_projection("coarse")
    sizes = [one.projections for one in dead(table)]
    assert [set(one) for one in sizes] == [{"coarse"}] * 2
    assert table.compact(dry_run=True).num_rows == 2
    assert table.compact().segments == 2
    assert {names for _, found in stored(table) for names in found} == {"hourly"}
    assert answers(table) == wanted
    assert set(table.snapshot.definitions) == {
        one.definition_hash for one in table.properties.projections
    }


def test_a_purge_writes_what_stores_removed_values_and_nothing_else(table):
    table.append(rows(1, count=30))
    table.delete("page = 'page 3'", interval="2024-05-01/P1D")
    (hit,) = [one for one in dead(table) if one]
    assert hit.deleted_rows > 0
    assert hit.byte_count > 0
    files = {entry.file for entry in table.snapshot.segments}
    assert table.compact(dry_run=True, purge=True)["segments"].to_pylist() == [1]
    made = table.compact(purge=True)
    assert made.segments == 1
    assert len(files & {entry.file for entry in table.snapshot.segments}) == 3
    assert not any(dead(table))
    assert table.compact(purge=True).segments == 0
    assert ("purge", "true") in table.history().to_pylist()[0]["operationParameters"]
    assert table.compact().segments == 1, "small segments are left to a compaction"


def test_materialising_leaves_behind_what_was_dropped(table):
    table.drop_column("tags")
    table.drop_projection("coarse")
    table.add_projection(BY_CHANNEL, materialize=True)
    assert not any(dead(table))
    assert all("tags" not in columns for columns, _ in stored(table))
    assert [names for _, names in stored(table)] == [{"hourly", "by_channel"}] * 3
    assert table.verify(deep=True) == []


def test_the_reason_of_a_failed_projection_leaves_with_it(tmp_path):
    table = new_table(
        tmp_path / "t",
        projections=[
            {"name": "bad", "sql": "SELECT CAST(page AS int) AS p, count(*) AS n GROUP BY ALL"}
        ],
    )
    table.append(rows(0))
    (entry,) = table.snapshot.segments
    assert "page " in entry.not_built[0][2]
    table.drop_projection("bad")
    assert dead(table)[0].projections == {"bad": 0}
    table.compact()
    assert [entry.not_built for entry in table.snapshot.segments] == [()]


def test_one_definition_under_two_names_is_dead_once_one_is_dropped(tmp_path):
    twice = {**COARSE, "name": "other"}
    table = new_table(tmp_path / "t", projections=[COARSE, twice])
    table.append(rows(0))
    names = [p.name for entry in table.snapshot.segments for p in entry.projections]
    table.drop_projection("coarse")
    assert [set(one.projections) for one in dead(table)] == [set(names) - {"other"}] * bool(
        len(names) == 2
    ) or names == ["coarse"]
    table.compact()
    assert not any(dead(table))


def test_a_projection_of_a_wider_column_is_not_dead(table):
    table.add_projection(BY_CHANNEL, materialize=True)
    table.widen_column("added", "decimal(20,0)")
    assert not any(one.projections.get("by_channel") for one in dead(table))
    assert not any(one.columns for one in dead(table))


def test_a_projection_declared_anew_under_its_name_leaves_its_old_form_dead(table):
    table.drop_projection("coarse")
    table.add_projection({**BY_CHANNEL, "name": "coarse"})
    assert [set(one.projections) for one in dead(table)] == [{"coarse"}] * 3
    table.compact()
    assert not any(dead(table))
    assert table.verify(deep=True) == []


def test_rows_answer_as_before_when_removed_values_went(table):
    table.drop_column("tags")
    table.drop_projection("hourly")
    table.delete("channel = '#1'")
    wanted = answers(table)
    table.compact()
    assert answers(table) == answers(table, noProjections=True) == wanted


def test_history_has_no_literals(table):
    table.delete("channel = 'MARK' AND added = 4711 /* MARK */")
    table.update({"channel": "concat('MARK', page)"}, "page = \"page 3\" OR page = 'MA''RK'")
    table.overwrite(rows(0).slice(0, 0), filter="channel = 'MARK'")
    with pytest.raises(projseg.errors.InvalidInputError, match="'MARK'"):
        table.overwrite(rows(0), filter="channel = 'MARK'")
    told = json.dumps([row["operationParameters"] for row in table.history().to_pylist()])
    assert "MARK" not in told
    assert "4711" not in told
    assert "concat(?, page)" in told
    assert "page = ? OR page = ?" in told


QUOTED = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@settings(max_examples=tries(300))
@given(st.lists(QUOTED, min_size=1, max_size=4), st.integers(0, 10**12), st.booleans())
def test_no_literal_survives(texts, number, double):
    mark = '"' if double else "'"
    escaped = (text.replace("\\", "\\\\").replace(mark, "\\" + mark) for text in texts)
    quoted = [f"{mark}ZQ{text}{mark}" for text in escaped]
    sql = f"`a` IN ({', '.join(quoted)}) AND b > {number} -- ZQ"
    hidden = hide_literals(sql)
    assert "ZQ" not in hidden
    assert not any(character.isdigit() for character in hidden)
    assert hidden.startswith("`a` IN (?")


def test_detail_and_vacuum_say_where_removed_values_are(table):
    table.tag("first")
    table.drop_column("tags")
    table.drop_projection("coarse")
    table.delete("page = 'page 3'", interval="2024-05-01/P1D")
    told = table.detail()
    sizes = [entry.columns["tags"].bytes for entry in table.snapshot.segments]
    assert told["dead_bytes"] == sum(one.byte_count for one in dead(table)) > sum(sizes)
    (own,) = told["still_stored"]
    deleted = sum(one.deleted_rows for one in dead(table))
    assert (own["versions"], own["tag"]) == (str(table.version), None)
    assert (own["segments"], own["rows"], own["bytes"]) == (3, deleted, told["dead_bytes"])
    assert (own["dropped_columns"], own["dropped_projections"]) == (["tags"], ["coarse"])
    assert "compact" in own["why"]

    before = table.snapshot.data_bytes
    table.compact()
    told = table.detail()
    assert told["dead_bytes"] == 0
    kept, tagged = told["still_stored"]
    assert (kept["versions"], kept["tag"], kept["bytes"]) == (
        f"0 to {table.version - 1}",
        None,
        before,
    )
    assert (tagged["versions"], tagged["tag"], tagged["segments"]) == ("3", "first", 3)
    assert tagged["dropped_columns"] == ["tags"]
    dry = table.vacuum()
    assert "168 hours" in dry.still_stored["why"][0].as_py()
    done = table.vacuum(0, dry_run=False, force=True)
    (left,) = done.still_stored.to_pylist()
    assert left["tag"] == "first"
    assert "drop_tag('first')" in left["why"]
    table.drop_tag("first")
    assert table.vacuum(0, dry_run=False, force=True).still_stored.num_rows == 0
    assert table.detail()["still_stored"] == []


def test_vacuum_says_which_young_files_no_version_lists(table):
    name = segment_name(new_write_id(), 0, 0, 0)
    Path(table.location, name).write_bytes(b"killed")
    (young,) = table.vacuum(dry_run=True).still_stored.to_pylist()
    assert (young["versions"], young["segments"], young["bytes"]) == ("", 1, 6)
    assert table.vacuum(0, force=True).file_count >= 1


def test_detail_outlives_a_damaged_earlier_version(table):
    version = table.version
    table.compact(purge=True)
    table.drop_column("tags")
    table.compact()
    path = Path(table.location, snapshot_name(version))
    path.write_bytes(path.read_bytes()[:-20])
    told = projseg.Table(table.location).detail()["still_stored"]
    assert f"version {version} cannot be read" in told[0]["why"]
