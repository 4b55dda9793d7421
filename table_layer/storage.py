"""The seam between a table and where it lives: `open_storage(location)`."""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import unquote, urlsplit

from projseg.errors import InvalidInputError, UnsupportedFeatureError
from projseg.table_layer.local_storage import LocalStorage
from projseg.table_layer.storage_contract import (
    PutNotDurableError,
    PutOutcomeUnknownError,
    SegmentSink,
    Storage,
    StoredFile,
)

__all__ = [
    "PutNotDurableError",
    "PutOutcomeUnknownError",
    "SegmentSink",
    "Storage",
    "StoredFile",
    "open_storage",
]

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def open_storage(location: str | os.PathLike[str]) -> Storage:
    """Return the storage of a location: a path or a `file:` URI. Touches nothing.

    Raises
    ------
    InvalidInputError
        If the location is empty, holds a NUL, or names another host.
    UnsupportedFeatureError
        If it has a scheme that this release does not read.
    """
    text = os.fspath(location)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise InvalidInputError(
            "PROJSEG_BAD_LOCATION", f"{text!r} is not a location; give a path or a file: URI"
        )
    scheme = _SCHEME.match(text)
    if scheme is None:
        return LocalStorage(os.path.abspath(text))
    if scheme[1].lower() != "file":
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_STORAGE",
            f"location {text!r} has scheme '{scheme[1]}'; this release reads paths and file: URIs",
        )
    return LocalStorage(_path_of_uri(text))


def is_uri(location: str) -> bool:
    """Return whether a location begins with a scheme, so that `#` ends its path."""
    return _SCHEME.match(location) is not None


def _path_of_uri(text: str) -> str:
    parts = urlsplit(text)
    path = unquote(parts.path)
    is_local = parts.netloc in ("", "localhost") and not parts.query and not parts.fragment
    if not is_local or not path.startswith("/") or "\0" in path:
        raise InvalidInputError(
            "PROJSEG_BAD_LOCATION",
            f"{text!r} is not a file: URI of this machine; write file:///absolute/path",
        )
    return os.path.abspath(path)
