"""What a source of Parquet files may be, what is refused, and what each state answers."""

import os
import subprocess
import sys
import threading
import time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_source import Folder, answer_of, asked, code_of, rows, stats_of, write

import projseg
from projseg import Index, Projection
from projseg.errors import InvalidInputError, StorageError

BY_CITY = Projection("c", ["city"], ["sum(added) AS added", "count(*) AS rows"])
GROUPS = "SELECT city, sum(added) AS added, count(*) AS rows FROM t GROUP BY city"
ROWS = "SELECT city, added, day FROM t WHERE added > 40"


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path / "source", np.random.default_rng(7))
    for _ in range(3):
        folder.add()
    return folder


@pytest.fixture
def table(folder, tmp_path):
    return attached(tmp_path, folder.place)


def attached(tmp_path, place, **options):
    options = {"time_column": "time", "projections": [BY_CITY], **options}
    return projseg.Table.attach(tmp_path / "ours", f"parquet:{place}", **options)


def test_a_covered_question_opens_no_file_of_the_source(folder, table):
    expected = folder.ask(GROUPS)
    for path in folder.files:
        path.chmod(0)
    try:
        assert asked(projseg.Table(table.location), GROUPS) == expected
    finally:
        for path in folder.files:
            path.chmod(0o644)


def test_explain_says_in_how_many_files_foreign_rows_are(folder, table):
    shown = str(table.explain(ROWS))
    assert "foreign rows: 3 files" in shown
    assert str(folder.files[0]) in shown
    folder.add()
    assert "foreign rows: 1 file," in str(table.newest().explain(GROUPS))
    assert table.newest().source.files_without_companion == 1
    assert table.newest().detail()["source_files_without_companion"] == 1


def test_rows_of_foreign_files_are_counted_as_base_rows(table):
    def counts():
        lines = projseg.metrics().splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if line.startswith("projseg_sources"))

    before = counts()
    asked(table, "SELECT day, sum(added) AS added FROM t GROUP BY day")
    after = counts()
    gained = {name: int(n) - int(before.get(name, 0)) for name, n in after.items()}
    assert {name: n for name, n in gained.items() if n} == {'projseg_sources_total{kind="base"}': 3}


def test_a_pinned_version_answers_from_groups_when_its_file_is_gone(folder, table):
    expected = folder.ask(GROUPS)
    folder.remove()
    table.sync()
    pinned = projseg.Table(table.location, version=0)
    assert asked(pinned, GROUPS) == expected
    assert code_of(lambda: pinned.sql(ROWS)) == "PROJSEG_SOURCE_GONE"
    assert asked(table, GROUPS) == folder.ask(GROUPS)


def test_a_rolled_back_source_finds_its_companions_again(folder, table):
    hidden = folder.place.parent / "hidden"
    path = folder.files[0]
    path.rename(hidden)
    assert table.sync().files_dropped == 1
    hidden.rename(path)
    back = projseg.Table(table.location, version=0)
    assert asked(table.newest(), GROUPS) == asked(back, GROUPS) == folder.ask(GROUPS)
    done = table.sync()
    assert (done.files_kept, done.files_added) == (2, 1)


def test_companions_of_kept_versions_are_taken_again_after_a_rollback(folder, table):
    folder.keep()
    expected, written = folder.ask(GROUPS), set(data_files(table))
    for path in folder.files[:2]:
        path.rename(folder.place.parent / path.name)
    folder.add()
    done = table.sync()
    assert (done.files_added, done.files_dropped) == (1, 2)
    for path in folder.files:
        if path not in folder.kept:
            path.unlink()
    for path in folder.kept:
        hidden = folder.place.parent / path.name
        if hidden.exists():
            hidden.rename(path)
    done = table.sync()
    assert (done.files_added, done.rows_read) == (0, 0)
    assert asked(table, GROUPS) == expected
    assert {entry.file for entry in table.snapshot.segments} <= written
    table.vacuum(retention_hours=0, dry_run=False, force=True)
    assert table.newest().verify(deep=True) == []
    assert asked(table, ROWS) == folder.ask(ROWS)


