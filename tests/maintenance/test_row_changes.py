"""Delete, update and merge, against DuckDB, in two processes, and with failing storage."""

import datetime
import itertools
import tempfile
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from fault_storage import FaultStorage
from hypothesis import given, settings
from hypothesis import strategies as st
from race import CONTEXT, run_processes
from scale import IS_NIGHTLY

import projseg
from projseg.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    CorruptionError,
    EvaluationError,
    InvalidInputError,
    ProjsegError,
)
from projseg.maintenance.row_changes.delete_and_update import delete_rows, update_rows
from projseg.maintenance.row_changes.matching_rows import Condition
from projseg.memory.cache import KEPT
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.storage.locate_storage import open_storage

RATIOS = ["0", "1"]  # of deleted rows: each segment that is hit is written anew, or hides them
SCHEMA = pa.schema(
    [
        ("t", pa.timestamp("us", tz="UTC")),
        ("k", pa.int32()),
        ("s", pa.string()),
        ("d", pa.decimal128(9, 2)),
    ]
)
TOTALS = {"name": "totals", "sql": "SELECT s, sum(k) AS k, sum(d) AS d, count(*) AS n GROUP BY s"}
QUESTION = {"group_by": "s", "aggregators": "sum(k) AS k, sum(d) AS d, count(*) AS n"}
DAY = datetime.timedelta(days=1)
START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


def row(day, k, s="a", d="1.50", hour=0):
    moment = START + day * DAY + datetime.timedelta(hours=hour)
    return {"t": moment, "k": k, "s": s, "d": None if d is None else Decimal(d)}


def made(location, rows, **options):
    table = projseg.Table.create(
        location, SCHEMA, time_column="t", segment_granularity="day", projections=[TOTALS],
        **options,
    )  # fmt: skip
    if rows:
        table.append(pa.Table.from_pylist(rows, SCHEMA))
    return table


def texts_of(rows):
    shown = [[v.timestamp() if name == "t" else v for name, v in one.items()] for one in rows]
    return sorted(map(repr, shown))


def rows_of(table):
    return texts_of(table.query(columns="t, k, s, d").to_pylist())


def check(table, rows):
    """The rows are these, and projections, which every segment has, answer as they do.

    Base rows may answer where rows are hidden: no projection counts the values of a column.
    """
    assert rows_of(table) == texts_of(rows)
    hides = any(entry.deletion_vector is not None for entry in table.snapshot.segments)
    served = table.query(**QUESTION, context={"forceProjections": not hides}) if rows else None
    base = table.query(**QUESTION, context={"noProjections": True})
    if served is not None:
        assert texts_of(served.to_pylist()) == texts_of(base.to_pylist())
    assert table.verify(deep=True) == []


@pytest.fixture
def table(tmp_path):
    """Three days of three rows."""
    rows = [row(day, 10 * day + n, s, hour=n) for day in range(3) for n, s in enumerate("abc")]
    return made(tmp_path / "t", rows)


def files_of(table):
    return set(table.segments()["segment"].to_pylist())


