"""Connections to object stores through obstore, kept for the process; their failures in words.

A message says what was asked, what is wrong, and what to do.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from projseg.errors import InvalidInputError, StorageError, did_you_mean
from projseg.extras import require
from projseg.table_layer.storage.store_location import StorageOptions, StoreLocation

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

_STATUS: Final = re.compile(r"non-2xx status code: (\d{3})")
_NOT_SENT: Final = re.compile(r"kind: Connect|kind: Builder")
_TIMEOUTS: Final = frozenset({408, 499})
_NOT_IMPLEMENTED: Final = 501
_NO_ANSWER: Final = re.compile(r"HTTP error|kind: Connect|[Tt]imeout|timed out")
_METADATA_SERVICE: Final = re.compile(r"169\.254\.|metadata\.google\.internal")
_DENIALS: Final = ("PermissionDeniedError", "UnauthenticatedError")
_NO_BUCKET: Final = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist")

Result = TypeVar("Result")

_CLIENTS_MAX: Final = 32
_RETRIES: Final = 6
_RETRY_SECONDS_MAX: Final = 60
_FIRST_BACKOFF: Final = timedelta(milliseconds=100)
_LONGEST_BACKOFF: Final = timedelta(seconds=3)

_CLIENT_KEYS: Final = (
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "default_content_type",
    "http1_only",
    "http2_keep_alive_interval",
    "http2_keep_alive_timeout",
    "http2_keep_alive_while_idle",
    "http2_only",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "randomize_addresses",
    "read_timeout",
    "root_certificate",
    "timeout",
    "user_agent",
)
"""Storage options about the connection; obstore takes them apart from those about the store."""

_OF_LOCATION: Final = ("bucket", "bucket_name", "container", "container_name")
_PROVIDER: Final = re.compile("aws_|azure_|google_")

_used_by: int | None = None

_KNOWN: Final = (
    *_CLIENT_KEYS,
    "access_key_id",
    "account_key",
    "account_name",
    "endpoint",
    "region",
    "secret_access_key",
    "session_token",
    "service_account",
    "service_account_key",
    "skip_signature",
    "virtual_hosted_style_request",
)


def is_store_option(key: str) -> bool:
    """Whether a key is one of the options of stores."""
    return _PROVIDER.sub("", key) in _KNOWN


class _Meaning(NamedTuple):
    code: str
    problem: str
    remedy: str


_DENIED: Final = _Meaning(
    "PROJSEG_NO_PERMISSION",
    "the store denies access",
    "check the credentials and what they may do there",
)
_NO_CREDENTIALS: Final = _Meaning(
    "PROJSEG_NO_CREDENTIALS",
    "no credentials were found",
    "give them as storage options (such as access_key_id and secret_access_key), in the "
    "environment (AWS_ACCESS_KEY_ID), or skip_signature=true for public data",
)
_MISSING: Final = _Meaning(
    "PROJSEG_NO_SUCH_BUCKET",
    "there is no such bucket or container",
    "create it, or check its name, region and endpoint",
)
_UNREACHABLE: Final = _Meaning(
    "PROJSEG_STORE_UNREACHABLE",
    "the store does not answer",
    "check the endpoint, the region and the network, and try again",
)
_NO_CONDITION: Final = _Meaning(
    "PROJSEG_STORAGE_NOT_ATOMIC",
    "the store does not know how to create a file only if it is absent (If-None-Match)",
    "tables there would lose commits: use another store",
)
_PLAIN_HTTP: Final = _Meaning(
    "PROJSEG_BAD_STORAGE_OPTION",
    "the endpoint is not https",
    "give storage option allow_http=true, or AWS_ALLOW_HTTP=true, if that is meant",
)


class StoreClient(NamedTuple):
    """Two connections to one place: `patient` repeats failed requests, `strict` does not."""

    patient: ObjectStore
    strict: ObjectStore


def client_of(location: StoreLocation, options: StorageOptions) -> StoreClient:
    """Return the process's connections to a place."""
    global _used_by
    if _used_by not in (None, os.getpid()):
        raise StorageError(
            "PROJSEG_FORKED_PROCESS",
            f"cannot use {location}: this process was forked from one that had used an object "
            "store, whose connections it cannot share; start processes by 'spawn' or 'forkserver'",
        )
    environment = frozenset(item for item in os.environ.items() if _PROVIDER.match(item[0].lower()))
    found = _new_client(location, options, environment)
    _used_by = os.getpid()
    return found


