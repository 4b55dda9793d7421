"""Places that definitions may name: folders, roots of a tenant, hosts with public addresses.

A definition is somebody's text, and it is read with the rights of whoever reads it. So it reaches
nothing but what the reader's own settings name. Files of web servers are fetched from checked
addresses into temporary files. Where tables lie that a catalog did not place is compared with the
tenant's roots.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from projseg.catalog.spec.spec_rules import pattern_problem
from projseg.errors import InvalidInputError
from projseg.extras import require

if TYPE_CHECKING:
    import urllib3

ROOTS: Final = "PROJSEG_EXTERNAL_ROOTS"
HOSTS: Final = "PROJSEG_EXTERNAL_HOSTS"
_PORTS: Final = {"https": 443, "http": 80}
# An IPv4 address is the end of these: of translators (RFC 6052), and of the first days of IPv6.
_WRAPPING: Final = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::/96")))
# What some releases of Python take for public: protocols' own (some clouds tell secrets there),
# translators within a site, and sites.
_RESERVED: Final = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "64:ff9b:1::/48", "fec0::/10")))

FETCH_BYTES_MAX: Final = 4 << 30
FETCH_SECONDS_MAX: Final = 600
_SILENCE_SECONDS: Final = 30
_CHUNK_BYTES: Final = 1 << 20


class Address(NamedTuple):
    """A checked place of a web server, as the definition names it.

    `ip` is what the name was looked up as, once; the connection goes there. `target` is path and
    query.
    """

    scheme: str
    host: str
    port: int
    ip: str
    target: str


@dataclass(frozen=True)
class AllowedPlaces:
    """What a reader lets definitions name: folders, and hosts.

    A host is `host[:port]` for https, or `http://host[:port]`.
    """

    roots: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @classmethod
    def of(cls, roots: Sequence[str], hosts: Sequence[str]) -> AllowedPlaces:
        """Return the places that are given, else those of the environment."""
        return cls(
            tuple(map(os.fspath, roots)) or tuple(_setting(ROOTS, os.pathsep)),
            tuple(hosts) or tuple(_setting(HOSTS, ",")),
        )

    def files(self, base: str, names: Sequence[str] | None, pattern: str | None) -> list[str]:
        """Return the resolved paths of the files in a definition.

        Without names, a pattern chooses files below its base; `**` stands for any folders.
        """
        if not os.path.isabs(base) or "\0" in base:
            raise InvalidInputError(
                "PROJSEG_OUTSIDE_ROOTS",
                f"baseDir '{base[:200]}' is no absolute path of a folder on this machine",
            )
        folder = self._resolved(base)
        if names is not None:
            return [_regular(self._resolved(folder / name)) for name in names]
        if (problem := pattern_problem(str(pattern))) is not None:
            raise InvalidInputError(
                "PROJSEG_BAD_INPUT_FILE", f"the pattern {str(pattern)[:80]!r}: {problem}"
            )
        parts = PurePath(str(pattern)).parts
        paths = sorted(path for path in self._matching(folder, parts, set()) if path.is_file())
        if not paths:
            raise InvalidInputError(
                "PROJSEG_BAD_INPUT_FILE", f"no file of {base} matches '{pattern}'"
            )
        return list(dict.fromkeys(str(self._resolved(path)) for path in paths))

    def address(self, url: str) -> Address:
        """Return where a request for a URL may go."""
        shown = url[:200]
        if not url.isprintable() or " " in url or "\\" in url:
            raise _refused(f"'{shown!r}' holds characters that no URL has")
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").rstrip("."), parts.port
        except ValueError as error:
            raise _refused(f"'{shown}' is no URL: {error}") from error
        if parts.scheme not in _PORTS or not host or parts.username is not None:
            raise _refused(f"'{shown}' is not https://host/... without a user's name")
        port = port or _PORTS[parts.scheme]
        if (parts.scheme, host, port) not in {_entry(text) for text in self.hosts}:
            raise _refused(
                f"{parts.scheme}://{host}:{port} is none of the hosts that are allowed "
                f"({', '.join(self.hosts) or 'none'})"
            )
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return Address(parts.scheme, host, port, _public_ip(host, port), target)

    def _matching(
        self, folder: Path, parts: Sequence[str], seen: set[tuple[Path, tuple[str, ...]]]
    ) -> Iterator[Path]:
        """Yield what matches the parts of a pattern below a folder; a loop of links is walked once.

        As in `glob`, a part that does not begin with a dot matches no name that does.
        """
        key = (self._resolved(folder), tuple(parts))
        if not parts or key in seen:
            return
        seen.add(key)
        part, rest = parts[0], parts[1:]
        entries = [Path(entry) for entry in os.scandir(folder)]
        if part == "**":
            yield from self._matching(folder, rest or ("*",), seen)
            for entry in entries:
                if entry.is_dir() and not entry.name.startswith("."):
                    yield from self._matching(entry, parts, seen)
            return
        for entry in entries:
            is_shown = part.startswith(".") or not entry.name.startswith(".")
            if is_shown and fnmatch.fnmatchcase(entry.name, part):
                if not rest:
                    yield entry
                elif entry.is_dir():
                    yield from self._matching(entry, rest, seen)

    def _resolved(self, path: str | Path) -> Path:
        found = Path(os.path.realpath(path))
        if not any(found.is_relative_to(os.path.realpath(root)) for root in self.roots):
            raise InvalidInputError(
                "PROJSEG_OUTSIDE_ROOTS",
                f"{path} is below none of the reader's external_roots "
                f"({', '.join(self.roots) or 'none are set'}); allow its folder, also in {ROOTS}",
            )
        return found


def _regular(path: Path) -> str:
    """Refuse a pipe, whose other end may never write, and a device."""
    if path.exists() and not path.is_file():
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE", f"{path} is a directory, a pipe or a device; name a file"
        )
    return str(path)


def _setting(name: str, separator: str) -> Iterator[str]:
    return (text.strip() for text in os.environ.get(name, "").split(separator) if text.strip())


def _entry(text: str) -> tuple[str, str, int]:
    """Return the scheme, host and port that an entry of the allowed hosts is for."""
    scheme, mark, rest = text.rpartition("://")
    parts = urlsplit(f"//{rest}")
    found = scheme if mark else "https"
    return found, (parts.hostname or "").rstrip("."), parts.port or _PORTS.get(found, 0)


def _public_ip(host: str, port: int) -> str:
    """Return the address of a host; one that is not public must be what the host is written as."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE", f"host '{host}' cannot be looked up: {error}"
        ) from error
    addresses = [str(one[4][0]) for one in found]
    for text in addresses:
        if text != host and not _is_public(text):
            raise _refused(
                f"'{host}' is {text}, which is no public address; allow that address itself if it "
                "is right"
            )
    return addresses[0]


