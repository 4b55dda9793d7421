"""Start the page: an address is printed, and the process serves until it is interrupted."""

from __future__ import annotations

import os
import secrets
import socket
import stat
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import uvicorn

from projseg.catalog.places import Places
from projseg.catalog.rest_limits import limited
from projseg.errors import InvalidInputError, StorageError
from projseg.memory.temporary_batches import LIMIT_SETTING
from projseg.page.application import PageSettings, application
from projseg.reader.query_log.log_files import SETTING
from projseg.table_layer.storage.store_location import StorageOptionsLike

if TYPE_CHECKING:
    from projseg.catalog.catalog import Catalog

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_PORTS_TRIED: Final = 10
_PORT_MAX: Final = 65_535
_GROUP_BYTES: Final = "1G"  # of a query, unless the environment says another number
_SECONDS_TO_END: Final = 1
_TOKEN_CHARACTERS_MIN: Final = 16


def serve_page(
    places: Sequence[str | os.PathLike[str] | Catalog],
    *,
    host: str = "127.0.0.1",
    port: int = 8642,
    allow_remote: bool = False,
    token_file: str | os.PathLike[str] | None = None,
    open_browser: bool = False,
    timeout: float = 30,
    max_rows: int = 100_000,
    log: str | os.PathLike[str] | None = None,
    allow_changes: bool = False,
    storage_options: StorageOptionsLike | None = None,
) -> None:
    """Serve tables to a browser until the process is interrupted.

    The address with its token is printed on standard output. Whoever has the address can read the
    tables; the page changes nothing unless `allow_changes` is set.

    Parameters
    ----------
    places : sequence of str, path or Catalog
        Tables, or NAME=TABLE; folders of tables; files or addresses of catalogs.
    host : str
        The address on which the server listens.
    port : int
        The first of ten ports that are tried; 0 means any free port.
    allow_remote : bool
        Whether `host` may be reached by other machines. Traffic is not encrypted.
    token_file : str, path or None
        A file of mode 0600 that holds the token; None means a new token at each start.
    open_browser : bool
        Whether to open the address in this machine's browser.
    timeout : float
        The most seconds that a query may take.
    max_rows : int
        The most rows of an answer that are kept for downloads.
    log : str, path or None
        The folder of a query log whose queries are shown; None means the folder in
        `PROJSEG_QUERY_LOG`.
    allow_changes : bool
        Whether the page may add, build and drop projections, build indexes, refresh views and
        compact segments, each after the page has said what the change does. Rows are never changed.
    storage_options : mapping or None
        As in `Table`.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_ARGUMENT, and what `Table` raises for a place that holds no table.
    StorageError
        PROJSEG_STORAGE_FAILED if no port is free, or the token cannot be read.
    MissingPackageError
        PROJSEG_MISSING_PACKAGE if the packages of the extra `ui` are not installed.
    """
    if host not in LOOPBACK and not allow_remote:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"host {host} is reached by other machines, and traffic is not encrypted; say "
            "--allow-remote (allow_remote=True) where a proxy does that",
        )
    if not (timeout > 0 and max_rows > 0):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"timeout is {timeout!r} and max_rows {max_rows!r}; give numbers above 0",
        )
    if not 0 <= port <= _PORT_MAX:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"port is {port!r}; give one of 0 to {_PORT_MAX:,}"
        )
    os.environ.setdefault(LIMIT_SETTING, _GROUP_BYTES)
    found = Places(places, storage_options)
    token = secrets.token_urlsafe(32) if token_file is None else _token_of(Path(token_file))
    with _listening(host, port) as listener:
        port = listener.getsockname()[1]
        place = os.environ.get(SETTING) if log is None else os.fspath(log)
        settings = PageSettings(token, port, host, timeout, max_rows, place, allow_changes)
        config = limited(
            application(found, settings),
            host,
            port,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=_SECONDS_TO_END,
            server_header=False,
        )
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{port}/?token={quote(token, safe='')}"
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        if host not in LOOPBACK:
            sys.stderr.write("traffic to other machines is not encrypted: put a TLS proxy before\n")
        if open_browser:
            webbrowser.open(address)
        uvicorn.Server(config).run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the first free port of some."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    tried_ports = range(port, min(port + _PORTS_TRIED, _PORT_MAX + 1))
    for tried in tried_ports:
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # for TCP_NODELAY
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, tried))
            listener.listen()
        except socket.gaierror as error:
            listener.close()
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"host {host} is no address of this machine: {error.strerror}; give another --host",
            ) from error
        except OSError as error:
            listener.close()
            failure = error
            continue
        return listener
    raise StorageError(
        "PROJSEG_STORAGE_FAILED",
        f"none of the ports {port} to {tried_ports[-1]} of {host} is free: "
        f"{failure.strerror}; give another --port",
        failure.errno,
    )


def _token_of(file: Path) -> str:
    try:
        is_open = stat.S_IMODE(file.stat().st_mode) & 0o077
        token = file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(
            "PROJSEG_STORAGE_FAILED", f"the token cannot be read: {file}: {error}"
        ) from error
    if is_open or len(token) < _TOKEN_CHARACTERS_MIN:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"{file} must have mode 0600, and at least {_TOKEN_CHARACTERS_MIN} characters; make it "
            "so",
        )
    return token
