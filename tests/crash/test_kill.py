"""kill -9 leaves the table before the commit or after it, and the next writer succeeds."""

import os
import random
import signal
import time
from itertools import count

import pytest
from race import CONTEXT, run_and_die
from recorded_os import DyingOs
from small_tables import files_of, new_table, new_write_id, put_segment

from projseg.memory.cache import KEPT
from projseg.table_layer.commits.commit import append
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.metadata.versions_and_tags import list_versions
from projseg.table_layer.storage import local_storage
from projseg.table_layer.storage.locate_storage import open_storage


def append_one(storage, write_id):
    entry = put_segment(storage, write_id)
    return append(storage, open_snapshot(storage), [entry], write_id=write_id)


def listed_ids(storage):
    KEPT.clear()
    snapshot = open_snapshot(storage)
    assert list_versions(storage) == list(range(snapshot.version + 1))
    for entry in snapshot.segments:
        assert storage.size(entry.file) == entry.byte_count
    return {entry.write_id for entry in snapshot.segments}


def test_killed_at_every_changing_call(tmp_path, monkeypatch):
    storage, _ = new_table(tmp_path / "t")
    landed_while_dying = 0
    expected = set()
    for at in count(1):
        write_id = new_write_id()

        def die(at=at, write_id=write_id):
            monkeypatch.setattr(local_storage, "os", DyingOs(at))
            append_one(storage, write_id)

        was_killed = run_and_die(die)
        found = listed_ids(storage)
        assert found - {write_id} == expected
        assert was_killed or write_id in found
        landed_while_dying += was_killed and write_id in found
        next_id = new_write_id()
        append_one(storage, next_id)
        expected = found | {next_id}
        assert listed_ids(storage) == expected
        if not was_killed:
            break
    assert at > 20
    # Dead after `link` and before the answer: the commit stands though nobody was told.
    assert landed_while_dying >= 2


def write_until_killed(location, acknowledged):
    storage = open_storage(location)
    while True:
        write_id = new_write_id()
        append_one(storage, write_id)
        with open(acknowledged, "a") as file:
            file.write(write_id + "\n")


def kill_loop(tmp_path, kills):
    """Kill two writers of one growing table at random times, again and again."""
    storage, _ = new_table(tmp_path / "t")
    rng = random.Random(kills)
    logs = [tmp_path / f"acknowledged{n}" for n in range(2)]
    for log in logs:
        log.touch()
    for _ in range(kills):
        writers = [
            CONTEXT.Process(target=write_until_killed, args=(tmp_path / "t", log)) for log in logs
        ]
        for writer in writers:
            writer.start()
        time.sleep(rng.uniform(0, 0.08))
        for writer in writers:
            os.kill(writer.pid, signal.SIGKILL)
        for writer in writers:
            writer.join()
        acknowledged = {line for log in logs for line in log.read_text().split()}
        found = listed_ids(storage)
        assert acknowledged <= found
        assert len(found) == len(files_of(open_snapshot(storage)))
    assert acknowledged, "no writer got far enough for the test to mean anything"


def test_killed_at_random_times(tmp_path):
    kill_loop(tmp_path, 25)


@pytest.mark.slow
def test_killed_at_random_times_many_times(tmp_path):
    kill_loop(tmp_path, 500)
