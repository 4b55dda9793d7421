"""Columns renamed, dropped, widened, added: rows stay, projections answer as base rows do."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from projseg import Projection, Table
from projseg.errors import CommitConflictError, InvalidInputError, UnsupportedFeatureError
from projseg.segment_format.logical_types import type_name
from projseg.table.table_version import state_of
from projseg.table_layer.metadata.snapshot import open_snapshot

START = datetime(2024, 5, 1, tzinfo=UTC)
COLUMNS = {
    "time": "timestamp",
    "channel": "string",
    "added": "int",
    "price": "decimal(9,2)",
    "ratio": "float",
}
AGGREGATORS = [
    "sum(added) AS added",
    "avg(added) AS mean",
    "min(added) AS least",
    "max(price) AS dearest",
    "sum(price) AS price",
    "sum(ratio) AS ratio",
    "count(*) AS n",
]
BY_CHANNEL = Projection("by_channel", group_by=["channel"], aggregators=AGGREGATORS)
ANSWER = {"group_by": "channel", "aggregators": AGGREGATORS}
FORCED = {"useProjection": "by_channel", "forceProjections": True}
UNUSED = {"noProjections": True}


def rows(count=40, **names):
    """Return rows with nulls, whose columns may have other names."""
    columns = {
        "time": [START + timedelta(minutes=7 * n) for n in range(count)],
        "channel": [None if n % 11 == 0 else f"#{n % 4}" for n in range(count)],
        "added": [None if n % 7 == 0 else n - 9 for n in range(count)],
        "price": pa.array([Decimal(n) / 4 for n in range(count)], pa.decimal128(9, 2)),
        "ratio": pa.array([n / 8 for n in range(count)], pa.float32()),
    }
    return {names.get(name, name): values for name, values in columns.items()}


@pytest.fixture
def table(tmp_path):
    made = Table.create(
        tmp_path / "t",
        COLUMNS,
        time_column="time",
        cluster_by=["channel"],
        projections=[BY_CHANNEL],
    )
    made.append(rows())
    return made


def renamed(names):
    """Return `ANSWER` over other names of columns, its outputs named as before."""
    text = json.dumps(ANSWER)
    for old, new in names.items():
        text = text.replace(f"({old})", f"({new})")
    answer = json.loads(text)
    if "channel" in names:
        answer["group_by"] = f"{names['channel']} AS channel"
    return answer


def metadata(table):
    return json.loads(Path(table.location, "_projseg", f"{table.version:020}.json").read_bytes())


def test_a_renamed_column_is_answered_from_the_projections_of_old_and_new_segments(table):
    before = table.query(**ANSWER, context=FORCED)
    names = {"channel": "site", "added": "lines", "price": "cost"}
    for old, new in names.items():
        table.rename_column(old, new)
    assert table.schema.names == ["time", "site", "lines", "cost", "ratio"]
    assert table.properties.cluster_by == ("site",)
    assert table.query(**renamed(names), context=FORCED).equals(before)
    assert table.query(**renamed(names), context=UNUSED).equals(before)
    table.append(rows(**names))
    doubled = table.query(**renamed(names), context=FORCED)
    assert doubled["n"].to_pylist() == [2 * n for n in before["n"].to_pylist()]
    assert doubled.equals(table.query(**renamed(names), context=UNUSED))
    assert table.explain(**renamed(names)).segments["source"].to_pylist() == ["by_channel"] * 2
    (told,) = table.projections().to_pylist()
    assert told["group_by"] == ["site AS site"]
    assert "sum(lines) AS added" in told["aggregators"]
    assert (told["segments"], told["segments_missing"]) == (2, 0)
    assert not table.verify(deep=True)


@pytest.mark.parametrize(
    ("type_text", "value", "answer"),
    [
        ("array<int>", [1], "count(size(v))"),
        ("map<string,int>", [("a", 1)], "count(v)"),
        ("struct<a:int>", {"a": 1}, "count(v.a)"),
    ],
)
def test_small_segments_that_are_read_together_may_all_lack_a_nested_column(
    tmp_path, type_text, value, answer
):
    table = Table.create(tmp_path / "small", COLUMNS)
    table.append(rows())
    table.append(rows())
    table.add_column("v", type_text)
    table.append(rows(20_000) | {"v": [value] * 20_000})  # is read by itself
    found = table.query("channel", [f"{answer} AS v", "count(*) AS n"]).to_pylist()
    assert [sum(row[name] for row in found) for name in "vn"] == [20_000, 20_080]


def test_a_rename_keeps_definitions_zones_and_bitmaps(table):
    digest = table.projections()["definition_hash"].to_pylist()
    table.rename_column("channel", "site")
    table.rename_column("time", "moment")
    assert table.projections()["definition_hash"].to_pylist() == digest
    assert table.properties.time_column == "moment"
    assert "1 segments pruned" in str(table.explain(columns="added", filter="added > 1000"))
    assert table.query(columns="added", filter="site = '#3' AND added > 20").num_rows == 2
    assert table.query(columns="added", interval="2024-05-01T01:00Z/PT1H").num_rows == 9


def test_two_columns_may_swap_their_names(table):
    table.add_column("removed", "int")
    table.append({**rows(), "removed": list(range(40))})
    expected = table.query(columns=["added", "removed"], order_by="removed, added")
    for old, new in (("added", "x"), ("removed", "added"), ("x", "removed")):
        table.rename_column(old, new)
    found = table.query(columns=["removed", "added"], order_by="added, removed")
    assert found.rename_columns(["added", "removed"]).equals(expected)
    # The cache of decoded columns knows which is which.
    assert (
        Table(table.location, version=3)
        .query(columns=["added", "removed"], order_by="removed, added")
        .equals(expected)
    )
    forced = table.query("channel", "sum(removed) AS s", context=FORCED)
    assert forced.equals(table.query("channel", "sum(removed) AS s", context=UNUSED))


def test_a_name_that_was_dropped_is_null_in_old_rows(table):
    table.drop_projection("by_channel")
    assert table.drop_column("added") == 3
    assert "added" not in table.schema.names
    table.add_column("added", "int")
    assert table.query(aggregators="count(added) AS n").to_pylist() == [{"n": 0}]
    assert table.query(columns="added", filter="added IS NOT NULL").num_rows == 0
    assert table.query(aggregators="max(added) AS m").to_pylist() == [{"m": None}]
    table.append(rows())
    assert table.query(aggregators="count(added) AS n").to_pylist() == [{"n": 34}]
    table.drop_column("added")
    table.add_column("Added", "string")
    assert table.query(aggregators="count(added) AS n").to_pylist() == [{"n": 0}]
    assert not table.verify(deep=True)
    assert Table(table.location, version=1).query(aggregators="sum(added) AS s").num_rows == 1


def test_a_compaction_removes_what_was_dropped(table):
    table.append(rows())
    table.drop_projection("by_channel")
    table.drop_column("ratio")
    table.widen_column("added", "bigint")
    before = table.query(columns=table.schema.names, order_by="time, added").to_pylist()
    assert table.compact().segments == 1
    (entry,) = table.snapshot.segments
    assert sorted(entry.columns) == ["added#2", "channel", "price", "time"]
    assert not entry.projections
    assert table.query(columns=table.schema.names, order_by="time, added").to_pylist() == before
    assert not table.verify(deep=True)


@pytest.mark.parametrize(
    ("column", "wide", "answers_from"),
    [
        ("added", "bigint", "by_channel"),
        ("added", "decimal(12,0)", "by_channel"),
        ("price", "decimal(15,2)", "by_channel"),
        ("ratio", "double", "by_channel"),
        ("added", "double", None),
    ],
)
def test_a_wider_column_has_its_values_and_spark_types(table, column, wide, answers_from):
    narrow = table.query(**ANSWER, context=UNUSED)
    scanned = table.query(columns=["time", column], order_by="time")
    table.widen_column(column, wide)
    assert type_name(table.schema.field(column).type) == wide
    again = table.query(columns=["time", column], order_by="time")
    assert type_name(again.schema.field(column).type) == wide
    assert again.to_pylist() == scanned.to_pylist()
    found, base = table.query(**ANSWER), table.query(**ANSWER, context=UNUSED)
    assert found.equals(base)
    assert [values(row) for row in found.to_pylist()] == [values(r) for r in narrow.to_pylist()]
    wanted = {
        "bigint": {"added": "bigint", "mean": "double", "least": "bigint"},
        "decimal(12,0)": {
            "added": "decimal(22,0)", "mean": "decimal(16,4)", "least": "decimal(12,0)",
        },
        "decimal(15,2)": {"dearest": "decimal(15,2)", "price": "decimal(25,2)"},
        "double": {column: "double"},
    }[wide]  # fmt: skip
    assert {name: type_name(found.schema.field(name).type) for name in wanted} == wanted
    assert table.explain(**ANSWER).segments["source"].to_pylist() == [answers_from]
    table.append(rows())
    both = table.query(**ANSWER)
    assert both.equals(table.query(**ANSWER, context=UNUSED))
    assert not table.verify(deep=True)
    assert table.compact().segments == 1
    assert table.query(**ANSWER, context=FORCED).equals(both)
    assert not table.verify(deep=True)


def values(row):
    """Return a row's values as doubles; the mean of decimals is rounded, as Spark does."""
    row["mean"] = None if row["mean"] is None else round(float(row["mean"]), 4)
    return [float(v) if isinstance(v, int | Decimal) else v for v in row.values()]


