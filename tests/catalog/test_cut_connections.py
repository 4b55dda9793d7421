"""Connections to PostgreSQL that are cut while an edit commits: it is done once all the same."""

import contextlib
import socket
import threading
import time

import pytest

import projseg

pytestmark = pytest.mark.parametrize("doors", ["postgres"], indirect=True)
COLUMNS = {"columns": [{"name": "a", "sqlType": "int"}, {"name": "b"}]}
VERBS = {
    "create": lambda c: c.create("new", {}),
    "merge": lambda c: c.merge("t", {"columns": [{"name": "c"}]}),
    "move": lambda c: c.move_column("t", "b", "first"),
    "hide": lambda c: c.hide_columns("t", ["b"]),
    "rename": lambda c: c.rename("t", "u"),
    "drop": lambda c: c.drop("t"),
    "undrop": lambda c: c.undrop("old"),
    "register": lambda c: c.register("r", "/data/r"),
    "namespace": lambda c: c.create_namespace("n"),
    "grant": lambda c: c.admin.grant("ada", "READ", ".*"),
}


class Cutter:
    """A socket before a server's; the next COMMIT loses its connection as `fate` says."""

    def __init__(self, own, server):
        self.fate, self.cut = None, 0
        self._server, self._listening = server, socket.socket(socket.AF_UNIX)
        self._opened = [self._listening]
        self._listening.bind(own)
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        for one in self._opened:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, server = self._listening.accept()[0], socket.socket(socket.AF_UNIX)
                self._opened += [client, server]
                server.connect(self._server)
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one, other):
        with contextlib.suppress(OSError):
            while content := one.recv(65536):
                if b"COMMIT\0" in content and self.fate:
                    self._lose(one, other, content)
                other.sendall(content)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _lose(self, client, server, content):
        fate, self.fate = self.fate, None
        self.cut += 1
        if fate == "after":  # the server commits, and its answer is lost
            client.shutdown(socket.SHUT_WR)
            server.sendall(content)
            time.sleep(0.2)
        elif fate == "late":  # the client hears of the cut before the server commits
            client.shutdown(socket.SHUT_RDWR)
            time.sleep(0.5)
            server.sendall(content)
            time.sleep(0.2)
        raise OSError("cut")


@pytest.fixture
def cutter(doors, tmp_path):
    folder = doors.uri.partition("host=")[2]
    if not folder:
        pytest.skip(f"PostgreSQL is behind no socket of this machine: {doors.uri}")
    made = Cutter(str(tmp_path / ".s.PGSQL.5432"), f"{folder}/.s.PGSQL.5432")
    yield made
    made.close()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("fate", ["before", "after", "late"])
@pytest.mark.parametrize("verb", VERBS)
def test_an_edit_is_done_once(doors, cutter, tmp_path, fate, verb):
    beside = doors.open()
    for name in ("t", "old"):
        beside.create(name, COLUMNS)
    beside.drop("old")
    beside.admin.create_principal("ada")
    before = beside.changes().num_rows
    uri = doors.uri.partition("host=")[0] + f"host={tmp_path}"
    with projseg.Catalog(uri, tenant=doors.tenant, warehouse=tmp_path / "warehouse") as catalog:
        assert catalog.exists("t")
        cutter.fate = fate
        VERBS[verb](catalog)
    assert cutter.cut == 1
    changes = beside.changes()
    assert changes.num_rows == before + 1, "and not done twice"
    assert beside.store.head() == changes["version"].to_pylist()[-1]
    assert len(beside.admin.grants("ada")) == (verb == "grant")
    if verb == "merge":
        assert [one.name for one in beside.spec("t").columns] == ["a", "b", "c"]
