"""Tables by name: what a definition says of columns and layout, beside what the table has."""

import copy
import datetime
import os
import pickle
import signal
from decimal import Decimal

import pyarrow as pa
import pytest
from race import run_and_die

import projseg
from projseg.errors import (
    CommitConflictError,
    EvaluationError,
    InvalidInputError,
    ProjsegError,
    UnsupportedFeatureError,
)
from projseg.table.table_version import state_of

DAY = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
SPEC = {
    "properties": {
        "timeColumn": "time",
        "segmentGranularity": "P1D",
        "targetSegmentRows": 1000,
        "clusterKeys": [{"column": "channel"}],
        "projections": [
            {"name": "by_channel", "sql": "SELECT channel, sum(added) AS added GROUP BY ALL"}
        ],
    },
    "columns": [
        {"name": "time", "sqlType": "timestamp"},
        {"name": "channel", "sqlType": "string"},
        {"name": "added", "sqlType": "bigint"},
    ],
}


def rows(count=48, first=0, **extra):
    numbers = range(first, first + count)
    columns = {
        "time": [DAY + datetime.timedelta(hours=n) for n in numbers],
        "channel": [f"#{n % 3}" for n in numbers],
        "added": list(numbers),
    }
    return pa.table({**columns, **extra})


@pytest.fixture
def edits(house):
    house.create("edits", SPEC)
    return house


