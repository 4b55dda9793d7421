"""What becomes of a put is told truly, whatever happens to requests and replies."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import resource_tracker

import pytest
from fault_storage import FaultStorage
from small_tables import small_properties

import projseg
from projseg.errors import CommitError
from projseg.table_layer.commits.commit import create_table
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.paths import METADATA_PREFIX, new_probe_name, segment_name
from projseg.table_layer.storage.storage_contract import PutOutcomeUnknownError

resource_tracker.ensure_running()  # it stays, so it must not begin within a test
PROCESSES = partial(ProcessPoolExecutor, mp_context=multiprocessing.get_context("spawn"))
SCHEMA = {"writer": "long", "number": "long"}
WRITE_ID = "0" * 32


@pytest.fixture
def storage(store_place, options):
    return open_storage(store_place / "t", options)


def test_a_name_is_created_once(storage):
    name = new_probe_name()
    storage.put_if_absent(name, b"one")
    for payload in (b"two", b"one"):
        with pytest.raises(FileExistsError):
            storage.put_if_absent(name, payload)
    assert storage.read_sized(name, 0, 10) == (b"one", 3)


@pytest.mark.parametrize("kind", ["cut", "500", "twice"])
def test_a_lost_reply_is_unknown_and_never_a_conflict(storage, spoiled, kind):
    spoiled(share=1, only=["PUT"], kinds=[kind])
    name = new_probe_name()
    with pytest.raises(PutOutcomeUnknownError if kind != "twice" else FileExistsError):
        storage.put_if_absent(name, b"one")
    assert storage.read_sized(name, 0, 10).content == b"one"


def test_a_request_that_never_arrives_creates_nothing(storage, spoiled):
    spoiled(share=1, only=["PUT"], kinds=["drop"])
    name = new_probe_name()
    with pytest.raises(PutOutcomeUnknownError):
        storage.put_if_absent(name, b"one")
    with pytest.raises(FileNotFoundError):
        storage.size(name)


@pytest.mark.parametrize("size", [100, 20 << 20])
@pytest.mark.parametrize("kinds", [["cut"], ["drop"], ["cut", "drop", "500"]])
def test_a_segment_is_whole_whatever_replies_are_lost(storage, spoiled, size, kinds):
    content = bytes(range(256)) * (size // 256 + 1)
    spoiled(share=0.15, only=["PUT", "POST", "HEAD"], kinds=kinds)
    name = segment_name(WRITE_ID, 0, 0, 0)
    with storage.create(name) as sink:
        for start in range(0, len(content), 1 << 20):
            sink.write(content[start : start + (1 << 20)])
        sink.commit()
    spoiled()
    assert storage.read_range(name, 0, len(content)) == content


@pytest.mark.parametrize("size", [100, 20 << 20])
def test_what_is_not_committed_is_not_there(storage, size):
    name = segment_name(WRITE_ID, 0, 0, 0)
    with pytest.raises(ZeroDivisionError), storage.create(name) as sink:  # noqa: PT012
        sink.write(bytes(size))
        raise ZeroDivisionError
    assert list(storage.list_names("data/")) == []
    with pytest.raises(FileNotFoundError):
        storage.size(name)


@pytest.mark.parametrize("size", [100, 20 << 20])
def test_a_taken_segment_name_is_refused(storage, size):
    name = segment_name(WRITE_ID, 0, 0, 0)
    storage.put_if_absent(name, b"there")

    def write():
        with storage.create(name) as sink:
            sink.write(bytes(size))
            sink.commit()

    with pytest.raises(FileExistsError):
        write()
    assert storage.read_range(name, 0, 5) == b"there"


def appended(location, options, writer, count):
    """Append rows one by one; a commit whose state is unknown would raise."""
    for number in range(count):
        projseg.Table(location, storage_options=options).append(
            {"writer": [writer], "number": [number]}
        )


def require_each_once(table, writers, commits):
    rows = table.query(columns=["writer", "number"], order_by=["writer", "number"]).to_pylist()
    wanted = [{"writer": w, "number": n} for w in range(writers) for n in range(commits)]
    assert rows == wanted
    assert table.version == writers * commits


# Threads of one process meet in the store as processes do, which are slower to start.
@pytest.mark.parametrize(
    ("writers", "commits", "pool"),
    [
        (4, 4, ThreadPoolExecutor),
        pytest.param(12, 30, PROCESSES, marks=pytest.mark.slow),
    ],
)
def test_writers_whose_replies_are_lost_lose_and_double_nothing(
    store_server, store_place, options, spoiled, writers, commits, pool
):
    location = str(store_place)
    table = projseg.Table.create(location, SCHEMA, storage_options=options)
    store_server.log()
    spoiled(share=0.1, kinds=["cut", "drop", "500", "twice"])
    with pool(writers) as workers:
        done = [workers.submit(appended, location, options, w, commits) for w in range(writers)]
        for one in done:
            one.result()
    spoiled()
    assert any(one["fault"] for one in store_server.log())
    table.refresh()
    require_each_once(table, writers, commits)


class LateListing(FaultStorage):
    """Lists nothing of what was written."""

    def list_names(self, prefix, after=""):
        return iter(())


class Replacing(FaultStorage):
    """Says that a name was taken after it has replaced the file."""

    def put_if_absent(self, name, payload):
        taken = name in {file.name for file in self.inner.list_names(METADATA_PREFIX)}
        self.inner.delete(name)
        self.inner.put_if_absent(name, payload)
        if taken:
            raise FileExistsError(name)


@pytest.mark.parametrize("kind", [LateListing, Replacing])
def test_a_store_that_cannot_hold_a_table_is_refused(storage, kind):
    with pytest.raises(CommitError, match=r"PROJSEG_STORAGE_(LISTS_LATE|NOT_ATOMIC)"):
        create_table(kind(storage), small_properties())
    assert not list(storage.list_names(METADATA_PREFIX))


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        ({"ignore_conditions": True}, "lets a second writer replace"),
        ({"refuse_conditions": 501}, "does not know how to create a file only if it is absent"),
    ],
)
def test_a_store_without_conditional_puts_is_refused(store_place, options, spoiled, faults, told):
    spoiled(**faults)
    with pytest.raises(CommitError, match=told) as caught:
        projseg.Table.create(store_place, SCHEMA, storage_options=options)
    assert caught.value.code == "PROJSEG_STORAGE_NOT_ATOMIC"
    spoiled()
    assert not projseg.is_table(store_place, options)
