"""Files of web servers, fetched from checked addresses into temporary files."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Final

import urllib3

from projseg.catalog.external.allowed_places import Address
from projseg.errors import InvalidInputError

FETCH_BYTES_MAX: Final = 4 << 30
FETCH_SECONDS_MAX: Final = 600
_SILENCE_SECONDS: Final = 30
_CHUNK_BYTES: Final = 1 << 20


@contextmanager
def fetched(
    url: str, address: Address, headers: Mapping[str, str], user: tuple[str, str] | None
) -> Iterator[str]:
    """Yield the path of a temporary file that holds what a server sent.

    The connection goes to the address that was checked, whatever the name means by now. No
    redirect is followed, and no proxy of the environment is used.

    Parameters
    ----------
    url : str
        For messages.
    address : Address
        Of `AllowedPlaces.address`.
    headers : mapping of str to str
        Of the request.
    user : pair of str or None
        Name and password.

    Raises
    ------
    InvalidInputError
        PROJSEG_HOST_NOT_ALLOWED for a redirect; PROJSEG_BAD_INPUT_FILE for another failure.
    """
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
