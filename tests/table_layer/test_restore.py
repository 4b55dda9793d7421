"""Restored versions, and what the history says of commits."""

import re
from datetime import UTC, datetime

import msgspec
import pytest

import projseg
from projseg.errors import CommitError, InvalidInputError, LimitExceededError
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.commits.restore import restore
from projseg.table_layer.metadata import checksummed_json
from projseg.table_layer.metadata.change import CommitNote, Overwrite
from projseg.table_layer.metadata.metadata_limits import COMMIT_TEXT_BYTES_MAX
from projseg.table_layer.metadata.snapshot import SnapshotFile, open_snapshot, read_version
from projseg.table_layer.storage.paths import new_write_id

TOTAL = {"name": "total", "sql": "SELECT sum(n) AS n GROUP BY ALL"}
DELTA_COLUMNS = [
    "version", "timestamp", "userName", "operation", "operationParameters", "operationMetrics",
    "engineInfo", "userMetadata", "readVersion", "isBlindAppend",
]  # fmt: skip


def rows_of(table):
    return sorted(table.query(columns="n")["n"].to_pylist())


@pytest.fixture
def table(tmp_path):
    """Versions: 0 empty, 1 and 2 appended, 3 overwritten, 4 with a projection."""
    made = projseg.Table.create(tmp_path / "t", {"n": "int"})
    made.append([{"n": 1}])
    made.append([{"n": 2}, {"n": 3}])
    made.overwrite([{"n": 9}])
    made.add_projection(TOTAL)
    return made


@pytest.mark.parametrize(
    ("version", "rows", "came_back"), [(0, [], 0), (1, [1], 1), (2, [1, 2, 3], 3), (3, [9], 0)]
)
def test_an_old_version_is_brought_back_in_one_commit(table, version, rows, came_back):
    before = {old: rows_of(projseg.Table(table.location, old)) for old in range(5)}
    made = table.restore(version)
    assert (made.version, made.rows) == (5, came_back)
    assert rows_of(table) == rows_of(projseg.Table(table.location)) == rows
    assert len(table.projections()) == 0
    assert {old: rows_of(projseg.Table(table.location, old)) for old in range(5)} == before
    table.append([{"n": 7}])
    assert rows_of(table) == sorted([*rows, 7])
    assert table.verify(deep=True) == []
    table.restore(4)
    assert rows_of(table) == [9]
    assert table.projections()["name"].to_pylist() == ["total"]
    assert table.query(aggregators="sum(n) AS n")["n"].to_pylist() == [9]
    assert table.verify(deep=True) == []


def test_a_version_is_restored_by_its_time(table):
    moment = table.history().to_pylist()[2]["timestamp"]
    table.restore(timestamp=moment)
    assert rows_of(table) == [1, 2, 3]


def test_rows_committed_meanwhile_are_replaced_and_later_ones_stay(table):
    other = projseg.Table(table.location)
    other.append([{"n": 10}])
    table.restore(1)
    assert rows_of(table) == [1]
    other.append([{"n": 11}])
    assert rows_of(other) == [1, 11]


def test_an_overwrite_begun_before_a_restore_is_refused(table):
    base = open_snapshot(table.snapshot.storage)
    table.restore(2)
    with pytest.raises(CommitError, match="PROJSEG_COMMIT_CONFLICT"):
        commit(
            base.storage, base, Overwrite(()), write_id=new_write_id(), operation="overwrite"
        )  # fmt: skip
    assert rows_of(projseg.Table(table.location)) == [1, 2, 3]


def test_a_restore_whose_files_are_gone_names_them(table, tmp_path):
    (lost,) = projseg.Table(table.location, 1).segments()["segment"].to_pylist()
    (tmp_path / "t" / lost).unlink()
    with pytest.raises(CommitError, match=rf"PROJSEG_SEGMENT_MISSING.*version 2 .*{lost}"):
        table.restore(2)
    assert projseg.Table(table.location).version == 4
    assert table.restore(3).version == 5


def test_a_restore_keeps_the_transactions_of_later_versions(table):
    current = open_snapshot(table.snapshot.storage)
    empty = Overwrite(())
    commit(
        current.storage, current, empty, write_id=new_write_id(), operation="x", txn=("app", 7)
    )  # fmt: skip
    table.restore(1)
    assert open_snapshot(current.storage).file.transactions["app"].version == 7


def test_what_cannot_be_restored_is_refused(table):
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_VERSION"):
        table.restore(17)
    with pytest.raises(InvalidInputError, match=r"PROJSEG_BAD_ARGUMENT.*no version"):
        table.restore()
    with pytest.raises(InvalidInputError, match=r"PROJSEG_BAD_ARGUMENT.*each name"):
        table.restore(1, timestamp="2100-01-01")
    with pytest.raises(InvalidInputError, match="PROJSEG_PINNED_VERSION"):
        projseg.Table(table.location, 2).restore(1)
    assert projseg.Table(table.location).version == 4


def test_a_restore_that_landed_is_found_again(table):
    storage = table.snapshot.storage
    current, old = open_snapshot(storage), read_version(storage, 1)
    made = restore(current, old, CommitNote())
    assert made.snapshot.version == 5
    assert made.snapshot.file.change == "overwrite"


