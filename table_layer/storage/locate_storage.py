"""The seam between a table and where it lives: `open_storage(location)`."""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import unquote, urlsplit

from projseg.errors import InvalidInputError, UnsupportedFeatureError
from projseg.table_layer.storage.local_storage import LocalStorage
from projseg.table_layer.storage.source_options import split_options, with_source_options
from projseg.table_layer.storage.storage_contract import Storage
from projseg.table_layer.storage.store_location import (
    STORE_SCHEMES,
    StorageOptions,
    StorageOptionsLike,
    parse_store_location,
)

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def open_storage(
    location: str | os.PathLike[str], options: StorageOptionsLike | None = None
) -> Storage:
    """Return the storage of a location: a path, a `file:` URI, or a prefix of an object store.

    Options that begin with `source.` are those of the source of a foreign table. Touches nothing.
    """
    known, of_source = split_options(options)
    found = _open(location, known)
    return found if of_source is None else with_source_options(found, of_source)


def _open(location: str | os.PathLike[str], known: StorageOptions) -> Storage:
    text = os.fspath(location) if isinstance(location, str | os.PathLike) else location
    if not isinstance(text, str) or not text.strip() or "\0" in text or not _is_path(text):
        raise InvalidInputError(
            "PROJSEG_BAD_LOCATION", f"{text!r} is not a location; give a path or a URI"
        )
    found = _SCHEME.match(text)
    scheme = None if found is None else found[1].lower()
    if scheme in STORE_SCHEMES:
        # Imported here: tables in folders do without what an object store needs.
        from projseg.table_layer.storage.object_storage import ObjectStorage

        storage = ObjectStorage(parse_store_location(text), known)
        storage.check_options()
        return storage
    if known:
        raise InvalidInputError(
            "PROJSEG_BAD_STORAGE_OPTION",
            f"storage option '{next(iter(known))}' has no meaning for {text}, which is no object "
            "store; leave it out",
        )
    if scheme not in (None, "file"):
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_STORAGE",
            f"location {text!r} has scheme '{scheme}'; this release reads paths, file: URIs and "
            f"the stores {', '.join(STORE_SCHEMES)}",
        )
    return LocalStorage(os.path.abspath(text) if scheme is None else path_of_uri(text))


def storage_beside(storage: Storage, location: str) -> Storage:
    """Return the storage of a location that another table names, with that table's options.

    They are those of one bucket: no other is sent them.
    """
    options = getattr(storage, "options", None)
    is_near = location.split("/")[:3] == storage.location.split("/")[:3]
    return open_storage(location, options if options is not None and is_near else None)


def _is_path(text: str) -> bool:
    """Whether the file system can be asked for a text: for most halves of characters it cannot."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def is_uri(location: str) -> bool:
    """Return whether a location begins with a scheme, so that `#` ends its path."""
    return _SCHEME.match(location) is not None


def path_of_uri(text: str) -> str:
    """Return the path of a `file:` URI of this machine."""
    parts = urlsplit(text)
    path = unquote(parts.path)
    is_local = parts.netloc in ("", "localhost") and not parts.query and not parts.fragment
    if not is_local or not path.startswith("/") or "\0" in path:
        raise InvalidInputError(
            "PROJSEG_BAD_LOCATION",
            f"{text!r} is not a file: URI of this machine; write file:///absolute/path",
        )
    return os.path.abspath(path)