def test_filters_find_rows_of_narrow_and_wide_segments(table):
    table.drop_projection("by_channel")
    table.widen_column("added", "double")
    table.widen_column("price", "decimal(12,2)")
    table.append(rows())
    for text, count in {
        "added > 27.5": 6, "added = 20": 2, "added < -8.5": 0, "added IS NULL": 12,
        "added BETWEEN 1 AND 2": 4, "price = 9.75": 2, "price > 9.50": 2, "added IN (5, 6)": 2,
    }.items():  # fmt: skip
        assert table.query(columns="added", filter=text).num_rows == count, text
        assert table.query(aggregators="count(*) AS n", filter=text).to_pylist() == [{"n": count}]


def test_what_a_wider_column_changes_is_left_to_base_rows(tmp_path):
    table = Table.create(tmp_path / "t", COLUMNS, time_column="time")
    table.add_projection(
        Projection("p", group_by=["added + 1 AS next"], aggregators=["count(*) AS n"])
    )
    table.add_projection(
        Projection(
            "q",
            group_by=["channel"],
            aggregators=["approx_count_distinct(added) AS d", "count(*) AS n"],
        )
    )
    table.add_projection(
        Projection("r", group_by=["channel"], aggregators=["count(*) AS n"], where="added > 3")
    )
    table.append(rows())
    table.widen_column("added", "bigint")
    for query in (
        {"group_by": "added + 1 AS next", "aggregators": "count(*) AS n"},
        {"group_by": "channel", "aggregators": "approx_count_distinct(added) AS d"},
        {"group_by": "channel", "aggregators": "count(*) AS n", "filter": "added > 3"},
    ):
        assert table.query(**query).equals(table.query(**query, context=UNUSED))
        assert "by" not in str(table.explain(**query).segments["source"].to_pylist())
    told = table.explain(group_by="added + 1 AS next", aggregators="count(*) AS n")
    assert "widened" in str(told.segments["rejected"].to_pylist())
    # q still counts rows.
    counted = table.explain(group_by="channel", aggregators="count(*) AS n").segments
    assert counted["source"].to_pylist() == ["q"]
    table.materialize_projection()
    assert not table.verify(deep=True)
    again = table.explain(group_by="added + 1 AS next", aggregators="count(*) AS n").segments
    assert again["source"].to_pylist() == ["p"]