def test_the_history_has_the_columns_of_delta(table):
    table.commit_as("ada", '{"ticket": 7}').restore(2)
    told = table.history()
    assert told.column_names[: len(DELTA_COLUMNS)] == DELTA_COLUMNS
    newest, added, replaced, *appended, created = told.to_pylist()
    assert (newest["operation"], newest["userName"]) == ("restore", "ada")
    assert newest["userMetadata"] == '{"ticket": 7}'
    assert newest["operationParameters"] == [("version", "2")]
    assert dict(newest["operationMetrics"])["restored_rows"] == "3"
    assert newest["engineInfo"] == f"projseg {projseg.__version__}"
    assert (newest["readVersion"], newest["isBlindAppend"]) == (4, False)
    assert added["operationParameters"] == [("projection", "total")]
    assert (replaced["isBlindAppend"], replaced["userName"]) == (False, None)
    assert [row["isBlindAppend"] for row in appended] == [True, True]
    assert [row["readVersion"] for row in appended] == [1, 0]
    assert created["readVersion"] is None


def test_the_interval_of_an_overwrite_is_told(tmp_path):
    table = projseg.Table.create(
        tmp_path / "t", {"t": "timestamp"}, time_column="t", segment_granularity="day"
    )
    table.overwrite([{"t": datetime(2020, 1, 1, 5, tzinfo=UTC)}], "2020-01-01/P1D")
    (interval,) = table.history().to_pylist()[0]["operationParameters"]
    assert interval == ("interval", "2020-01-01T00:00:00Z/2020-01-02T00:00:00Z")


def test_what_a_commit_says_of_itself_is_bounded(table):
    table.commit_as(user_metadata="x" * COMMIT_TEXT_BYTES_MAX).append([{"n": 1}])
    with pytest.raises(LimitExceededError, match="PROJSEG_METADATA_TOO_LARGE"):
        table.commit_as(user_metadata="x" * (COMMIT_TEXT_BYTES_MAX + 1))


def without_info(payload):
    """Return a snapshot as releases wrote it that kept no `commit`."""
    file = msgspec.json.decode(payload, type=SnapshotFile)
    return checksummed_json.seal(
        msgspec.structs.replace(file, optional=msgspec.UNSET, required_features=())
    )


@pytest.mark.folder
def test_snapshots_of_earlier_releases_are_read_and_say_less(table, tmp_path):
    for file in (tmp_path / "t" / "_projseg").glob("*.json"):
        file.write_bytes(without_info(file.read_bytes()))
    opened = projseg.Table(table.location)
    assert rows_of(opened) == [9]
    for row in opened.history().to_pylist():
        told = [row[name] for name in ("userName", "engineInfo", "readVersion", "userMetadata")]
        assert told == [None] * 4
        assert row["operationParameters"] is None
        assert row["operation"]
    assert opened.restore(2).rows == 3


def rewritten(folder, **changes):
    """Change the newest snapshot of a table."""
    newest = max((folder / "_projseg").glob("*.json"))
    file = msgspec.json.decode(newest.read_bytes(), type=SnapshotFile)
    newest.write_bytes(checksummed_json.seal(msgspec.structs.replace(file, **changes)))


@pytest.mark.folder
def test_optional_members_of_later_releases_are_ignored(table, tmp_path):
    before, told = rows_of(table), table.history().to_pylist()
    file = table.snapshot.file
    later = msgspec.Raw(b'{ "signed" : [1e3, "\\u00e4", {"by": null}] }')
    rewritten(tmp_path / "t", optional={"before": later, **file.optional, "later": later})
    opened = projseg.Table(table.location)
    assert rows_of(opened) == before
    assert opened.history().to_pylist() == told
    opened.append([{"n": 77}])
    assert list(opened.snapshot.file.optional) == ["commit"]  # they were of the commit before
    assert rows_of(projseg.Table(table.location)) == [*before, 77]


@pytest.mark.folder
def test_a_reader_that_knows_no_optional_member_reads_the_rows(table, monkeypatch):
    from projseg.table_layer.metadata import snapshot

    before = rows_of(table)
    monkeypatch.setattr(snapshot, "_COMMIT", "unknown to this release")
    opened = projseg.Table(table.location)
    assert rows_of(opened) == before
    assert opened.history().to_pylist()[0]["engineInfo"] is None
    assert opened.restore(2).rows == 3


@pytest.mark.folder
def test_a_commit_is_held_by_its_old_field_too(table, tmp_path):
    told = table.history().to_pylist()
    rewritten(
        tmp_path / "t",
        commit=table.snapshot.commit_info,
        optional=msgspec.UNSET,
        required_features=("commit_info",),
    )
    assert projseg.Table(table.location).history().to_pylist() == told


@pytest.mark.folder
@pytest.mark.parametrize("raw", [b"{}", b"3", b"null", b'"x"', None])
def test_a_commit_that_is_none_is_found(table, tmp_path, raw):
    spaced = bytes(table.snapshot.file.optional["commit"]).replace(b":", b": ", 1)
    rewritten(tmp_path / "t", optional={"commit": msgspec.Raw(spaced if raw is None else raw)})
    with pytest.raises(projseg.errors.CorruptTableError, match="its commit"):
        projseg.Table(table.location)


@pytest.mark.folder
def test_a_snapshot_names_the_features_it_has(table, tmp_path):
    newest = max((tmp_path / "t" / "_projseg").glob("*.json"))
    payload = newest.read_bytes()
    assert b'"required_features":["optional"]' in payload
    file = msgspec.json.decode(payload, type=SnapshotFile)
    for forged in (
        msgspec.structs.replace(file, required_features=()),
        msgspec.structs.replace(file, optional=msgspec.UNSET),
    ):
        newest.write_bytes(checksummed_json.seal(forged))
        with pytest.raises(projseg.errors.CorruptTableError, match=re.escape("names features")):
            projseg.Table(table.location)