@pytest.mark.parametrize("change", ["projection", "index", "file", "verify"])
def test_companions_that_are_not_what_new_ones_would_be_are_made_anew(folder, table, change):
    path = folder.files[0]
    hidden = folder.place.parent / path.name
    path.rename(hidden)
    folder.add()
    table.sync()
    if change == "projection":
        table.add_projection(Projection("d", ["day"], ["count(*) AS rows"]))
    elif change == "index":
        table.add_index(Index("cities", "city"))
    elif change == "file":
        for one in set(data_files(table)) - {entry.file for entry in table.snapshot.segments}:
            os.unlink(f"{table.location}/{one}")
    folder.files[-1].unlink()
    hidden.rename(path)
    done = table.sync(verify="rows" if change == "verify" else False)
    assert done.files_added == (len(folder.files) if change == "verify" else 1)
    assert asked(table, GROUPS) == folder.ask(GROUPS)
    assert table.verify(deep=True) == []


def data_files(table):
    return [f"data/{name}" for name in os.listdir(f"{table.location}/data")]


@pytest.mark.parametrize("cut", [1, 9, 100, 2000])
def test_a_file_that_is_cut_short_is_no_answer(folder, table, cut):
    path = folder.files[0]
    content = path.read_bytes()
    table = projseg.Table(table.location)
    path.write_bytes(content[: max(len(content) - cut, 0)])
    assert code_of(lambda: table.sql(ROWS)) == "PROJSEG_SOURCE_CHANGED"
    assert code_of(lambda: projseg.Table(table.location)) == "PROJSEG_SOURCE_CHANGED"


def test_another_footer_under_the_same_identity_is_found_before_a_row_is_returned(folder, table):
    folder.overwrite_in_place()
    changed = [path for path in folder.files for _ in range(2)]
    for path in changed[::2]:
        before = path.stat()
        pq.write_table(pq.read_table(path), path, compression="none", use_dictionary=False)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    table.sync()
    expected = folder.ask(GROUPS)
    asked(table, ROWS)  # decoded columns stay in memory
    path = folder.files[0]
    before = path.stat()
    old = pq.read_table(path)
    place = old.column_names.index("added")
    other = pa.array(old.column("added").to_numpy() + 1)
    new = old.set_column(place, old.schema.field("added"), other)
    pq.write_table(new, path, compression="none", use_dictionary=False)
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    fresh = projseg.Table(table.location)
    assert asked(fresh, GROUPS) == expected  # the one exception: until its footer is read
    assert code_of(lambda: fresh.sql(ROWS)) == "PROJSEG_SOURCE_CHANGED"
    assert fresh.sync().files_added == 0
    assert fresh.sync(verify=True).files_added == 1
    assert asked(fresh, GROUPS) == folder.ask(GROUPS) != expected
    assert asked(fresh, ROWS) == folder.ask(ROWS)


def test_rows_can_be_verified_where_nothing_else_tells(folder, table):
    done = table.sync(verify="rows")
    assert (done.files_kept, done.files_added, done.files_dropped) == (0, 3, 0)
    assert asked(table, GROUPS) == folder.ask(GROUPS)
    assert code_of(lambda: table.sync(verify="all")) == "PROJSEG_BAD_ARGUMENT"


REFUSED = {
    "append": lambda table: table.append({"city": ["x"]}),
    "overwrite": lambda table: table.overwrite({"city": ["x"]}),
    "delete": lambda table: table.delete("added > 0"),
    "truncate": lambda table: table.truncate(),
    "update": lambda table: table.update({"added": "1"}, "added > 0"),
    "merge": lambda table: table.merge({"city": ["x"]}, on=["city"]),
    "erase": lambda table: table.erase("added > 0"),
    "compact": lambda table: table.compact(),
    "add_column": lambda table: table.add_column("other", "int"),
    "rename_column": lambda table: table.rename_column("added", "other"),
    "drop_column": lambda table: table.drop_column("added"),
    "widen_column": lambda table: table.widen_column("added", "bigint"),
}


