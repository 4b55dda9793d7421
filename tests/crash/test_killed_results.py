"""A refresh of a stored result that is killed or fails at any call, or meets others of its kind.

The SELECT runs here in the place of Spark, whose tasks write rows by the same protocol.
"""

import errno
import os
import shutil
import threading
from contextlib import suppress
from itertools import count

import pyarrow as pa
import pytest
from race import run_and_die
from recorded_os import DyingOs, FailingOs
from results_without_spark import create_result, refresh_result, runs, stored_rows, wanted_rows
from scale import IS_NIGHTLY
from test_failed_appends import GROWING, as_nobody, files_under, small_disk

import projseg
from projseg.errors import ProjsegError
from projseg.memory.cache import KEPT
from projseg.table.table_version import reader_of
from projseg.table_layer.metadata.change import NO_NOTE
from projseg.table_layer.storage import local_storage
from projseg.views.refresh_view import refresh_view
from projseg.views.refresh_work import Work

STEP = 1 if IS_NIGHTLY else 17
NOBODY = 65534
SELECT = (
    "SELECT d.region, sum(n) AS n, count(*) AS c FROM t JOIN d ON k = d.code GROUP BY d.region "
    "HAVING count(*) > 1"
)
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
PLACES = pa.schema([("code", pa.string()), ("region", pa.string())])


def rows(first, count=6):
    return pa.table([list("abcdef")[:count], range(first, first + count)], schema=SCHEMA)


def append(tables):
    tables["t"].append(rows(100))


def change_dimension(tables):
    tables["d"].update({"region": "'other'"}, "code = 'b'")


CHANGES = [append, change_dimension]


def opened(folder):
    return {name: projseg.Table(folder / name) for name in "td"}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A fact with a stored result, after each change, and one without views."""
    parent = tmp_path_factory.mktemp("results")
    folder = parent / "bare"
    table = projseg.Table.create(folder / "t", SCHEMA, data=rows(0))
    codes = pa.table([list("abcde"), list("xxyyy")], schema=PLACES)
    projseg.Table.create(folder / "d", PLACES, data=codes)
    shutil.copytree(folder, parent / "built")
    tables = opened(parent / "built")
    create_result(tables["t"], "v", SELECT, tables, runs())
    assert stored_rows(tables["t"], SELECT, tables) == wanted_rows(SELECT, tables)
    for change in CHANGES:
        shutil.copytree(parent / "built", parent / change.__name__)
        tables = opened(parent / change.__name__)
        change(tables)
        shutil.copytree(parent / change.__name__, parent / "warm")  # compiles before a fork
        tables = opened(parent / "warm")
        refresh_result(tables["t"], "v", runs())
        shutil.rmtree(parent / "warm")
    assert table.version == 0
    return parent


@pytest.fixture
def behind(template, tmp_path):
    """A copy of the tables whose result is behind."""
    shutil.copytree(template / "append", tmp_path / "copy")
    KEPT.clear()
    return tmp_path / "copy"


def check(folder, is_known=None):
    """Require that a stored result answers rightly, if at all; return whether one does."""
    KEPT.clear()
    tables = opened(folder)
    found = stored_rows(tables["t"], SELECT, tables)
    if found is not None:
        assert found == wanted_rows(SELECT, tables)
    assert tables["t"].verify(deep=True) == []
    if is_known is not None:
        assert (found is not None) == is_known
    return found is not None


def require_no_more_than_listed(folder):
    """Require that a vacuum leaves the newest version's files alone, as far as any is left."""
    table = projseg.Table(folder / "t")
    table.vacuum(0, dry_run=False, force=True)
    store = reader_of(table).view_store()
    (view,) = store.views.values()
    covers = {path.name for path in (folder / "t/views/_projseg/covers").iterdir()}
    assert covers == {view.result.cover.rpartition("/")[2]}
    used = [one for one in (folder / "t/views/results").iterdir() if files_under(one)]
    assert [one.name for one in used] == [min(covers).removesuffix(".json")]
    check(folder, is_known=True)


@pytest.mark.parametrize("change", CHANGES)
def test_a_killed_refresh_makes_no_answer_wrong(template, tmp_path, monkeypatch, change):
    killed = 0
    for at in count(1, STEP):
        folder = tmp_path / f"t{at}"
        shutil.copytree(template / change.__name__, folder)
        KEPT.clear()
        table = projseg.Table(folder / "t")

        def die(at=at, table=table):
            monkeypatch.setattr(local_storage, "os", DyingOs(at))
            refresh_result(table, "v", runs())

        was_killed = run_and_die(die)
        is_done = check(folder)
        assert was_killed or is_done
        killed += was_killed
        table = projseg.Table(folder / "t")
        assert (refresh_result(table, "v", runs()).version is None) == is_done
        assert table.view("v").detail()["state"] == "fresh"
        require_no_more_than_listed(folder)
        shutil.rmtree(folder)
        if not was_killed:
            break
    assert killed * STEP > 20


