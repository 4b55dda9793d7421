"""A server that is killed in the middle of edits, while two clients go on writing."""

import itertools
import json
import subprocess
import sys
import threading

import pytest
from catalog_servers import free_port

import projseg

pytestmark = pytest.mark.slow
pytest.importorskip("starlette")

EDITS = 12
KILLS = [("before", 3), ("after", 4), ("note", 2), ("after", 1), ("before", 1)]
"""At which edit of its life the server dies: before its commit, after it, or between its rows."""
SERVER = """
import os, signal, sys
import sqlalchemy as sa
import projseg
from projseg.catalog.rest_server import serve
from projseg.catalog.store.tenant_edits import Edit, TenantEdits

uri, port, step, left = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])

def die_at(found):
    global left
    left -= step == found
    if step == found and left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

note, commit = Edit.note, sa.Connection.commit

def noted(self, *given):
    die_at("note")
    return note(self, *given)

def committed(self):
    die_at("before")
    commit(self)
    die_at("after")

Edit.note, sa.Connection.commit = noted, committed
serve(projseg.Catalog(uri), port=port)
"""


@pytest.mark.parametrize("doors", ["sqlite", "postgres"], indirect=True)
def test_edits_are_done_once_or_not_at_all(doors, tmp_path):
    beside = doors.open()
    beside.admin.create_tenant(doors.tenant, str(tmp_path / "warehouse"))
    beside.admin.create_principal("ada", admin=True)
    _, token = beside.admin.create_token("ada")
    beside.create("t", {"columns": [{"name": "first"}]})
    port, errors, ended = free_port(), [], []

    def write(index):
        try:
            with projseg.Catalog(f"http://127.0.0.1:{port}", token=token, timeout=120) as client:
                for number in range(EDITS):
                    client.merge("t", {"columns": [{"name": f"c{index}_{number}"}]})
        except projseg.ProjsegError as error:
            errors.append(error)

    writers = [threading.Thread(target=write, args=[index]) for index in range(2)]
    for writer in writers:
        writer.start()
    for step, count in [*KILLS, ("never", 1)]:
        words = [doors.uri, str(port), step, str(count)]
        with subprocess.Popen([sys.executable, "-c", SERVER, *words]) as server:
            if step == "never":
                for writer in writers:
                    writer.join()
                server.kill()
            ended.append(server.wait())
    assert errors == []
    assert ended == [-9] * 6, "each kill met an edit"
    history = beside.history("t").to_pylist()
    wanted = [f"c{index}_{number}" for index in range(2) for number in range(EDITS)]
    assert [row["kind"] for row in history] == ["create"] + ["merge"] * len(wanted)
    names = [[one["name"] for one in json.loads(row["spec"])["columns"]] for row in history]
    for before, after in itertools.pairwise(names):
        assert after[:-1] == before, "one whole edit after another"
    assert sorted(names[-1]) == sorted(["first", *wanted])
    assert [column.name for column in beside.spec("t").columns] == names[-1]
    versions = [row["version"] for row in history]
    assert versions == sorted(set(versions))