@pytest.mark.parametrize("verb", REFUSED)
def test_verbs_that_change_rows_or_columns_are_refused(table, verb):
    assert code_of(lambda: REFUSED[verb](table)) == "PROJSEG_FOREIGN_ROWS"
    assert table.newest().version == 0


def test_declarations_are_changed_as_of_any_table(folder, table):
    table.add_projection(Projection("d", ["day"], ["count(*) AS rows"]))
    table.add_index(Index("cities", "city"))
    assert table.source.files == 3
    folder.add()
    table.sync()
    assert asked(table, GROUPS) == folder.ask(GROUPS)
    days = "SELECT day, count(*) AS rows FROM t GROUP BY day"
    assert asked(table, days) == folder.ask(days)
    assert table.explain(days).sources == {"foreign": 3, "d": 1}
    made = table.materialize_projection("d")
    assert made.segments == 3
    assert table.explain(days).sources == {"d": 4}
    assert asked(table, days) == folder.ask(days)
    table.drop_projection("d")
    table.tag("kept")
    assert table.restore(0).version == table.version
    assert table.source.files == 4
    assert asked(table, GROUPS) == folder.ask(GROUPS)


def test_indexes_leave_out_companions(folder, tmp_path):
    table = attached(tmp_path, folder.place, indexes=[Index("pages", "page", postings=None)])
    one = "SELECT added FROM t WHERE page = 'no such page'"
    assert table.explain(one).figures.segments == 0
    folder.add()
    assert asked(table.newest(), one) == []
    code = code_of(lambda: table.add_index(Index("p", "page", kind="token", postings=True)))
    assert code == "PROJSEG_BAD_INDEX"
    table.add_index(Index("words", "page", kind="token"))


BAD = {
    "kind": lambda place: "csv:/tmp",
    "empty": lambda place: f"parquet:{place}/none/*.parquet",
    "text": lambda place: f"parquet:{_file(place / 'a.parquet', b'no Parquet file at all')}",
    "short": lambda place: f"parquet:{_file(place / 'b.parquet', b'PAR1')}",
    "encrypted": lambda place: (
        f"parquet:{_file(place / 'c.parquet', b'PAR1' + b'x' * 20 + b'PARE')}"
    ),
    "types": lambda place: f"parquet:{_two(place, pa.int64(), pa.string())}",
    "names": lambda place: f"parquet:{_two(place, pa.int64(), pa.int64(), 'A', 'a', at_once=True)}",
}