def _is_public(text: str) -> bool:
    """Whether an address is one of the public internet, also where it only wraps another."""
    own = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(own, ipaddress.IPv6Address):
        if any(own in network for network in _WRAPPING):
            own = ipaddress.IPv4Address(int(own) & 0xFFFF_FFFF)
        own = getattr(own, "ipv4_mapped", None) or getattr(own, "sixtofour", None) or own
    is_reserved = any(own in network for network in _RESERVED if network.version == own.version)
    return own.is_global and not own.is_multicast and not is_reserved


def _refused(problem: str) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_HOST_NOT_ALLOWED", f"{problem}; see the reader's external_hosts, or {HOSTS}"
    )


@contextmanager
def fetched(
    url: str, address: Address, headers: Mapping[str, str], user: tuple[str, str] | None
) -> Iterator[str]:
    """Yield the path of a temporary file that holds what a server sent.

    The connection goes to the address that was checked, whatever the name means by now. No
    redirect is followed, and no proxy of the environment is used.
    """
    require("urllib3", f"reading {url}")
    import urllib3

    host = address.host if ":" not in address.host else f"[{address.host}]"
    sent = {**headers, "Host": f"{host}:{address.port}", "Accept-Encoding": "identity"}
    if user is not None:
        sent |= urllib3.make_headers(basic_auth=":".join(user))
    timeout = urllib3.Timeout(connect=_SILENCE_SECONDS, read=_SILENCE_SECONDS)
    pool: urllib3.HTTPConnectionPool
    if address.scheme == "https":
        pool = urllib3.HTTPSConnectionPool(
            address.ip,
            address.port,
            timeout=timeout,
            server_hostname=address.host,
            assert_hostname=address.host,
        )
    else:
        pool = urllib3.HTTPConnectionPool(address.ip, address.port, timeout=timeout)
    with pool, tempfile.NamedTemporaryFile(prefix="projseg-", suffix=".part") as file:
        try:
            reply = pool.urlopen(
                "GET",
                address.target,
                headers=sent,
                retries=False,
                redirect=False,
                preload_content=False,
            )
            try:
                _check_status(url, reply)
                _save(url, reply, file)
            finally:
                reply.close()
        except urllib3.exceptions.HTTPError as error:
            raise _failed(url, str(error)) from error
        yield file.name


def _check_status(url: str, reply: urllib3.BaseHTTPResponse) -> None:
    if 300 <= reply.status < 400:
        raise InvalidInputError(
            "PROJSEG_HOST_NOT_ALLOWED",
            f"{url} answers with a redirect ({reply.status}), and none is followed; name the place "
            "itself",
        )
    if reply.status != 200:
        raise _failed(url, f"the server answers with status {reply.status}")


def _save(url: str, reply: urllib3.BaseHTTPResponse, file: IO[bytes]) -> None:
    deadline, count = time.monotonic() + FETCH_SECONDS_MAX, 0
    for chunk in reply.stream(_CHUNK_BYTES):
        count += file.write(chunk)
        if count > FETCH_BYTES_MAX or time.monotonic() > deadline:
            raise _failed(
                url, f"it takes over {FETCH_BYTES_MAX} bytes or {FETCH_SECONDS_MAX} seconds"
            )
    file.flush()


def _failed(url: str, problem: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_BAD_INPUT_FILE", f"{url} cannot be read: {problem}")


def check_location(location: str, roots: Sequence[str]) -> None:
    """Refuse a location that is not below a root, compared by parts as it is written."""
    found = _parts(location)
    for root in roots:
        own = _parts(root)
        if found is not None and own is not None and found[: len(own)] == own:
            return
    raise InvalidInputError(
        "PROJSEG_OUTSIDE_ROOTS", f"{location[:200]} is below none of the tenant's roots"
    )


def _parts(location: str) -> tuple[str, ...] | None:
    scheme, mark, rest = location.removeprefix("file://").rpartition("://")
    path = PurePosixPath(rest)
    strange = ("..", ".") if mark else ("..",)
    has_strange = any(part in strange or "%" in part or "\\" in part for part in path.parts)
    is_whole = bool(mark) or path.is_absolute()
    odd = any(letter in location for letter in "?#\0") or "@" in rest or not location.isprintable()
    return None if has_strange or not is_whole or odd else (scheme, *path.parts)