def test_a_killed_creation_leaves_no_half_made_view(template, tmp_path, monkeypatch):
    killed = 0
    for at in count(1, STEP):
        folder = tmp_path / f"t{at}"
        shutil.copytree(template / "bare", folder)
        KEPT.clear()
        tables = opened(folder)

        def die(at=at, tables=tables):
            monkeypatch.setattr(local_storage, "os", DyingOs(at))
            create_result(tables["t"], "v", SELECT, tables, runs())

        was_killed = run_and_die(die)
        is_made = check(folder)
        killed += was_killed
        tables = opened(folder)
        assert tables["t"].views().num_rows == is_made
        assert was_killed or is_made
        if not is_made:
            create_result(tables["t"], "v", SELECT, tables, runs())
        require_no_more_than_listed(folder)
        if not was_killed:
            break
    assert killed * STEP > 20


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
def test_a_refresh_that_fails_keeps_what_was(template, tmp_path, monkeypatch, code, forever):
    """The error is one of projseg's; files go if it is certain that nothing was committed."""
    told = set()
    for at in count(1, STEP):
        folder = tmp_path / f"t{at}"
        shutil.copytree(template / "append", folder)
        KEPT.clear()
        table = projseg.Table(folder / "t")
        before = set(files_under(folder))
        failing = FailingOs(at, code, forever=forever, only=GROWING)
        with monkeypatch.context() as patch:
            patch.setattr(local_storage, "os", failing)
            try:
                refresh_result(table, "v", runs())
            except ProjsegError as error:
                told.add(error.code)
                if "nothing was committed" in error.message:
                    left = set(files_under(folder)) - before
                    assert [name for name in left if name.endswith(".pseg")] == []
        check(folder)
        refresh_result(projseg.Table(folder / "t"), "v", runs())
        require_no_more_than_listed(folder)
        shutil.rmtree(folder)
        if not failing.was_reached:
            break
    refused = "PROJSEG_STORAGE_FULL" if code == errno.ENOSPC else "PROJSEG_STORAGE_FAILED"
    assert refused in told
    assert told <= {refused, "PROJSEG_COMMIT_STATE_UNKNOWN"}


def test_a_full_disk(template, tmp_path):
    with small_disk(tmp_path / "disk"):
        folder = tmp_path / "disk" / "t"
        shutil.copytree(template / "append", folder)
        ballast = tmp_path / "disk" / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 10)):
                pass
        table = projseg.Table(folder / "t")
        with pytest.raises(ProjsegError, match=r"PROJSEG_STORAGE_FULL.*free some space"):
            refresh_result(table, "v", runs())
        ballast.unlink()
        assert not check(folder)
        refresh_result(table, "v", runs())
        require_no_more_than_listed(folder)


def refresh_as_another(folder):
    """Return the error's code, and whether the present rows are those of a stored result."""
    tables = opened(folder)
    try:
        refresh_result(tables["t"], "v", runs())
        code = ""
    except ProjsegError as error:
        code = error.code
    found = stored_rows(tables["t"].refresh(), SELECT, tables)
    return code, found is not None and found == wanted_rows(SELECT, tables)


def test_another_user_may_read_a_result_and_not_refresh_it(behind):
    for path in (behind, *behind.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert as_nobody(refresh_as_another, behind) == ("PROJSEG_NO_PERMISSION", False)
    tables = opened(behind)
    refresh_result(tables["t"], "v", runs())
    assert as_nobody(refresh_as_another, behind) == ("", True)


@pytest.mark.parametrize("inside", ["results", "_projseg/covers", "_projseg/manifests", "_projseg"])
def test_a_folder_that_nobody_may_write(behind, inside):
    for path in (behind, *behind.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    place = behind / "t" / "views" / inside
    place.chmod(0o555)
    told = as_nobody(refresh_as_another, behind)
    place.chmod(0o755)
    assert told == ("PROJSEG_NO_PERMISSION", False)
    check(behind, is_known=False)
    assert as_nobody(refresh_as_another, behind) == ("", True)


def test_of_two_refreshers_one_wins_and_no_file_of_the_other_stays(behind):
    tables, run = opened(behind), runs()

    def run_slowly(job):
        answer = run(job)
        if job["target"] is not None and not met:
            met.append(refresh_result(projseg.Table(behind / "t"), "v", run).version)
        return answer

    met = []
    done = refresh_result(tables["t"], "v", run_slowly)
    assert (done.version, done.kept) == (None, 1), "it finds that the other did it"
    assert met == [1]
    used = [one for one in (behind / "t/views/results").iterdir() if files_under(one)]
    assert len(used) == 2, "those of the version before, and of the one that won"
    require_no_more_than_listed(behind)


def test_a_refresh_never_goes_back(behind):
    """Who knows an older version of the table than the result is of plans again."""
    tables = opened(behind)
    older = tables["t"].snapshot
    tables["t"].append(rows(1000))
    refresh_result(tables["t"], "v", runs())
    view_id = next(iter(reader_of(tables["t"]).view_store().views))
    _, done = refresh_view(older, view_id, Work(run_select=runs()), NO_NOTE)
    assert done.version is None
    check(behind, is_known=True)


def test_many_refreshers_and_writers(behind):
    errors = []

    def act(work):
        try:
            for number in range(3):
                with suppress(projseg.errors.CommitConflictError):
                    work(opened(behind), number)
        except Exception as error:  # noqa: BLE001 - whatever a thread meets is the test's
            errors.append(error)

    def ask(tables, _):
        found = stored_rows(tables["t"], SELECT, tables)
        assert found is None or found == wanted_rows(SELECT, tables)

    works = [
        lambda tables, n: tables["t"].append(rows(10 * n)),
        *[lambda tables, _: refresh_result(tables["t"], "v", runs())] * 3,
        ask,
        ask,
    ]
    threads = [threading.Thread(target=act, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    refresh_result(projseg.Table(behind / "t"), "v", runs())
    require_no_more_than_listed(behind)