@pytest.mark.parametrize(
    ("group_by", "aggregators"),
    [("channel", "sum(added) AS s, count(added) AS n"), ("added", "count(*) AS n")],
)
def test_a_projection_built_between_two_widenings_is_verified(table, group_by, aggregators):
    table.widen_column("added", "bigint")
    built = Projection("p", group_by=[group_by], aggregators=aggregators.split(", "))
    table.add_projection(built, materialize=True)
    table.widen_column("added", "decimal(19,0)")
    assert not table.verify(deep=True)
    query = {"group_by": group_by, "aggregators": aggregators, "order_by": group_by}
    told = table.query(**query, context={"useProjection": "p", "forceProjections": True})
    assert told.equals(table.query(**query, context=UNUSED))


def test_a_projection_of_a_column_that_was_widened_and_dropped_is_no_damage(table):
    table.widen_column("added", "bigint")
    built = Projection("p", group_by=["channel"], aggregators=["sum(added) AS s"])
    table.add_projection(built, materialize=True)
    table.drop_projection("p")
    table.drop_projection("by_channel")
    table.drop_column("added")
    (entry,) = table.snapshot.segments
    assert [projection.name for projection in entry.projections] == ["p"]
    assert not table.verify(deep=True)
    table.add_column("added", "bigint")
    assert table.query(aggregators="count(added) AS n").to_pylist() == [{"n": 0}]
    assert not table.verify(deep=True)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("verb", "arguments", "code", "named"),
    [
        ("add_column", ("Added", "int"), "PROJSEG_COLUMN_EXISTS", "'added'"),
        ("add_column", ("x", "floot"), "PROJSEG_BAD_TYPE_NAME", "'x'"),
        ("add_column", ("", "int"), "PROJSEG_BAD_NAME", ""),
        ("rename_column", ("aded", "x"), "PROJSEG_UNKNOWN_COLUMN", "did you mean 'added'"),
        ("rename_column", ("added", "PRICE"), "PROJSEG_COLUMN_EXISTS", "'price'"),
        ("rename_column", ("added", "\n"), "PROJSEG_BAD_NAME", ""),
        ("drop_column", ("aded",), "PROJSEG_UNKNOWN_COLUMN", "did you mean 'added'"),
        ("drop_column", ("added",), "PROJSEG_COLUMN_IN_USE", "projection 'by_channel' reads"),
        ("drop_column", ("time",), "PROJSEG_COLUMN_IN_USE", "time column"),
        ("drop_column", ("channel",), "PROJSEG_COLUMN_IN_USE", "sorted by"),
        ("widen_column", ("added", "smallint"), "PROJSEG_CANNOT_WIDEN", "'added' is int"),
        ("widen_column", ("added", "decimal(9,0)"), "PROJSEG_CANNOT_WIDEN", "decimal(9,0)"),
        ("widen_column", ("added", "string"), "PROJSEG_CANNOT_WIDEN", "string"),
        ("widen_column", ("added", "float"), "PROJSEG_CANNOT_WIDEN", "float"),
        ("widen_column", ("price", "decimal(12,3)"), "PROJSEG_CANNOT_WIDEN", "decimal(12,3)"),
        ("widen_column", ("time", "timestamp_ntz"), "PROJSEG_CANNOT_WIDEN", "timestamp_ntz"),
    ],
)
def test_what_cannot_be_changed_is_refused_and_nothing_is_written(
    table, verb, arguments, code, named
):
    with pytest.raises(InvalidInputError, match=code) as refused:
        getattr(table, verb)(*arguments)
    assert named in str(refused.value)
    assert Table(table.location).version == 1


