"""Places that a reader allows definitions to name: folders, and hosts whose addresses are public.

A definition is somebody's text, and it is read with the rights of whoever reads it. So it reaches
nothing but what the reader's own settings name.
"""

from __future__ import annotations

import glob
import ipaddress
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from projseg.errors import InvalidInputError

ROOTS: Final = "PROJSEG_EXTERNAL_ROOTS"
HOSTS: Final = "PROJSEG_EXTERNAL_HOSTS"
_PORTS: Final = {"https": 443, "http": 80}
# An IPv4 address is the end of these: of translators (RFC 6052), and of the first days of IPv6.
_WRAPPING: Final = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::/96")))
# What some releases of Python take for public: protocols' own (some clouds tell secrets there),
# translators within a site, and sites.
_RESERVED: Final = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "64:ff9b:1::/48", "fec0::/10")))


class Address(NamedTuple):
    """A checked place of a web server.

    Parameters
    ----------
    scheme, host, port : str, str, int
        As the definition names them.
    ip : str
        What the name was looked up as, once; the connection goes there.
    target : str
        Path and query.
    """

    scheme: str
    host: str
    port: int
    ip: str
    target: str


@dataclass(frozen=True)
class AllowedPlaces:
    """What a reader lets definitions name.

    Parameters
    ----------
    roots : tuple of str
        Folders.
    hosts : tuple of str
        `host[:port]` for https, `http://host[:port]`.
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
        """Return the files that a definition names, each as its resolved path.

        Parameters
        ----------
        base : str
            An absolute folder.
        names : sequence of str or None
            Relative to it.
        pattern : str or None
            Where no names are given: which files below it; `**` stands for any folders.

        Raises
        ------
        InvalidInputError
            PROJSEG_OUTSIDE_ROOTS; PROJSEG_BAD_INPUT_FILE if there is no such file.
        """
        if not os.path.isabs(base) or "\0" in base:
            raise InvalidInputError(
                "PROJSEG_OUTSIDE_ROOTS",
                f"baseDir '{base[:200]}' is no absolute path of a folder on this machine",
            )
        folder = self._resolved(base)
        if names is None:
            found = glob.iglob(str(pattern), root_dir=folder, recursive=True)
            names = sorted(name for name in found if (folder / name).is_file())
            if not names:
                raise InvalidInputError(
                    "PROJSEG_BAD_INPUT_FILE", f"no file of {base} matches '{pattern}'"
                )
        return [str(self._resolved(folder / name)) for name in names]

    def address(self, url: str) -> Address:
        """Return where a request for a URL may go.

        Raises
        ------
        InvalidInputError
            PROJSEG_HOST_NOT_ALLOWED.
        """
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

    def _resolved(self, path: str | Path) -> Path:
        found = Path(os.path.realpath(path))
        if not any(found.is_relative_to(os.path.realpath(root)) for root in self.roots):
            raise InvalidInputError(
                "PROJSEG_OUTSIDE_ROOTS",
                f"{path} is below none of the reader's external_roots "
                f"({', '.join(self.roots) or 'none are set'}); allow its folder, also in {ROOTS}",
            )
        return found


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