@lru_cache(_CLIENTS_MAX)
def _new_client(
    location: StoreLocation, options: StorageOptions, environment: frozenset[tuple[str, str]]
) -> StoreClient:
    """Return new connections; obstore reads the environment, which is only named to be compared."""
    require("obstore", f"location {location}")
    # Imported here: only what opens a store pays for it, and it need not be installed.
    from obstore.store import from_url

    config: dict[str, Any] = {}
    # Given connection options, obstore forgets the environment's.
    connection: dict[str, Any] = {
        bare: value
        for name, value in environment
        if (bare := _PROVIDER.sub("", name.lower())) in _CLIENT_KEYS
    }
    for key, value in options.items():
        bare = _PROVIDER.sub("", key)
        if bare in _OF_LOCATION:
            raise InvalidInputError(
                "PROJSEG_BAD_STORAGE_OPTION",
                f"storage option '{key}' contradicts {location}, which names the bucket or "
                "container itself; leave it out",
            )
        if bare in _CLIENT_KEYS:
            connection[bare] = value
        else:
            config[key] = value
    patient: RetryConfig = {
        "max_retries": _RETRIES,
        "retry_timeout": timedelta(seconds=_RETRY_SECONDS_MAX),
        "backoff": {"init_backoff": _FIRST_BACKOFF, "max_backoff": _LONGEST_BACKOFF, "base": 2},
    }
    strict: RetryConfig = {**patient, "max_retries": 0}
    open_url: Any = from_url  # its signature tells each store's options apart, which are not known
    failure: InvalidInputError
    try:
        patient_store, strict_store = (
            open_url(
                location.url, config=config, client_options=connection or None, retry_config=retry
            )
            for retry in (patient, strict)
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, its text may hold a value
        failure = _refused(error, location, options)
    else:
        return StoreClient(patient_store, strict_store)
    raise failure


def _refused(
    error: Exception, location: StoreLocation, options: StorageOptions
) -> InvalidInputError:
    kind, text = type(error).__name__, str(error)
    if kind == "UnknownConfigurationKeyError":
        unknown = next((key for key in options if f"'{key}'" in text), "")
        problem = f"storage option '{unknown}' is not one of obstore's for {location.scheme}://"
        remedy = did_you_mean(unknown, _KNOWN) or "; see docs/object-stores.md"
    elif "Account must be specified" in text:
        problem, remedy = f"{location} names no account", "; give storage option account_name"
    else:
        keys = ", ".join(options) or "the environment"
        problem = f"{location} cannot be opened: a value of {keys} is not what it must be"
        remedy = "; see docs/object-stores.md"
    return InvalidInputError("PROJSEG_BAD_STORAGE_OPTION", problem + remedy)


def requested(action: str, where: str, request: Callable[[], Result]) -> Result:
    """Return the result of a request."""
    from obstore.exceptions import BaseError

    failure: OSError
    try:
        return request()
    except BaseException as error:
        # A panic of the store's client, as over an endpoint that is no address, is no Exception.
        is_failure = isinstance(error, BaseError | OSError | ValueError)
        if not is_failure and type(error).__name__ != "PanicException":
            raise
        if isinstance(error, FileNotFoundError) and not _is_missing_bucket(error):
            failure = FileNotFoundError(errno.ENOENT, "there is no such object", where)
        else:
            failure = store_error(error, action, where)
    raise failure  # outside, so that the store's own text is no part of it


def was_refused(error: BaseException) -> bool:
    """Whether a failed request certainly had no effect: it was not sent, or it was refused."""
    status = status_of(error)
    if status is None:
        return _NOT_SENT.search(str(error)) is not None
    return status not in _TIMEOUTS and (status < 500 or status == _NOT_IMPLEMENTED)


def _is_missing_bucket(error: BaseException) -> bool:
    """Whether a failure says that the bucket or container is not there."""
    return _NO_BUCKET.search(str(error)) is not None


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that a failure tells, or None."""
    found = _STATUS.search(str(error))
    return None if found is None else int(found[1])


def store_error(error: BaseException, action: str, where: str) -> StorageError:
    """Return the error of a failed request, in a user's words and without the store's.

    `where` is the file or table, as the user would name it.
    """
    code, problem, remedy = _meaning(error)
    return StorageError(code, f"cannot {action} {where}: {problem}; {remedy}")


def _meaning(error: BaseException) -> _Meaning:
    text, status, kind = str(error), status_of(error), type(error).__name__
    signs = (
        (_DENIED, kind in _DENIALS or status in (401, 403)),
        (_NO_CREDENTIALS, _METADATA_SERVICE.search(text) is not None),
        (_MISSING, _is_missing_bucket(error) or isinstance(error, FileNotFoundError)),
        (_NO_CONDITION, kind == "NotSupportedError" or status == _NOT_IMPLEMENTED),
        (_PLAIN_HTTP, "BadScheme" in text),
        (_UNREACHABLE, _NO_ANSWER.search(text) is not None),
    )
    for meaning, applies in signs:
        if applies:
            return meaning
    problem = f"the request failed ({kind})"
    if status is not None:
        problem = f"the store answered with status {status}"
    return _Meaning("PROJSEG_STORAGE_FAILED", problem, "try again when the store works")