@pytest.mark.parametrize(
    ("verb", "arguments", "code"),
    [
        ("add_column", (None, "int"), "PROJSEG_BAD_NAME"),
        ("add_column", (5, "int"), "PROJSEG_BAD_NAME"),
        ("add_column", ([], "int"), "PROJSEG_BAD_NAME"),
        ("rename_column", (None, "x"), "PROJSEG_UNKNOWN_COLUMN"),
        ("drop_column", (None,), "PROJSEG_UNKNOWN_COLUMN"),
        ("widen_column", (None, "bigint"), "PROJSEG_UNKNOWN_COLUMN"),
    ],
)
def test_what_is_no_text_names_no_column(tmp_path, verb, arguments, code):
    table = Table.create(tmp_path / "t", {"None": "int", "n": "int"})
    with pytest.raises(InvalidInputError, match=code):
        getattr(table, verb)(*arguments)
    assert Table(table.location).schema.names == ["None", "n"]


def test_a_projection_that_cannot_read_the_wider_type_is_named(tmp_path):
    table = Table.create(tmp_path / "t", COLUMNS, projections=[
        Projection("bits", group_by=["channel"], aggregators=["bit_and(added) AS bits"]),
    ])  # fmt: skip
    with pytest.raises(InvalidInputError, match="PROJSEG_COLUMN_IN_USE") as refused:
        table.widen_column("added", "double")
    assert "'bits'" in str(refused.value)
    assert table.widen_column("added", "bigint") == 1


