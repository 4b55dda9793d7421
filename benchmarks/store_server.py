"""An S3-compatible server of this machine (moto), and a proxy that counts and spoils requests.

    python -m projseg.benchmarks.store_server SERVER_PORT

is the proxy: it prints its own port and serves until it is stopped. `GET /-/log` tells and forgets
the requests since the last call; `PUT /-/faults` sets, as JSON, what is done to later ones:

- `delay`: seconds before each reply;
- `share`: of the requests that are spoiled, from 0 to 1;
- `only`: the methods that may be, such as `PUT`; all if left out;
- `kinds`: how, one chosen at random for each: `cut` (the reply is lost), `drop` (the request is),
  `twice` (the request arrives again after its reply), `500` (an error in place of the reply);
- `ignore_conditions`: whether `If-None-Match` is taken out of requests;
- `refuse_conditions`: the status that answers a request which has it;
- `answer`: the status that answers every request.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, local
from typing import Any, Final, TypeAlias

from projseg.errors import StorageError

_START_SECONDS_MAX: Final = 60
_PAUSE_SECONDS: Final = 0.05

_CONTROL: Final = "/-/"
_NOT_PASSED_ON: Final = frozenset({"connection", "transfer-encoding", "content-length", "server"})
_CONDITION: Final = "if-none-match"
_Reply: TypeAlias = tuple[int, list[tuple[str, str]], bytes]
_NO_REPLY: Final[_Reply] = (0, [], b"")
_SPOILED: Final[_Reply] = (500, [], b"")
_NOT_SERVED: Final[_Reply] = (503, [], b"")
_SAFE_RANDOM: Final = random.SystemRandom()


class StoreServer:
    """The running server, known by its port and that of the proxy before it."""

    def __init__(self, port: int, proxy_port: int) -> None:
        self.port = port
        self.proxy_port = proxy_port

    def make_bucket(self, name: str) -> None:
        """Create a bucket."""
        _reply(self.port, "PUT", f"/{name}")

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
        """Say what the proxy does to requests; see `projseg.benchmarks.store_server`."""
        _reply(self.proxy_port, "PUT", "/-/faults", json.dumps(faults).encode())

    def log(self) -> list[dict[str, Any]]:
        """Return the requests that the proxy saw since the last call."""
        found: list[dict[str, Any]] = json.loads(_reply(self.proxy_port, "GET", "/-/log"))
        return found


@contextmanager
def store_server() -> Iterator[StoreServer]:
    """Start the server and the proxy in processes of their own, on free ports."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = _started("moto.server", "-H", "127.0.0.1", "-p", str(port))
    proxy = _started("projseg.benchmarks.store_server", str(port), output=subprocess.PIPE)
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
            _reply(port, "GET", "/")
        except OSError:
            if time.monotonic() > deadline:
                raise StorageError("PROJSEG_STORAGE_FAILED", "moto does not start") from None
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _reply(port: int, method: str, path: str, body: bytes | None = None) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_SECONDS_MAX)
    try:
        connection.request(method, path, body)
        return connection.getresponse().read()
    finally:
        connection.close()


class _State:
    """The settings of the proxy, and the requests it saw."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.faults: dict[str, Any] = {}
        self.log: list[dict[str, Any]] = []
        self.lock = Lock()
        # The server looks whether an object is there, and then makes it; S3 does both at once.
        self.conditional = Lock()
        self.own = local()
        self.under_way = 0

    def begin(self) -> int:
        """Return how many other requests are under way."""
        with self.lock:
            self.under_way += 1
            return self.under_way - 1

    def end(self, **request: Any) -> None:
        """Keep the facts of a request."""
        with self.lock:
            self.under_way -= 1
            self.log.append(request)

    def connection(self) -> http.client.HTTPConnection:
        if not hasattr(self.own, "connection"):
            self.own.connection = http.client.HTTPConnection("127.0.0.1", self.server_port)
        connection: http.client.HTTPConnection = self.own.connection
        return connection


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: _State

    def do_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith(_CONTROL):
            self._control(body)
            return
        faults, beside = self.state.faults, self.state.begin()
        time.sleep(faults.get("delay", 0))
        may_be_spoiled = self.command in faults.get("only", [self.command])
        kind = None
        if may_be_spoiled and _SAFE_RANDOM.random() < faults.get("share", 0):
            kind = _SAFE_RANDOM.choice(faults["kinds"])
        status, headers, content = _NO_REPLY
        refusal = faults.get("refuse_conditions") if _CONDITION in self.headers else None
        if (answer := refusal or faults.get("answer")) is not None:
            self.state.end(method=self.command, path=self.path, status=answer, bytes=0)
            self._reply(answer, [], b"")
            return
        for _ in range({"drop": 0, "twice": 2}.get(kind or "", 1)):
            status, headers, content = self._forwarded(body)
        self.state.end(
            method=self.command,
            path=self.path,
            range=self.headers.get("Range"),
            status=status,
            bytes=len(content),
            fault=kind,
            beside=beside,
        )
        if kind in ("cut", "drop"):
            self.close_connection = True
            return
        if kind == "500":
            status, headers, content = _SPOILED
        self._reply(status, headers, content)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = do_any

    def _forwarded(self, body: bytes) -> _Reply:
        ignored = {_CONDITION} if self.state.faults.get("ignore_conditions") else set()
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ignored}
        is_conditional = _CONDITION in self.headers
        connection = self.state.connection()
        try:
            with self.state.conditional if is_conditional else nullcontext():
                connection.request(self.command, self.path, body, headers)
                reply = connection.getresponse()
                return reply.status, reply.getheaders(), reply.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return _NOT_SERVED

    def _control(self, body: bytes) -> None:
        content = b"{}"
        with self.state.lock:
            if self.command == "PUT":
                self.state.faults = json.loads(body)
            else:
                content, self.state.log = json.dumps(self.state.log).encode(), []
        self._reply(200, [], content)

    def _reply(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        given = {name.lower(): value for name, value in headers}
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _NOT_PASSED_ON:
                self.send_header(name, value)
        is_head = self.command == "HEAD"
        length = given.get("content-length", "0") if is_head else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        if not is_head:
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write no line for each request."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Write nothing: clients that go away are what faults are for."""


def main() -> None:
    """Serve until stopped."""
    _Handler.state = _State(int(sys.argv[1]))
    with _Server(("127.0.0.1", 0), _Handler) as server:
        sys.stdout.write(f"{server.server_address[1]}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main()