def hours(table):
    return [(e.interval[1] - e.interval[0]) // 3_600_000_000 for e in table.snapshot.segments]


def code(text, kind=InvalidInputError):
    return pytest.raises(kind, match=text)


def test_the_chain_of_the_seed(edits):
    table = edits.table("edits")
    assert table.query().schema.names == ["time", "channel", "added"]
    assert edits.sql("SELECT count(*) AS n, sum(added) AS s FROM edits").to_pylist() == [
        {"n": 0, "s": None}
    ]
    edits.merge("edits", {"columns": [{"name": "city", "sqlType": "string"}]})
    assert edits.sql("SELECT * FROM default.edits").schema.field("city").type == pa.string()
    assert not os.path.exists(table.location), "a definition makes no folder"
    table.append(rows())
    table.append(rows(first=48))
    assert hours(table) == [24, 24, 24, 24]
    assert table.explain(group_by="channel", aggregators="sum(added)").sources == {"by_channel": 4}
    assert edits.sql("SELECT DISTINCT city FROM edits").to_pylist() == [{"city": None}]
    stored = projseg.Table(table.location)
    assert stored.properties.cluster_by == ("channel",)
    assert stored.verify(deep=True) == []
    assert edits.metadata("edits").table_id == stored.properties.table_id


def test_option_then_spec_then_table_then_default(edits):
    table = edits.table("edits")
    table.append(rows(24))
    assert hours(table) == [24]
    edits.merge("edits", {"properties": {"segmentGranularity": "PT12H", "targetSegmentRows": 5}})
    table.append(rows(24, 24), segment_granularity="PT6H")
    assert hours(table)[1:] == [6] * 8, "of this statement, five rows each"
    by_path = projseg.Table(table.location)
    assert by_path.properties.segment_granularity == "PT12H"
    assert by_path.history()["operation"].to_pylist() == ["append", "create"]
    by_path.append(rows(24, 48))
    assert [hours(by_path)[-6:], by_path.properties.target_segment_rows] == [[12] * 6, 5]
    edits.merge("edits", {"properties": {"segmentGranularity": None, "clusterKeys": None}})
    table.append(rows(12, 72))
    assert hours(table)[-3:] == [12] * 3, "what the spec leaves open, the table says"
    assert table.properties.cluster_by == ("channel",)
    before = sorted(map(repr, projseg.Table(table.location).query().to_pylist()))
    table.compact()
    assert sorted(map(repr, projseg.Table(table.location).query().to_pylist())) == before
    assert set(hours(edits.table("edits"))) <= {6, 12}, "what was coarser is cut"


def test_no_verb_of_a_catalog_changes_an_answer_by_path(edits):
    edits.table("edits").append(rows())
    location = edits.metadata("edits").location
    wanted = projseg.Table(location).query()
    verbs = [
        lambda: edits.merge("edits", {"columns": [{"name": "added", "sqlType": "decimal(20,0)"}]}),
        lambda: edits.hide_columns("edits", ["added"]),
        lambda: edits.move_column("edits", "added", "first"),
        lambda: edits.rename("edits", "changes"),
        lambda: edits.apply("changes", dry_run=True),
        lambda: edits.drop("changes"),
        lambda: edits.gc(dry_run=False),
    ]
    for verb in verbs:
        verb()
        assert projseg.Table(location).query().equals(wanted)


def test_projections_are_declared_and_absence_drops_nothing(edits):
    table = edits.table("edits")
    table.append(rows())
    other = {"name": "by_channel", "sql": "SELECT channel, max(added) AS most GROUP BY ALL"}
    more = {"name": "hourly", "sql": "SELECT date_trunc('HOUR', time) AS h, count(*) GROUP BY ALL"}
    edits.merge("edits", {"properties": {"projections": [more]}})
    table.append(rows(first=48))
    assert [p.name for p in table.properties.projections] == ["by_channel", "hourly"]
    edits.merge("edits", {"properties": {"projections": [other]}})
    table.append(rows(first=96))
    assert table.explain(group_by="channel", aggregators="max(added)").sources["by_channel"] == 2
    assert table.verify(deep=True) == []


def test_an_older_version_and_a_second_name_leave_the_layout(edits):
    stale = edits.table("edits")
    stale.append(rows(24))
    definition = stale.definition
    edits.merge("edits", {"properties": {"segmentGranularity": "PT12H"}})
    edits.table("edits").append(rows(24, 24))
    state_of(stale).refresh = lambda: None  # a writer that has not heard of it
    state_of(stale).define(definition)
    stale.append(rows(24, 48))
    assert projseg.Table(stale.location).properties.segment_granularity == "PT12H"
    edits.register(
        "second",
        stale.location,
        {"properties": {"segmentGranularity": "P1M", "timeColumn": "time"}},
    )
    second = edits.table("second")
    second.append(rows(24, 72))
    assert second.properties.segment_granularity == "PT12H"
    edits.rebind("second")
    assert edits.table("second").properties.segment_granularity == "P1M"
    edits.table("edits").append(rows(24, 96))
    assert edits.table("edits").properties.segment_granularity == "P1M"


def test_values_are_assigned_as_sparks_ansi_mode_does(house):
    house.create(
        "t",
        {
            "columns": [
                {"name": name, "sqlType": type_}
                for name, type_ in {
                    "text": "string",
                    "big": "bigint",
                    "small": "tinyint",
                    "money": "decimal(6,2)",
                    "day": "date",
                }.items()
            ]
        },
    )
    table = house.table("t")
    table.append(
        {
            "text": pa.array([7, 8]),
            "BIG": pa.array([1.9, -1.9]),
            "small": pa.array([127, None], pa.int64()),
            "money": pa.array([1.005, 2.5]),
            "day": pa.array([DAY, None], pa.timestamp("us", "UTC")),
        }
    )
    assert table.query().to_pylist() == [
        {"text": "7", "big": 1, "small": 127, "money": Decimal("1.01"), "day": DAY.date()},
        {"text": "8", "big": -1, "small": None, "money": Decimal("2.50"), "day": None},
    ]
    version = table.version
    with code("PROJSEG_SCHEMA_MISMATCH.*'big' is declared as bigint, and a string"):
        table.append({"big": ["7"]})
    with code("PROJSEG_EVALUATION_OVERFLOW.*column 'small': ", EvaluationError):
        table.append({"small": [128]})
    with code("PROJSEG_SCHEMA_MISMATCH.*did you mean 'text'"):
        table.append({"tex": ["7"]})
    assert projseg.Table(table.location).version == version
    assert len(os.listdir(os.path.join(table.location, "data"))) == 1, "nothing is left behind"


def test_hidden_sealed_and_undeclared_columns(edits):
    table = edits.table("edits")
    table.append(rows(extra=list(range(48))))
    assert table.schema.names[-1] == "extra", "what is not declared stands at the end"
    edits.hide_columns("edits", ["EXTRA"])
    assert "extra" not in edits.table("edits").schema.names
    with code("PROJSEG_UNKNOWN_COLUMN"):
        edits.sql("SELECT extra FROM edits")
    assert "extra" in projseg.Table(table.location).schema.names
    with code("PROJSEG_HIDDEN_COLUMN"):
        table.append(rows(extra=list(range(48))))
    edits.unhide_columns("edits", ["extra"])
    edits.merge("edits", {"properties": {"sealed": True}})
    with code("PROJSEG_SEALED_TABLE"):
        table.append(rows(extra=list(range(48))))
    edits.hide_columns("edits", ["added"])
    assert edits.table("edits").schema.names == ["time", "channel", "extra"]


def test_columns_that_others_renamed_dropped_and_made_anew(edits):
    table = edits.table("edits")
    table.append(rows())
    by_path = projseg.Table(table.location)
    by_path.rename_column("channel", "room")
    assert edits.table("edits").schema.names == ["time", "channel", "added"]
    assert edits.sql("SELECT channel FROM edits LIMIT 1").to_pylist() == [{"channel": "#0"}]
    table.append(rows(first=48))
    by_path.refresh()
    assert by_path.query(aggregators="count(room)").to_pylist() == [{"count(room)": 96}]
    by_path.drop_projection("by_channel")
    by_path.drop_column("added")
    assert edits.sql("SELECT count(added) AS n FROM edits").to_pylist() == [{"n": 0}]
    by_path.add_column("added", "bigint")
    assert edits.sql("SELECT count(added) AS n FROM edits").to_pylist() == [{"n": 0}]
    edits.merge("edits", {"properties": {"projections": None}})
    with code("PROJSEG_COLUMN_EXISTS"):
        table.append(rows(first=96))


def test_columns_are_widened_where_nothing_is_lost_and_cast_elsewhere(edits):
    edits.merge("edits", {"columns": [{"name": "n", "sqlType": "int"}]})
    table = edits.table("edits")
    table.append(rows(2, n=[1, 2]))
    edits.merge("edits", {"columns": [{"name": "n", "sqlType": "bigint"}]})
    table.append(rows(2, n=[3, 2**40]))
    assert projseg.Table(table.location).schema.field("n").type == pa.int64()
    edits.merge("edits", {"columns": [{"name": "n", "sqlType": "string"}]})
    assert edits.sql("SELECT max(n) AS n FROM edits").to_pylist() == [{"n": "3"}]
    with code("PROJSEG_DECLARED_TYPE.*declared as string and stored as bigint.*overwriteSchema"):
        table.append(rows(2, n=["4", "x"]))
    edits.merge("edits", {"columns": [{"name": "n", "sqlType": "int"}]})
    with code("PROJSEG_EVALUATION_OVERFLOW", EvaluationError):
        edits.sql("SELECT sum(n) FROM edits")
    table.append(rows(2, n=[4, 5]))
    assert projseg.Table(table.location).query(aggregators="max(n)")[0][0].as_py() == 2**40


def test_folders_that_are_gone_or_hold_another_table(edits):
    table = edits.table("edits")
    table.append(rows())
    os.rename(table.location, table.location + "-away")
    with code("PROJSEG_NOT_A_TABLE"):
        edits.table("edits")
    projseg.Table.create(table.location, rows().schema, time_column="time")
    for use in (lambda: edits.sql("SELECT * FROM edits"), lambda: table.append(rows())):
        with code("PROJSEG_TABLE_REPLACED.*rebind"):
            use()
    assert edits.check()["code"].to_pylist() == ["PROJSEG_TABLE_REPLACED"]
    edits.rebind("edits")
    table.append(rows(3))
    assert len(edits.table("edits").query()) == 3
    assert edits.check().num_rows == 0


def test_old_versions_are_read_through_todays_definition(edits):
    table = edits.table("edits")
    table.append(rows(2))
    table.append(rows(2, 2))
    edits.merge(
        "edits",
        {
            "columns": [{"name": "added", "sqlType": "decimal(20,1)"}],
            "properties": {"projections": None},
        },
    )
    old = edits.table("edits", version=0)
    assert old.query(columns="added").to_pylist() == [{"added": Decimal(0)}, {"added": Decimal(1)}]
    assert edits.sql(
        "SELECT count(*) AS n, max(added) AS a FROM edits VERSION AS OF 0"
    ).to_pylist() == [{"n": 2, "a": Decimal(1)}]
    with code("PROJSEG_PINNED_VERSION"):
        old.append(rows(2))


def test_overwrites_merges_updates_and_deletes_by_name(edits):
    table = edits.table("edits")
    table.append(rows())
    table.overwrite(
        rows(4, 100), interval=(DAY + datetime.timedelta(4), DAY + datetime.timedelta(9))
    )
    assert len(edits.table("edits").query()) == 52
    edits.merge(
        "edits",
        {
            "columns": [{"name": "city", "sqlType": "string"}],
            "properties": {"segmentGranularity": "ALL"},
        },
    )
    table.merge(rows(2, 47, city=["x", "y"]), on=["TIME"])
    assert table.properties.segment_granularity == "ALL"
    assert edits.sql(
        "SELECT city, added FROM edits WHERE city IS NOT NULL ORDER BY added"
    ).to_pylist() == [
        {"city": "x", "added": 47},
        {"city": "y", "added": 48},
    ]
    edits.merge("edits", {"columns": [{"name": "stars", "sqlType": "int"}]})
    assert table.update({"stars": "added + 1"}, "city = 'x'").updated_rows == 1
    assert table.delete("stars = 48").deleted_rows == 1
    assert table.overwrite(rows(1, 48), filter="added = 48").rows == 1
    assert table.overwrite(rows(3)).rows == 3
    assert len(table.query()) == len(projseg.Table(table.location).query()) == 3
    assert table.verify(deep=True) == []


def test_changes_of_columns_by_name_are_in_the_table_and_in_the_definition(edits):
    table = edits.table("edits")
    table.append(rows())
    table.add_column("n", "int")
    assert edits.spec("edits").columns[-1].name == "n"
    table.append(rows(n=list(range(48))))
    table.widen_column("n", "bigint")
    table.rename_column("n", "number")
    assert edits.sql("SELECT sum(number) AS s FROM edits").to_pylist() == [{"s": 1128}]
    assert projseg.Table(table.location).schema.names[-1] == "number"
    assert edits.spec("edits").to_dict()["columns"][-1] == {"name": "number", "sqlType": "bigint"}
    with code("PROJSEG_COLUMN_IN_USE"):
        table.drop_column("channel")
    table.drop_column("number")
    assert "number" not in [
        *edits.table("edits").schema.names,
        *projseg.Table(table.location).schema.names,
    ]


def test_apply_says_what_it_would_do_and_does_it(edits):
    assert edits.apply("edits")["definition"].to_pylist() == ["a new one"]
    edits.apply("edits", dry_run=False)
    table = edits.table("edits")
    assert (table.is_unwritten, table.version, len(table.query())) == (False, 0, 0)
    edits.merge("edits", {"properties": {"segmentGranularity": "HOUR"}, "columns": [{"name": "x"}]})
    assert edits.apply("edits")["field"].to_pylist() == [
        "columns",
        "segment_granularity",
        "properties",
    ]
    edits.apply("edits", dry_run=False)
    assert edits.apply("edits").num_rows == 0
    assert projseg.Table(table.location).properties.segment_granularity == "HOUR"


def test_what_was_never_written_says_so(edits):
    table = edits.table("edits")
    for use in (table.compact, lambda: table.delete("added = 1"), lambda: table.tag("x")):
        with code("PROJSEG_NOT_A_TABLE.*never written"):
            use()
    edits.create("w", {"type": "inline", "properties": {"data": "1", "format": "json"}})
    with code("files from outside", UnsupportedFeatureError):
        edits.table("w")
    with code("PROJSEG_UNKNOWN_TABLE"):
        edits.sql("SELECT * FROM nothing")


def test_segments_that_are_wholly_older_expire(edits):
    table = edits.table("edits")
    now = datetime.datetime.now(datetime.UTC)
    times = [now - datetime.timedelta(days=days) for days in (500, 401, 1)]
    table.append({"time": times, "added": [1, 2, 3]})
    with code("PROJSEG_BAD_SPEC.*retention"):
        edits.expire("edits")
    edits.merge("edits", {"properties": {"retention": "400 days"}})
    assert edits.expire("edits")["rows"].to_pylist() == [1, 1]
    edits.expire("edits", dry_run=False)
    assert edits.sql("SELECT added FROM edits").to_pylist() == [{"added": 3}]


def test_two_first_writers_make_one_table(edits):
    one, other = edits.table("edits"), edits.table("edits")
    one.append(rows(2))
    state_of(other).begin = lambda: None  # it saw no table, and does not look again
    assert other.append(rows(2, 2)).rows == 2
    assert len(edits.table("edits").query()) == 4
    edits.create("u", SPEC)
    one, other = edits.table("u"), edits.table("u")
    one.append(rows(2))
    state_of(other).begin = lambda: None
    with code("rows cannot be read again", CommitConflictError):
        other.append(iter(rows(2).to_batches()))


def test_dropped_data_stays_waits_or_goes(edits):
    for data, stays in (("keep", True), ("trash", True), ("now", False)):
        edits.create("t", SPEC)
        table = edits.table("t")
        table.append(rows())
        edits.drop("t", data=data)
        assert os.path.exists(table.location) == stays
        if data == "trash":
            edits.undrop("t")
            assert len(edits.table("t").query()) == 48
            edits.drop("t", data="trash")
            edits.store.database.edit(
                lambda connection: connection.exec_driver_sql(
                    "UPDATE definitions SET due_us = 1 WHERE due_us > 1"
                ),
                lambda connection: False,
            )
            assert edits.gc()["location"].to_pylist()[-1] == table.location
            edits.gc(dry_run=False)
            assert not os.path.exists(table.location)
    kept = projseg.Table.create(edits.places.warehouse + "/own", rows().schema)
    edits.register("r", kept.location)
    edits.drop("r", data="now")
    assert projseg.is_table(kept.location), "a registered table's files stay"


def test_a_forged_location_is_never_emptied(edits, tmp_path):
    victim = projseg.Table.create(tmp_path / "victim", rows().schema, data=rows())
    edits.create("t", SPEC)
    edits.store.record(edits.metadata("t").id, location=victim.location)
    edits.drop("t", data="now")
    assert len(projseg.Table(victim.location).query()) == 48


def test_a_kill_between_a_first_write_and_its_record(edits):
    def dies():
        table = edits.table("edits")
        state_of(table).record = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        table.append(rows())

    assert run_and_die(dies)
    assert edits.metadata("edits").table_id is None
    assert len(edits.table("edits").query()) == 48
    assert edits.metadata("edits").table_id is not None, "the next statement records it"


def test_a_kill_before_a_write_that_adopts_commits_leaves_the_table(edits):
    edits.table("edits").append(rows())
    edits.merge("edits", {"columns": [{"name": "late", "sqlType": "date"}],
                          "properties": {"segmentGranularity": "PT12H"}})  # fmt: skip
    before = edits.metadata("edits"), edits.table("edits").properties, edits.table("edits").version

    def dies():
        from projseg.catalog import named_rows

        named_rows.commit = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
        edits.table("edits").append(rows())

    assert run_and_die(dies)
    table = edits.table("edits")
    assert (edits.metadata("edits"), table.properties, table.version) == before
    table.append(rows())
    assert table.properties.segment_granularity == "PT12H"
    assert table.version == before[2] + 1
    assert table.properties.columns[-1].name == "late"


@pytest.mark.parametrize("step", ["marked", "emptied"])
def test_a_kill_while_files_are_removed_leaves_them_to_gc(edits, step):
    edits.table("edits").append(rows())
    place = edits.metadata("edits").location

    def dies():
        if step == "marked":
            type(edits.places).remove_own = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        else:
            type(edits.store).forget = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        edits.drop("edits", data="now")

    assert run_and_die(dies)
    assert not edits.exists("edits")
    with pytest.raises(ProjsegError, match="PROJSEG_UNKNOWN_TABLE"):
        edits.undrop("edits")  # files are going
    assert edits.gc(dry_run=False).num_rows == 1
    assert edits.trash().num_rows == 0
    assert not os.path.exists(place)


@pytest.mark.parametrize("verb", ["rename", "drop", "widen"])
def test_a_kill_between_a_column_of_the_table_and_of_the_definition(edits, verb):
    edits.merge("edits", {"columns": [{"name": "n", "sqlType": "int"}]})
    table = edits.table("edits")
    table.append(rows(n=list(range(48))))
    verbs = {
        "rename": lambda of: of.rename_column("n", "m"),
        "drop": lambda of: of.drop_column("n"),
        "widen": lambda of: of.widen_column("n", "bigint"),
    }

    def dies():
        store = type(edits.store)
        store.change = lambda *arguments, **options: os.kill(os.getpid(), signal.SIGKILL)
        verbs[verb](edits.table("edits"))

    assert run_and_die(dies)
    between = edits.sql("SELECT sum(n) AS s FROM edits").to_pylist()
    assert between == [{"s": None if verb == "drop" else 1128}]
    verbs[verb](edits.table("edits"))
    names = edits.table("edits").schema.names
    assert names[3:] == {"rename": ["m"], "drop": [], "widen": ["n"]}[verb]
    if verb != "drop":
        assert edits.sql(f"SELECT sum({names[3]}) AS s FROM edits").to_pylist() == [{"s": 1128}]


def test_a_database_that_is_gone_stops_names_and_no_path(edits):
    table = edits.table("edits")
    table.append(rows())
    path = edits.store.database.path
    edits.close()
    os.rename(path, str(path) + ".away")
    with pytest.raises(ProjsegError, match="PROJSEG_CATALOG_UNAVAILABLE"):
        edits.sql("SELECT * FROM edits")
    with pytest.raises(ProjsegError, match="PROJSEG_CATALOG_UNAVAILABLE"):
        table.append(rows())
    by_path = projseg.Table(table.location)
    by_path.append(rows())
    assert len(by_path.query()) == 96


def test_explain_by_name_and_by_path_choose_the_same(edits):
    table = edits.table("edits")
    table.append(rows())
    for question in ({"group_by": "channel", "aggregators": "sum(added)"}, {"columns": "added"}):
        by_path = projseg.Table(table.location).explain(**question)
        assert table.explain(**question).segments.equals(by_path.segments)


def test_every_door_reads_declared_columns(edits):
    """Python, DuckDB and the shell have the same values and the same error."""
    import subprocess
    import sys

    duckdb = pytest.importorskip("duckdb")
    edits.create("t", {"columns": [{"name": "a", "sqlType": "string"}, {"name": "b"}]})
    edits.table("t").append(pa.table({"a": ["1", " 2 "], "b": ["x", "y"]}))
    edits.merge("t", {"columns": [{"name": "a", "sqlType": "int"}, {"name": "c"}]})
    edits.hide_columns("t", ["b"])
    edits.create_namespace("odd ones")
    edits.create(("odd ones", "a.b"), {"columns": [{"name": "z", "sqlType": "date"}]})
    uri = str(edits.store.database.path)

    def of_shell(text):
        words = [sys.executable, "-m", "projseg", "catalog", "sql", text, "--uri", uri]
        told = subprocess.run(words, capture_output=True, text=True, check=False)
        return told.returncode, told.stdout + told.stderr

    opened = edits.duckdb(["t", ("odd ones", "a.b")])
    assert opened.execute("SELECT * FROM \"default\".t ORDER BY a").fetchall() == [
        (1, None), (2, None),
    ]  # fmt: skip
    assert opened.execute('SELECT * FROM "odd ones"."a.b"').fetchall() == []
    assert edits.sql("SELECT a FROM t ORDER BY a").to_pylist() == [{"a": 1}, {"a": 2}]
    assert '"a": 2' in of_shell("SELECT a FROM t ORDER BY a")[1]
    edits.table("t").append(pa.table({"a": [7]}))
    total = 'SELECT sum(a) AS s FROM "default".t'
    assert opened.execute(total).fetchall() == [(10,)], "the newest version"
    own = duckdb.connect()
    ours = edits.duckdb(["t"], own)
    assert ours.connection is own
    assert opened.sql(total).to_pylist() == [{"s": 10}]
    assert opened.explain(total)["answered"].to_pylist() == ["groups"]
    projseg.Table(edits.metadata("t").location).append(pa.table({"a": ["no"], "b": ["z"]}))
    with pytest.raises(duckdb.Error, match="PROJSEG_EVALUATION_BAD_CAST"):
        ours.execute(total).fetchall()
    with pytest.raises(ProjsegError, match="PROJSEG_EVALUATION_BAD_CAST"):
        edits.sql("SELECT sum(a) AS s FROM t")
    code, told = of_shell("SELECT sum(a) AS s FROM t")
    assert code
    assert "PROJSEG_EVALUATION_BAD_CAST" in told


def test_names_with_dots_are_quoted_in_sql(house):
    for number, name in enumerate(("a.b", "b")):
        house.create_namespace(name)
        house.create((name, "c.d"), {"columns": [{"name": "n", "sqlType": "int"}]})
        house.table((name, "c.d")).append([{"n": number}])
        for text in ("SELECT n FROM {}", "SELECT x.n FROM (SELECT n FROM {} y) x"):
            assert house.sql(text.format(f"`{name}`.`c.d`")).to_pylist() == [{"n": number}]
        assert house.sql(f"DESCRIBE `{name}`.`c.d`").num_rows == 1
    with code("PROJSEG_BAD_NAME"):
        house.sql("SELECT n FROM a.b.c.d")


def test_projections_are_in_the_definition_and_in_the_table(edits):
    def declared():
        return [one["name"] for one in edits.spec("edits").layout.projections]

    sums = projseg.Projection("sums", ["channel"], ["sum(added) AS s"])
    table = edits.table("edits")
    first = declared()
    table.add_projection(sums)
    assert declared() == [*first, "sums"]
    table.append(rows())
    assert table.projections()["segments"].to_pylist()[-1] == table.segments().num_rows
    with code("PROJSEG_PROJECTION_EXISTS"):
        table.add_projection(sums)
    with code("PROJSEG_UNKNOWN_COLUMN"):
        table.add_projection({"name": "bad", "sql": "SELECT none, count(*) AS n GROUP BY none"})
    assert declared() == [*first, "sums"]
    # The declared name of a column that is stored under another one.
    projseg.Table(table.location).rename_column("channel", "was")
    table.add_projection(
        {"name": "most", "sql": "SELECT channel, max(added) AS m GROUP BY ALL"}, True
    )
    assert table.projections()["segments_missing"].to_pylist()[-1] == 0
    assert table.explain(group_by="channel", aggregators="max(added)").sources.keys() == {"most"}
    table.add_projection(
        {"name": "late", "sql": "SELECT added, count(*) AS n GROUP BY ALL"}, build="deferred"
    )
    assert table.projection_stats()["build"].to_pylist()[-1] == "deferred"
    for name in ("sums", "most", "late"):
        table.drop_projection(name)
    assert declared() == first
    with code("PROJSEG_UNKNOWN_PROJECTION"):
        table.drop_projection("sums")
    table.append(rows(first=48))
    assert "sums" not in edits.table("edits").projections()["name"].to_pylist()


ASKED = {
    "rows": lambda table: table.query(),
    "stream": lambda table: table.scan().read_all(),
    "condition": lambda table: table.query(columns="good", filter="bad IS NOT NULL"),
    "sum": lambda table: table.query(aggregators="max(bad) AS m"),
    "groups": lambda table: table.query(group_by="bad", aggregators="count(*) AS n"),
    "order": lambda table: table.query(columns="good, bad", order_by="bad", limit=1),
    "delete": lambda table: table.delete("bad IS NOT NULL"),
    "dataset": lambda table: table.dataset().to_table(),
}
VALUES = [
    ("int", "string", ["1", "x"]),
    ("date", "string", ["2024-05-01", "2024-05-32"]),
    ("decimal(4,2)", "string", ["1.5", "123456"]),
    ("tinyint", "bigint", [1, 1000]),
    ("boolean", "string", ["true", "perhaps"]),
]


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize(("declared", "stored", "values"), VALUES, ids=[one[0] for one in VALUES])
def test_a_value_that_is_not_of_its_declared_type_is_named(tmp_path, declared, stored, values, ask):
    place = tmp_path / "t"
    data = {"good": ["1", "2"], "bad": values}
    projseg.Table.create(place, {"good": "string", "bad": stored}, data=data)
    columns = [{"name": "good", "sqlType": "int"}, {"name": "bad", "sqlType": declared}]
    catalog = projseg.Catalog(tmp_path / "c.db")
    catalog.register("t", place, {"columns": columns})
    with pytest.raises(EvaluationError) as refused:
        ask(catalog.table("t"))
    words = f"column 'bad' of the table at {place} is declared as {declared}"
    assert words in refused.value.message
    assert refused.value.__cause__.code == refused.value.code


def test_a_cast_of_a_query_is_not_said_to_be_declared(tmp_path):
    place = tmp_path / "t"
    projseg.Table.create(place, {"good": "string", "other": "string"}, data={"other": ["x"]})
    catalog = projseg.Catalog(tmp_path / "c.db")
    catalog.register("t", place, {"columns": [{"name": "good", "sqlType": "int"}]})
    with pytest.raises(EvaluationError, match="'x' is no int") as refused:
        catalog.table("t").query(columns="CAST(other AS INT) AS n")
    assert "declared" not in refused.value.message


def test_a_chosen_version_may_be_older_once_it_was_refreshed(edits):
    edits.table("edits").append(rows())
    view = "SELECT channel, count(*) FROM edits GROUP BY channel"
    edits.table("edits").create_view("v", view, refresh="deferred")
    edits.table("edits").append(rows(first=48))

    def counted(table):
        old = {"maxStaleness": "1 day"}
        return table.query((), "count(*) AS n", context=old).to_pylist()[0]["n"]

    pinned = edits.table("edits", version=edits.table("edits").version)
    assert counted(pinned) == 96
    assert counted(pinned.refresh()) == counted(edits.table("edits")) == 48


def test_a_joined_table_has_the_columns_of_its_definition(edits):
    location = edits.places.warehouse + "/p"
    stored = {"code": ["#0", "#1", "#2"], "rank": [9, 10, 11], "secret": [1, 2, 3]}
    projseg.Table.create(location, data=pa.table(stored))
    ranks = {"columns": [{"name": "rank", "sqlType": "string"}]}
    edits.register("places", location, {**ranks, "properties": {"hiddenColumns": ["secret"]}})
    places, facts = edits.table("places"), edits.table("edits")
    facts.append(rows())
    wanted = [{"rank": text, "n": 16} for text in ("10", "11", "9")]  # as texts are ordered
    select = "SELECT p.{0}, count(*) AS n FROM e JOIN p ON channel = p.code GROUP BY 1 ORDER BY 1"
    tables = {"e": facts, "p": places}
    assert projseg.sql(select.format("rank"), tables).to_pylist() == wanted
    asked = {"group_by": "p.rank AS rank", "aggregators": "count(*) AS n", "order_by": "rank"}
    join = projseg.Join(places, "channel = p.code", "p")
    assert facts.query(**asked, joins=[join]).to_pylist() == wanted
    with code("PROJSEG_UNKNOWN_COLUMN"):
        projseg.sql(select.format("secret"), tables)
    with code("PROJSEG_UNKNOWN_COLUMN"):
        facts.query(group_by="p.secret", joins=[join])


def test_objects_of_a_table_go_by_definitions_of_their_own(edits):
    table = edits.table("edits")
    table.append(rows())
    seen = table.query().schema.names
    edits.table("edits").append(rows(1))
    edits.merge("edits", {"columns": [{"name": "late", "sqlType": "date"}]})
    for other in (table.newest(), copy.copy(table), pickle.loads(pickle.dumps(table))):
        assert other.query().schema.names == seen
        assert other.refresh().query().schema.names == [*seen, "late"]
    assert table.query().schema.names == seen