def test_the_last_column_stays(tmp_path):
    table = Table.create(tmp_path / "t", {"only": "int"})
    with pytest.raises(InvalidInputError, match="PROJSEG_EMPTY_SCHEMA"):
        table.drop_column("only")


def test_old_versions_and_restored_ones_have_their_own_columns(table):
    before = table.query(**ANSWER)
    table.rename_column("added", "lines")
    table.widen_column("lines", "bigint")
    table.drop_projection("by_channel")
    table.drop_column("ratio")
    table.add_column("ratio", "string")
    table.append({"time": [START], "channel": ["#9"], "lines": [2**40], "ratio": ["half"]})
    old = Table(table.location, version=1)
    assert {f.name: type_name(f.type) for f in old.schema} == COLUMNS
    assert old.query(**ANSWER, context=FORCED).equals(before)
    newest = table.version
    table.restore(1)
    assert {f.name: type_name(f.type) for f in table.schema} == COLUMNS
    assert table.query(**ANSWER, context=FORCED).equals(before)
    # No stored name comes back with another meaning.
    table.drop_projection("by_channel")
    table.widen_column("added", "decimal(10,0)")
    table.drop_column("ratio")
    table.add_column("ratio", "binary")
    assert {"added#2", "ratio#3"} <= {
        forms[-1].name for forms in table.properties.stored_columns.columns
    }
    table.restore(newest)
    assert table.query(columns=["lines", "ratio"], filter="channel = '#9'").to_pylist() == [
        {"lines": 2**40, "ratio": "half"}
    ]
    assert not table.verify(deep=True)


def test_rows_are_deleted_updated_and_merged_over_mixed_segments(table):
    table.rename_column("added", "lines")
    table.widen_column("lines", "bigint")
    table.append(rows(added="lines"))
    table.add_column("note", "string")
    table.delete("lines = -8")
    table.update({"lines": "lines * 10000000000", "note": "'big'"}, filter="lines = 30")
    table.merge(
        {"time": [START], "channel": ["#z"], "lines": [5], "price": [Decimal(1)],
         "ratio": [0.5], "note": ["new"]},
        on=["channel"],
    )  # fmt: skip
    found = table.query(
        aggregators=["count(*) AS n", "max(lines) AS most", "count(note) AS notes"]
    ).to_pylist()
    assert found == [{"n": 79, "most": 300_000_000_000, "notes": 3}]
    assert not table.verify(deep=True)


def test_history_has_deltas_words(table):
    table.add_column("x", "int")
    table.widen_column("x", "bigint")
    table.rename_column("x", "y")
    table.drop_column("y")
    told = [
        (row["operation"], dict(row["operationParameters"]))
        for row in table.history().to_pylist()[:4]
    ]
    assert told == [
        ("DROP COLUMNS", {"columns": '["y"]'}),
        ("RENAME COLUMN", {"oldColumnPath": "x", "newColumnPath": "y"}),
        ("CHANGE COLUMN", {"column": '{"name": "x", "type": "bigint"}'}),
        ("ADD COLUMNS", {"columns": '[{"column": {"name": "x", "type": "int"}}]'}),
    ]


@pytest.mark.folder
def test_only_what_needs_stored_names_asks_for_a_reader_that_knows_them(table, monkeypatch):
    table.add_column("x", "int")
    assert "stored_columns" not in metadata(table)["required_features"]
    assert "stored_columns" not in metadata(table)["properties"]
    table.rename_column("x", "y")
    assert metadata(table)["required_features"][0] == "stored_columns"
    table.rename_column("y", "x")
    assert "stored_columns" not in metadata(table)["required_features"]
    table.drop_column("x")
    assert metadata(table)["properties"]["stored_columns"]["retired"] == [
        {"name": "x", "type": "int"}
    ]
    # What an earlier release, which knows no such feature, makes of it.
    from projseg.table_layer.metadata import checksummed_json

    monkeypatch.setattr(checksummed_json, "SUPPORTED_FEATURES", frozenset({"optional"}))
    with pytest.raises(UnsupportedFeatureError, match="stored_columns"):
        open_snapshot(table.snapshot.storage)


