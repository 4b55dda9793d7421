"""An S3-compatible server of this machine (moto), and a proxy before it."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from projseg.errors import StorageError

_START_SECONDS_MAX: Final = 60
_PAUSE_SECONDS: Final = 0.05


class StoreServer:
    """The running server, known by its ports.

    Parameters
    ----------
    port, proxy_port : int
        Of the server itself, and of the proxy before it.
    """

    def __init__(self, port: int, proxy_port: int) -> None:
        self.port = port
        self.proxy_port = proxy_port

    def make_bucket(self, name: str) -> None:
        """Create a bucket."""
        _asked(self.port, "PUT", f"/{name}")

    def options(self, *, through_proxy: bool = False) -> dict[str, str]:
        """Return the storage options that reach it; the key and the secret are any."""
        port = self.proxy_port if through_proxy else self.port
        return {
            "endpoint": f"http://127.0.0.1:{port}",
            "allow_http": "true",
            "region": "us-east-1",
            "access_key_id": "a-key",
            "secret_access_key": "a-secret",
        }

    def spoil(self, **faults: Any) -> None:
        """Say what the proxy does to requests; see `projseg.benchmarks.store_proxy`."""
        _asked(self.proxy_port, "PUT", "/-/faults", json.dumps(faults).encode())

    def log(self) -> list[dict[str, Any]]:
        """Return what the proxy saw since it was asked last."""
        found: list[dict[str, Any]] = json.loads(_asked(self.proxy_port, "GET", "/-/log"))
        return found


@contextmanager
def store_server() -> Iterator[StoreServer]:
    """Start the server and the proxy in processes of their own, on free ports."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = _started("moto.server", "-H", "127.0.0.1", "-p", str(port))
    proxy = _started("projseg.benchmarks.store_proxy", str(port), output=subprocess.PIPE)
    try:
        assert proxy.stdout is not None
        with proxy.stdout:
            proxy_port = int(proxy.stdout.readline())
        _wait(port)
        yield StoreServer(port, proxy_port)
    finally:
        for process in (proxy, server):
            process.terminate()
            process.wait()


def _started(*words: str, output: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - the words are our own
        [sys.executable, "-m", *words], stdout=output, stderr=subprocess.DEVNULL
    )


def _wait(port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while True:
        try:
            _asked(port, "GET", "/")
        except OSError:
            if time.monotonic() > deadline:
                raise StorageError("PROJSEG_STORAGE_FAILED", "moto does not start") from None
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _asked(port: int, method: str, path: str, body: bytes | None = None) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_SECONDS_MAX)
    try:
        connection.request(method, path, body)
        return connection.getresponse().read()
    finally:
        connection.close()