class TestDelete:
    def test_only_hit_segments_are_written_anew(self, table):
        before = files_of(table)
        done = table.delete("k = 11")
        assert (done.version, done.deleted_rows) == (2, 1)
        assert (done.removed_segments, done.added_segments) == (1, 1)
        assert len(before & files_of(table)) == 2
        check(table, [row(d, 10 * d + n, s, hour=n) for d in range(3) for n, s in enumerate("abc")
                      if (d, n) != (1, 1)])  # fmt: skip
        told = table.history().to_pylist()[0]
        assert told["operation"] == "delete"
        assert told["operationParameters"] == [("filter", "k = ?")]
        assert dict(told["metrics"])["deleted_rows"] == 1
        assert len(projseg.Table(table.location, 1).query(columns="k")) == 9

    @pytest.mark.parametrize(
        ("condition", "left"),
        [
            ({"interval": "2024-05-02/P1D"}, 6),
            ({"filter": "k BETWEEN 10 AND 12"}, 6),
            ({"filter": "k >= 10"}, 3),
            ({}, 0),
        ],
    )
    def test_segments_that_are_meant_whole_are_not_read(self, table, tmp_path, condition, left):
        for file in files_of(table):
            (tmp_path / "t" / file).write_bytes(b"unreadable")
        with suppress(CorruptionError):
            table.query(columns="k")
            pytest.fail("the files can be read")
        done = projseg.Table(table.location).delete(**condition)
        assert (done.deleted_rows, done.added_segments) == (9 - left, 0)
        assert projseg.Table(table.location).detail()["rows"] == left

    def test_projections_that_were_built_later_are_built_again(self, table):
        late = {"name": "late", "sql": "SELECT k % 10 AS d, count(*) AS n GROUP BY ALL"}
        table.add_projection(late, build="deferred", materialize=True)
        asked = {"group_by": "k % 10 AS d", "aggregators": "count(*) AS n", "order_by": "d"}
        for change in (
            lambda: table.delete("k = 11"),
            lambda: table.update({"k": "k + 1"}, "k = 22"),
            lambda: table.overwrite(pa.Table.from_pylist([row(0, 1, "b")], SCHEMA), filter="k = 1"),
            lambda: table.merge({"k": [2], "s": ["z"]}, ["k"]),
        ):
            change()
            served = table.query(**asked, context={"useProjection": "late"})
            assert served.equals(table.query(**asked, context={"noProjections": True}))

    def test_nothing_to_delete_is_no_commit(self, table):
        done = table.delete("k = 5 AND s = 'no such'")
        assert (done.version, done.deleted_rows, done.removed_segments) == (1, 0, 0)
        assert projseg.Table(table.location).version == 1

    def test_null_is_not_true_and_a_row_without_a_time_is_in_no_interval(self, tmp_path):
        schema = {"t": "timestamp", "k": "int"}
        table = projseg.Table.create(tmp_path / "n", schema, time_column="t")
        table.append(pa.table({"t": pa.array([START], SCHEMA.field("t").type), "k": [None]}))
        assert table.delete("k > 0").deleted_rows == 0
        assert table.delete("NOT (k > 0)").deleted_rows == 0
        assert table.delete("k IS NULL", "2024-05-01/P1D").deleted_rows == 1

    def test_an_interval_may_cut_through_segments(self, table):
        done = table.delete(interval="2024-05-01T01:00/2024-05-02T01:00")
        assert done.deleted_rows == 3
        assert table.delete(
            interval="2024-05-02T03:00/2024-05-02T04:00", timezone="+02:00"
        ).deleted_rows == 1  # fmt: skip

    def test_truncate_leaves_an_empty_table(self, table):
        assert table.truncate().deleted_rows == 9
        check(table, [])
        table.append(pa.Table.from_pylist([row(0, 1)], SCHEMA))
        check(table, [row(0, 1)])
        assert table.truncate().deleted_rows == 1
        assert table.truncate().version == 4

    def test_a_table_without_a_time_has_no_interval(self, tmp_path):
        table = projseg.Table.create(tmp_path / "n", {"k": "int"}, data={"k": [1]})
        with pytest.raises(InvalidInputError, match=r"PROJSEG_BAD_QUERY.*time column"):
            table.delete(interval="2024-05-01/P1D")

    @pytest.mark.parametrize(
        ("condition", "code"),
        [
            ({"filter": "nope = 1"}, "PROJSEG_UNKNOWN_COLUMN"),
            ({"filter": "k +"}, "PROJSEG_BAD_EXPRESSION"),
            ({"filter": "k"}, "PROJSEG_BAD_QUERY"),
            ({"interval": "2024"}, "PROJSEG_BAD_INTERVAL"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, table, condition, code):
        for change in (table.delete, lambda **given: table.update({"k": "1"}, **given)):
            with pytest.raises(InvalidInputError, match=code):
                change(**condition)
        assert projseg.Table(table.location).version == 1

    def test_an_error_in_a_value_leaves_nothing_behind(self, table, tmp_path):
        before = sorted((tmp_path / "t" / "data").iterdir())
        with pytest.raises(EvaluationError):
            table.delete("1 / (k - 21) > 5 AND s <> 'z'")
        with pytest.raises(EvaluationError, match="column 'k': "):
            table.update({"s": "upper(s)", "k": "k + 2147483640"}, "s = 'c'")
        with pytest.raises(EvaluationError, match=r"column 'k': a bigint value does not fit int$"):
            table.update({"k": "k + 2147483640L"}, "s = 'c'")
        assert sorted((tmp_path / "t" / "data").iterdir()) == before
        assert projseg.Table(table.location).version == 1

    def test_a_table_opened_at_a_version_is_for_reading(self, table):
        pinned = projseg.Table(table.location, 1)
        for change in (
            pinned.delete,
            pinned.truncate,
            lambda: pinned.update({"k": "1"}),
            lambda: pinned.merge([{"k": 1}], ["k"]),
        ):
            with pytest.raises(InvalidInputError, match="PROJSEG_PINNED_VERSION"):
                change()


class TestUpdate:
    def test_expressions_are_of_the_row_as_it_was(self, table):
        done = table.update({"K": "k + length(s)", "s": "concat(s, cast(k AS string))"}, "s = 'b'")
        assert (done.version, done.updated_rows, done.deleted_rows) == (2, 3, 0)
        rows = []
        for day in range(3):
            for n, s in enumerate("abc"):
                k = 10 * day + n
                rows.append(
                    row(day, k + 1, f"b{k}", hour=n) if s == "b" else row(day, k, s, hour=n)
                )
        check(table, rows)
        assert ("set K", "k + length(s)") in table.history().to_pylist()[0]["operationParameters"]

    def test_a_row_may_move_to_another_day(self, table):
        table.update({"t": "t + INTERVAL 1 DAY"}, "k = 0")
        assert table.query(columns="k", interval="2024-05-02/P1D", order_by="k")[
            "k"
        ].to_pylist() == [0, 10, 11, 12]
        assert table.verify(deep=True) == []

    def test_numbers_and_nulls_become_the_column_s_type(self, table):
        table.update({"d": "k", "s": "NULL", "k": "1.0"}, "k = 12")
        found = table.query(columns="k, s, d", filter="s IS NULL").to_pylist()
        assert found == [{"k": 1, "s": None, "d": Decimal("12.00")}]

    @pytest.mark.parametrize(
        ("values", "code"),
        [
            ({"k": None}, "PROJSEG_BAD_QUERY.*'NULL'"),
            ({"k": 5}, "PROJSEG_BAD_QUERY"),
            ({"nope": "1"}, "PROJSEG_UNKNOWN_COLUMN"),
            ({"k": "1", "K": "2"}, "PROJSEG_UNKNOWN_COLUMN"),
            ({}, "PROJSEG_BAD_ARGUMENT"),
            ({"k": "s"}, "PROJSEG_SCHEMA_MISMATCH"),
            ({"s": "k"}, "PROJSEG_SCHEMA_MISMATCH"),
            ({"k": "nope + 1"}, "PROJSEG_UNKNOWN_COLUMN"),
            ({"k": "1 AS x"}, "PROJSEG_UNSUPPORTED_FUNCTION"),
            ({"t": "NULL"}, "PROJSEG_NULL_TIME"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, table, tmp_path, values, code):
        before = sorted((tmp_path / "t" / "data").iterdir())
        with pytest.raises(ProjsegError, match=code):
            table.update(values)
        assert sorted((tmp_path / "t" / "data").iterdir()) == before
        assert projseg.Table(table.location).version == 1


MERGED = [row(0, 1, "a"), row(1, 2, "b"), row(2, 3, None)]


class TestMerge:
    @pytest.mark.parametrize(
        ("matched", "not_matched", "rows", "counts"),
        [
            ("update", "insert", [row(0, 1, "a"), row(5, 2, "B"), row(2, 3, None), row(3, 4, "d")],
             (0, 1, 1)),
            ("update", "ignore", [row(0, 1, "a"), row(5, 2, "B"), row(2, 3, None)], (0, 1, 0)),
            ("delete", "insert", [row(0, 1, "a"), row(2, 3, None), row(3, 4, "d")], (1, 0, 1)),
            ("delete", "ignore", [row(0, 1, "a"), row(2, 3, None)], (1, 0, 0)),
            ("ignore", "insert", [*MERGED, row(3, 4, "d")], (0, 0, 1)),
            ("ignore", "ignore", MERGED, (0, 0, 0)),
        ],
    )  # fmt: skip
    def test_each_way(self, tmp_path, matched, not_matched, rows, counts):
        table = made(tmp_path / "t", MERGED)
        data = pa.Table.from_pylist([row(5, 2, "B"), row(3, 4, "d")], SCHEMA)
        done = table.merge(data, ["k"], matched, not_matched)
        assert (done.deleted_rows, done.updated_rows, done.inserted_rows) == counts
        assert done.version == (1 if counts == (0, 0, 0) else 2)
        check(table, rows)

    def test_columns_that_are_not_given_stay(self, tmp_path):
        table = made(tmp_path / "t", MERGED)
        table.merge({"K": [1, 2], "s": ["x", None]}, ["k"], when_not_matched="ignore")
        check(table, [row(0, 1, "x"), row(1, 2, None), row(2, 3, None)])

    def test_a_null_matches_nothing_and_all_keys_count(self, tmp_path):
        table = made(tmp_path / "t", MERGED)
        data = pa.Table.from_pylist([row(2, 3, None), row(9, 1, "b"), row(9, 2, "b")], SCHEMA)
        done = table.merge(data, ["k", "s"])
        assert (done.updated_rows, done.inserted_rows) == (1, 2)
        check(table, [*MERGED[::2], row(9, 2, "b"), row(2, 3, None), row(9, 1, "b")])

    def test_several_rows_for_one_are_refused(self, tmp_path):
        table = made(tmp_path / "t", MERGED)
        twice = pa.Table.from_pylist([row(0, 2, "x"), row(0, 2, "y")], SCHEMA)
        with pytest.raises(InvalidInputError, match=r"PROJSEG_AMBIGUOUS_MERGE.*'k': 2"):
            table.merge(twice, ["k"])
        assert table.merge(twice, ["k"], "delete", "ignore").deleted_rows == 1
        assert table.merge(twice, ["k"]).inserted_rows == 2

    @pytest.mark.parametrize(
        ("data", "on", "given", "code"),
        [
            ({"k": [1]}, [], {}, "PROJSEG_BAD_ARGUMENT"),
            ({"k": [1]}, "k", {}, "PROJSEG_BAD_ARGUMENT"),
            ({"k": [1]}, ["nope"], {}, "PROJSEG_UNKNOWN_COLUMN"),
            ({"k": [1]}, ["s"], {}, "PROJSEG_UNKNOWN_COLUMN"),
            ({"k": [1]}, ["k"], {"when_matched": "upsert"}, "PROJSEG_BAD_ARGUMENT"),
            ({"k": [1]}, ["k"], {"when_not_matched": "delete"}, "PROJSEG_BAD_ARGUMENT"),
            ({"k": ["one"]}, ["k"], {}, "PROJSEG_SCHEMA_MISMATCH"),
            ({"k": [77]}, ["k"], {}, "PROJSEG_NULL_TIME"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, table, data, on, given, code):
        with pytest.raises(InvalidInputError, match=code):
            table.merge(data, on, **given)
        assert projseg.Table(table.location).version == 1

    @pytest.mark.parametrize(
        ("type_", "one", "other"),
        [
            (pa.bool_(), True, False),
            (pa.int8(), -128, 127),
            (pa.int64(), 2**62, -(2**62)),
            (pa.decimal128(9, 2), Decimal("1.50"), Decimal("-0.01")),
            (pa.decimal128(38, 0), Decimal(10**37), Decimal(-1)),
            (pa.string(), "", "é\x00"),
            (pa.binary(), b"", b"\xff"),
            (pa.date32(), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
            (pa.timestamp("us", tz="UTC"), START, START - 9000 * DAY),
            (pa.timestamp("us"), START.replace(tzinfo=None), datetime.datetime(1, 1, 1)),
        ],
    )
    def test_a_key_of_each_type(self, tmp_path, type_, one, other):
        schema = pa.schema([("key", type_), ("v", pa.int32())])
        table = projseg.Table.create(tmp_path / "k", schema)
        table.append(pa.table({"key": [one, None], "v": [1, 2]}, schema=schema))
        data = pa.table({"key": [one, other, None], "v": [10, 20, 30]}, schema=schema)
        done = table.merge(data, ["key"])
        assert (done.updated_rows, done.inserted_rows) == (1, 2)
        found = {(row["key"], row["v"]) for row in table.query(columns="key, v").to_pylist()}
        assert found == {(one, 10), (None, 2), (other, 20), (None, 30)}

    def test_a_key_of_floats_is_refused(self, tmp_path):
        table = projseg.Table.create(tmp_path / "f", {"x": "double"})
        with pytest.raises(InvalidInputError, match=r"PROJSEG_BAD_ARGUMENT.*double"):
            table.merge({"x": [1.0]}, ["x"])


FILTERS = [
    None, "k > 2", "k IS NULL", "s = 'a' OR k < 0", "NOT (s = 'b')", "k % 2 = 0 AND d > 1",
    "d IS NOT NULL", "k IN (1, 3, 5)", "s <> 'a' AND k BETWEEN 1 AND 4", "1 = 0", "1 = 1",
]  # fmt: skip
VALUES = ["k + 1", "NULL", "coalesce(k, 0) * 2"]
ROWS = st.lists(
    st.builds(
        row,
        st.integers(0, 2),
        st.none() | st.integers(-2, 6),
        st.none() | st.sampled_from("abc"),
        st.none() | st.sampled_from(["0.50", "1.00", "2.25"]),
        st.integers(0, 3),
    ),
    max_size=12,
)
STEPS = st.lists(
    st.tuples(st.just("delete"), st.sampled_from(FILTERS), st.booleans())
    | st.tuples(st.just("update"), st.sampled_from(FILTERS), st.sampled_from(VALUES))
    | st.tuples(st.just("append"), ROWS, st.none()),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("ratio", RATIOS)
@settings(max_examples=12)
@given(rows=ROWS, steps=STEPS)
def test_as_duckdb_does(rows, steps, ratio):
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as oracle:
        table = made(
            Path(folder) / "t", rows, target_segment_rows=4, properties={"maxDeletedRatio": ratio}
        )
        oracle.execute("CREATE TABLE t (t TIMESTAMPTZ, k INTEGER, s VARCHAR, d DECIMAL(9, 2))")
        oracle.execute("SET TimeZone = 'UTC'")

        def insert(new):
            for one in new:
                oracle.execute("INSERT INTO t VALUES (?, ?, ?, ?)", list(one.values()))

        insert(rows)
        seen = []
        for kind, what, how in steps:
            if kind == "append":
                table.append(pa.Table.from_pylist(what, SCHEMA))
                insert(what)
            elif kind == "delete":
                interval = "2024-05-01T01:00/2024-05-02T02:00" if how else None
                condition = f"({what or 'true'})"
                if how:
                    condition += " AND t >= '2024-05-01 01:00Z' AND t < '2024-05-02 02:00Z'"
                done = table.delete(what, interval)
                count = oracle.execute(f"DELETE FROM t WHERE {condition}").fetchone()[0]
                assert done.deleted_rows == count
            else:
                done = table.update({"k": how}, what)
                count = oracle.execute(f"UPDATE t SET k = {how} WHERE {what or 'true'}").fetchone()
                assert done.updated_rows == count[0]
            expected = oracle.sql("SELECT * FROM t").to_arrow_table().cast(SCHEMA).to_pylist()
            check(table, expected)
            seen.append((table.version, expected))
        for version, expected in seen:
            assert rows_of(projseg.Table(table.location, version)) == texts_of(expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ratio", RATIOS)
def test_a_change_that_fails_anywhere_happened_or_did_not(tmp_path, ratio):
    """Each operation of the storage fails, once or from then on, before or after its effect."""
    rows = [row(0, 1), row(0, 2), row(1, 3), row(1, 4)]
    before = texts_of(rows)
    changes = {
        "delete": lambda base: delete_rows(base, Condition("k IN (1, 3)"), CommitNote()),
        "update": lambda base: update_rows(base, {"k": "0"}, Condition("k = 1"), CommitNote()),
    }
    after = {
        "delete": texts_of([row(0, 2), row(1, 4)]),
        "update": texts_of([row(0, 0), row(0, 2), row(1, 3), row(1, 4)]),
    }
    for name, change in changes.items():
        reached = 0
        ways = list(itertools.product((False, True), repeat=2))
        for forever, late in ways if IS_NIGHTLY else ways[:: 4 if name == "delete" else 6]:
            for at in range(1, 200):
                location = tmp_path / f"{name}{at}{forever}{late}"
                made(location, rows, properties={"maxDeletedRatio": ratio})
                storage = FaultStorage(open_storage(location), at, forever=forever, after=late)
                base = Snapshot(storage, open_snapshot(open_storage(location)).file)
                acknowledged, unknown = False, False
                try:
                    change(base)
                    acknowledged = True
                except CommitStateUnknownError:
                    unknown = True
                except ProjsegError:
                    pass
                KEPT.clear()  # its open segments read through the storage that fails
                found = rows_of(projseg.Table(location))
                allowed = [after[name]] if acknowledged else [before]
                assert found in ([before, after[name]] if unknown else allowed), (name, at)
                assert projseg.Table(location).verify(deep=True) == []
                if not storage.was_reached:
                    break
                reached += 1
        assert reached > 10, name


def _merge_counter(location, number):
    table = projseg.Table(location)
    for _ in range(5):
        table.merge(pa.Table.from_pylist([row(0, 7, str(number))], SCHEMA), ["k"])


def test_a_key_merged_by_two_processes_is_there_once(tmp_path):
    made(tmp_path / "t", [row(0, 1)])
    with suppress(AssertionError):  # one of them may lose every try
        run_processes(_merge_counter, [(str(tmp_path / "t"), number) for number in range(2)])
    table = projseg.Table(tmp_path / "t")
    assert sorted(table.query(columns="k")["k"].to_pylist()) == [1, 7]
    assert table.verify(deep=True) == []


def _append_many(location, number):
    table = projseg.Table(location)
    for n in range(6):
        table.append(pa.Table.from_pylist([row(number % 2, 100 + n)], SCHEMA))


def _delete_many(location, number):
    table = projseg.Table(location)
    return sum(table.delete(f"k = {n}").deleted_rows for n in range(6))


@pytest.mark.parametrize("ratio", RATIOS)
def test_rows_appended_by_another_process_survive_deletes(tmp_path, ratio):
    rows = [row(day, n) for day in range(2) for n in range(6)]
    made(tmp_path / "t", rows, properties={"maxDeletedRatio": ratio})
    location = str(tmp_path / "t")
    children = [CONTEXT.Process(target=_append_many, args=(location, n)) for n in range(2)]
    for child in children:
        child.start()
    assert _delete_many(location, 0) == 12
    for child in children:
        child.join()
        assert child.exitcode == 0
    check(projseg.Table(location), [row(day, 100 + n) for day in range(2) for n in range(6)])


def _compact_often(location, number):
    for _ in range(8):
        with suppress(ProjsegError):
            projseg.Table(location).compact()


@pytest.mark.parametrize("ratio", RATIOS)
def test_deletes_and_compactions_at_the_same_time(tmp_path, ratio):
    table = made(tmp_path / "t", [], properties={"maxDeletedRatio": ratio})
    for n in range(0, 12, 3):
        rows = [row(day, k) for day in range(2) for k in range(n, n + 3)]
        table.append(pa.Table.from_pylist(rows, SCHEMA))
    location = str(tmp_path / "t")
    compacting = CONTEXT.Process(target=_compact_often, args=(location, 0))
    compacting.start()
    deleted = []
    for n in range(0, 12, 2):
        with suppress(CommitConflictError):  # each try may meet another compaction
            assert table.delete(f"k = {n}").deleted_rows == 2
            deleted.append(n)
    compacting.join()
    assert compacting.exitcode == 0
    left = [row(day, n) for day in range(2) for n in range(12) if n not in deleted]
    check(projseg.Table(location), left)


def _delete_own(location, number):
    table = projseg.Table(location)
    for n in range(number, 40, 4):
        for _ in range(20):
            with suppress(CommitConflictError):  # each try may meet another delete
                assert table.delete(f"k = {n}").deleted_rows == 1
                break


def test_deletes_of_one_segment_by_several_processes_all_last(tmp_path):
    rows = [row(0, n, hour=n % 24) for n in range(60)]
    table = made(tmp_path / "t", rows, properties={"maxDeletedRatio": "1"})
    (before,) = table.snapshot.segments
    run_processes(_delete_own, [(str(tmp_path / "t"), number) for number in range(4)])
    table.refresh()
    (after,) = table.snapshot.segments
    assert (after.file, after.deleted_row_count) == (before.file, 40)
    check(table, [one for one in rows if one["k"] >= 40])