def test_an_append_lands_as_if_it_came_before_others_changes(table):
    stale = Table(table.location)
    table.rename_column("added", "lines")
    table.widen_column("lines", "bigint")
    table.add_column("note", "string")
    table.drop_projection("by_channel")
    table.drop_column("ratio")
    table.add_column("ratio", "string")
    stale.append(rows())
    table.refresh()
    told = ["count(*) AS n", "sum(lines) AS s", "count(ratio) AS r", "count(note) AS notes"]
    assert table.query(aggregators=told).to_pylist() == [
        {"n": 80, "s": 2 * sum(n - 9 for n in range(40) if n % 7), "r": 0, "notes": 0}
    ]
    assert not table.verify(deep=True)


def test_rows_for_columns_that_a_restore_took_back_are_a_conflict(table):
    table.add_column("note", "string")
    stale = Table(table.location)
    table.restore(1)
    with pytest.raises(CommitConflictError, match="'note'"):
        stale.append({**rows(), "note": ["x"] * 40})


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (("rename_column", "added", "x"), ("rename_column", "added", "y")),
        (("rename_column", "added", "x"), ("widen_column", "added", "bigint")),
        (("rename_column", "added", "x"), ("add_column", "x", "int")),
        (("widen_column", "added", "bigint"), ("widen_column", "added", "double")),
        (("drop_column", "note"), ("rename_column", "note", "x")),
        (("drop_column", "note"), ("drop_column", "note")),
        (("add_column", "x", "int"), ("add_column", "X", "string")),
        (
            ("drop_column", "note"),
            ("add_projection", {"name": "p", "sql": "SELECT note, count(*) AS n GROUP BY ALL"}),
        ),
        (
            ("add_projection", {"name": "p", "sql": "SELECT note, count(*) AS n GROUP BY ALL"}),
            ("drop_column", "note"),
        ),
    ],
)
def test_two_changes_of_one_column_conflict(table, mine, theirs):
    table.add_column("note", "int")
    stale = Table(table.location)
    getattr(table, theirs[0])(*theirs[1:])
    with pytest.raises(CommitConflictError):
        getattr(stale, mine[0])(*mine[1:])
    assert Table(table.location).version == table.version
    assert not table.verify(deep=True)


def test_changes_of_different_columns_both_land(table):
    stale = Table(table.location)
    table.rename_column("added", "lines")
    stale.rename_column("price", "cost")
    table.refresh().add_column("x", "int")
    stale.add_column("x", "int")  # the same change: no conflict
    assert stale.schema.names == ["time", "channel", "lines", "cost", "ratio", "x"]


def test_a_compaction_meets_a_change_of_columns(table):
    table.append(rows())
    stale = Table(table.location)
    before = table.query(**ANSWER)
    table.rename_column("added", "lines")
    table.widen_column("price", "decimal(20,2)")
    state_of(stale).move_to(open_snapshot(table.snapshot.storage, 2))
    from projseg.maintenance.compact import Compaction, compact

    compact(stale.snapshot, Compaction())
    table.refresh()
    assert len(table.snapshot.segments) == 1
    found = table.query(**renamed({"added": "lines"}))
    assert found["added"].equals(before["added"])
    assert not table.verify(deep=True)


def test_a_projection_added_after_a_rename_mentions_the_new_name(table):
    table.rename_column("added", "lines")
    table.add_projection(
        {"name": "most", "sql": "SELECT channel, max(lines) AS most GROUP BY ALL"},
        materialize=True,
    )
    forced = {"useProjection": "most", "forceProjections": True}
    assert table.query("channel", "max(lines) AS m", context=forced).num_rows == 5
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_COLUMN"):
        table.add_projection({"name": "x", "sql": "SELECT max(added) AS m GROUP BY ALL"})
    assert not table.verify(deep=True)