def _file(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def _two(place, one, other, name="a", other_name="a", *, at_once=False):
    place.mkdir(exist_ok=True)
    first, second = pa.array([1]).cast(one), pa.array([2]).cast(other)
    if at_once:
        pq.write_table(pa.table([first, second], names=[name, other_name]), place / "x.parquet")
    else:
        pq.write_table(pa.table({name: first}), place / "x.parquet")
        pq.write_table(pa.table({other_name: second}), place / "y.parquet")
    return place


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_source_is_refused(tmp_path, what):
    source = BAD[what](tmp_path / "source")
    with pytest.raises(InvalidInputError) as caught:
        projseg.Table.attach(tmp_path / "ours", source)
    assert caught.value.code == "PROJSEG_BAD_SOURCE"
    assert not (tmp_path / "ours").exists()


def test_a_location_that_holds_a_table_is_refused(folder, table, tmp_path):
    assert code_of(lambda: attached(tmp_path, folder.place)) == "PROJSEG_TABLE_EXISTS"


def test_columns_without_a_type_are_left_out_and_named(tmp_path, caplog):
    moments = pa.array([1_500, 2_000], pa.timestamp("ns"))
    plain = pa.array([1_000, 2_000], pa.timestamp("ns"))
    table = pa.table(
        {"fine": moments, "whole": plain, "wide": pa.array([1, 2], pa.uint64()), "n": [1, 2]}
    )
    write(tmp_path / "source" / "a.parquet", table)
    made = projseg.Table.attach(tmp_path / "ours", f"parquet:{tmp_path}/source")
    assert made.schema.names == ["whole", "n"]
    assert set(made.detail()["left_out"]) == {"fine", "wide"}
    assert "'wide'" in caplog.text
    assert "'fine'" in caplog.text


def test_columns_of_paths_are_taken_as_they_are_declared(tmp_path):
    random = np.random.default_rng(3)
    for day, text in ((1, "2024-05-01"), (2, "2024-05-02"), (3, "__HIVE_DEFAULT_PARTITION__")):
        write(tmp_path / "source" / f"at={text}" / "code=007" / "a.parquet", rows(random, 10 * day))
    source = f"parquet:{tmp_path}/source"
    declared = {"at": "date", "code": "string", "added": "bigint", "time": "timestamp"}
    table = projseg.Table.attach(
        tmp_path / "ours",
        source,
        columns=declared,
        time_column="time",
        projections=[{"name": "o", "sql": "SELECT at, code, count(*) AS n GROUP BY ALL"}],
    )
    assert table.schema.names == list(declared)
    text = "SELECT at, code, count(*) AS n FROM t GROUP BY at, code"
    assert asked(table, text) == sorted(
        [("2024-05-01", "007", 10), ("2024-05-02", "007", 20), (None, "007", 30)], key=repr
    )
    assert asked(table, "SELECT count(*) FROM t WHERE at = DATE '2024-05-02'") == [(20,)]
    write(tmp_path / "source" / "at=never" / "code=1" / "a.parquet", rows(random, 5))
    fresh = projseg.Table(table.location)
    assert code_of(lambda: fresh.sql(text)) == "PROJSEG_BAD_SOURCE"
    assert code_of(fresh.sync) == "PROJSEG_BAD_SOURCE"


def test_retyped_and_dropped_columns_leave_with_what_reads_them(tmp_path):
    place = tmp_path / "source"
    write(place / "a.parquet", pa.table({"k": ["x", "y"], "v": [1, 2]}))
    table = projseg.Table.attach(
        tmp_path / "ours",
        f"parquet:{place}",
        projections=[{"name": "p", "sql": "SELECT k, sum(v) AS v GROUP BY ALL"}],
    )
    write(place / "a.parquet", pa.table({"k": ["x", "x"], "v": ["1", "2"]}))
    fresh = projseg.Table(table.location)
    assert code_of(lambda: fresh.sql("SELECT v FROM t")) == "PROJSEG_SOURCE_CHANGED"
    assert asked(fresh, "SELECT k FROM t") == [("x",), ("x",)]
    fresh.sync()
    assert fresh.schema.field("v").type == pa.string()
    assert fresh.projections().num_rows == 0
    assert asked(fresh, "SELECT k, max(v) FROM t GROUP BY k") == [("x", "2")]
    write(place / "a.parquet", pa.table({"k": ["z"]}))
    fresh.sync()
    assert fresh.schema.names == ["k"]
    assert fresh.verify(deep=True) == []


def test_files_in_work_are_left_out(folder, table):
    for name in ("_temporary/0/a.parquet", ".hidden/a.parquet", "_b.parquet", ".c.parquet"):
        path = folder.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
    assert projseg.Table(table.location).source.files == 3


def test_nothing_of_the_source_is_touched(folder, table):
    before = stats_of(folder.place)
    table.sync(verify="rows")
    table.sql(GROUPS)
    table.sql(ROWS)
    table.materialize_projection()
    table.vacuum()
    assert table.verify(deep=True) == []
    assert stats_of(folder.place) == before


def test_two_syncs_at_once_make_each_companion_once(folder, table):
    folder.add()
    one, other = projseg.Table(table.location), projseg.Table(table.location)
    assert one.sync().files_added == 1
    assert other.sync().files_added == 0
    assert other.snapshot.row_count == answer_of("SELECT count(*) FROM t", folder.files)[0][0]


KILLED = """
import os, sys
import projseg
from projseg.table_layer.storage import local_storage

left = int(sys.argv[2])
def count(function):
    def counted(*arguments, **named):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return function(*arguments, **named)
    return counted

for name in ("link", "replace", "rename", "fsync", "open"):
    setattr(os, name, count(getattr(os, name)))
projseg.Table(sys.argv[1]).sync()
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", [0, 3, 6, 9, 12, 15, 18, 21, 30, 45])
def test_a_sync_that_is_killed_changes_nothing_or_all(folder, table, step):
    folder.add()
    folder.remove()
    done = subprocess.run([sys.executable, "-c", KILLED, table.location, str(step)], check=False)
    assert done.returncode in (0, 9)
    fresh = projseg.Table(table.location)
    assert asked(fresh, GROUPS) == folder.ask(GROUPS)
    fresh.sync()
    assert fresh.source.files_without_companion == 0
    assert asked(fresh, GROUPS) == folder.ask(GROUPS)
    assert fresh.verify(deep=True) == []


def test_a_reader_without_a_right_to_write_is_right_at_once(folder, table):
    folder.add()
    ours = table.location
    for base, _, _ in os.walk(ours):
        os.chmod(base, 0o555)
    try:
        assert asked(projseg.Table(ours), GROUPS) == folder.ask(GROUPS)
    finally:
        for base, _, _ in os.walk(ours):
            os.chmod(base, 0o755)


def test_a_table_without_a_source_has_none(tmp_path):
    table = projseg.Table.create(tmp_path / "own", {"a": "int"})
    assert table.source is None
    assert "source" not in table.detail()
    assert code_of(table.sync) == "PROJSEG_BAD_SOURCE"


def test_the_system_names_a_source_that_may_not_be_read(folder, tmp_path):
    path = folder.files[0]
    folder_of = path.parent
    path.unlink()
    path.mkdir()
    try:
        assert folder_of.exists()
        assert attached(tmp_path, folder.place).source.files == 2
    except StorageError as error:
        pytest.fail(str(error))


def test_no_answer_is_of_two_states(tmp_path):
    """A file is replaced in a loop by one with other values, the same in all rows."""
    path, rows_held = tmp_path / "source" / "a.parquet", 3000

    def publish(value):
        values = np.full(rows_held, value)
        write(path, pa.table({"k": np.arange(rows_held) % 3, "v": values}), row_group_size=500)

    publish(0)
    table = projseg.Table.attach(
        tmp_path / "ours",
        f"parquet:{path.parent}",
        projections=[{"name": "k", "sql": "SELECT k, min(v) AS a, max(v) AS b GROUP BY ALL"}],
    )
    done, answers, refused = threading.Event(), 0, set()

    def write_on():
        value = 0
        while not done.is_set():
            value += 1
            publish(value)
            time.sleep(0.003)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        for number in range(600):
            if number >= 60 and answers > 10:
                break
            try:
                if number % 10 == 0:
                    table.sync()
                fresh = projseg.Table(table.location)
                for text in (
                    "SELECT k, min(v) AS a, max(v) AS b FROM t GROUP BY k",
                    "SELECT v % 2, min(v) AS a, max(v) AS b FROM t GROUP BY 1",
                ):
                    found = [tuple(row.values()) for row in fresh.sql(text).to_pylist()]
                    assert len({value for _, *values in found for value in values}) == 1
                    answers += 1
            except StorageError as error:
                refused.add(error.code)
    finally:
        done.set()
        writer.join()
    assert answers > 10
    assert refused <= {"PROJSEG_SOURCE_CHANGED", "PROJSEG_SOURCE_GONE"}


def test_what_another_projection_would_save_is_measured(folder, table):
    folder.add()
    days = "SELECT day, count(*) AS rows FROM t GROUP BY day"
    wanted = [Projection("d", ["day"], ["count(*) AS rows"])]
    shown = table.newest().explain(days, what_if=wanted)
    assert "d" in str(shown)
    assert "day" in str(projseg.advise(table.newest(), [(days, 3)], seconds=3_600))


def test_vacuum_keeps_what_the_log_lists_beside_files_without_a_companion(folder, table):
    table.create_view("v", GROUPS)
    table.tag("x")
    folder.add()
    fresh = projseg.Table(table.location)
    assert fresh.source.files_without_companion == 1
    assert fresh.vacuum().file_count == 0
    fresh.vacuum(retention_hours=0, dry_run=False, force=True)
    assert asked(fresh, GROUPS) == folder.ask(GROUPS)
    assert asked(projseg.Table(table.location), GROUPS) == folder.ask(GROUPS)
    assert projseg.Table(table.location).verify() == []
    assert projseg.Table(table.location, tag="x").sql(GROUPS).num_rows > 0


EXTREMES = {
    "int": pa.int16(),
    "long": pa.int64(),
    "double": pa.float64(),
    "text": pa.string(),
    "truth": pa.bool_(),
    "bytes": pa.binary(),
    "day": pa.date32(),
    "time": pa.timestamp("us", tz="UTC"),
    "price": pa.decimal128(12, 2),
    "wide": pa.decimal128(38, 2),
}


def test_a_file_without_rows_has_groups_of_its_own_columns(tmp_path):
    (tmp_path / "source").mkdir()
    pq.write_table(pa.schema(EXTREMES).empty_table(), tmp_path / "source/a.parquet")
    own = [Projection(f"p_{n}", [n], [f"min({n}) AS a", f"max({n}) AS b"]) for n in EXTREMES]
    table = attached(tmp_path, tmp_path / "source", time_column=None, projections=own)
    for name in EXTREMES:
        assert table.sql(f"SELECT {name}, max({name}) FROM t GROUP BY {name}").num_rows == 0
        assert table.sql(f"SELECT max({name}) AS m FROM t").to_pylist() == [{"m": None}]


def test_decimals_beyond_64_bits_are_attached_as_they_are_stored(tmp_path):
    (tmp_path / "source").mkdir()
    digits = ["1", "-9999999999999999999999999999.99", None, "999999999999999999.99"]
    prices = [None if one is None else Decimal(one) for one in digits]
    rows_ = pa.table({"k": [0, 1, 1, 2], "d": pa.array(prices, pa.decimal128(38, 2))})
    pq.write_table(rows_, tmp_path / "source/a.parquet", row_group_size=2)
    own = [Projection("k", ["k"], ["max(d) AS d"]), Projection("d", ["d"], ["count(*) AS n"])]
    foreign = attached(tmp_path, tmp_path / "source", time_column=None, projections=own)
    stored = projseg.Table.create(tmp_path / "stored", data=rows_, projections=own)
    for text in (
        "SELECT k, max(d) AS m FROM t GROUP BY k ORDER BY k",
        "SELECT d, count(*) AS n FROM t GROUP BY d ORDER BY d",
        "SELECT k, d FROM t WHERE d > 0 ORDER BY k",
        "SELECT min(d) AS a, max(d) AS b FROM t",
    ):
        assert foreign.sql(text).to_pylist() == stored.sql(text).to_pylist()
    assert foreign.sql("SELECT min(d) AS m FROM t").to_pylist() == [{"m": prices[1]}]


def test_a_column_of_no_file_and_a_place_in_the_source_are_refused(folder, tmp_path):
    def attach(location, **options):
        return lambda: projseg.Table.attach(location, f"parquet:{folder.place}", **options)

    assert code_of(attach(tmp_path / "o", columns={"zz": "int"})) == "PROJSEG_BAD_SOURCE"
    assert code_of(attach(tmp_path / "source")) == "PROJSEG_BAD_SOURCE"
    assert not (tmp_path / "o").exists()
