"""Connections to object stores through obstore, kept for the process.

Two for each store: one repeats what fails, the other tells of every failure. Conditional puts need
the second: after a lost answer, a repetition would meet the object of the first attempt and report
it as another writer's.
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
from projseg.table_layer.storage.store_errors import is_missing_bucket, store_error
from projseg.table_layer.storage.store_location import StorageOptions, StoreLocation

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

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


class StoreClient(NamedTuple):
    """Two connections to one place: `patient` repeats failed requests, `strict` does not."""

    patient: ObjectStore
    strict: ObjectStore


def client_of(location: StoreLocation, options: StorageOptions) -> StoreClient:
    """Return the process's connections to a place.

    Raises
    ------
    MissingPackageError
        PROJSEG_MISSING_PACKAGE if obstore is not installed.
    InvalidInputError
        PROJSEG_BAD_STORAGE_OPTION.
    StorageError
        PROJSEG_FORKED_PROCESS if the process was forked from one that had used a store.
    """
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


def requested(action: str, where: str, request: Callable[[], Result]) -> Result:
    """Return what a request returns.

    Parameters
    ----------
    action, where
        As `store_error` takes them.
    request : callable
        Calls obstore.

    Raises
    ------
    FileNotFoundError
        If there is no such object in a bucket that is there.
    StorageError
        For any other failure.
    """
    from obstore.exceptions import BaseError

    failure: OSError
    try:
        return request()
    except BaseException as error:
        # A panic of the store's client, as over an endpoint that is no address, is no Exception.
        is_failure = isinstance(error, BaseError | OSError | ValueError)
        if not is_failure and type(error).__name__ != "PanicException":
            raise
        if isinstance(error, FileNotFoundError) and not is_missing_bucket(error):
            failure = FileNotFoundError(errno.ENOENT, "there is no such object", where)
        else:
            failure = store_error(error, action, where)
    raise failure  # outside, so that the store's own text is no part of it
