"""Where compiled kernels are kept for the next process: in a folder that nobody else can write.

Numba keeps them as pickles, and reading a pickle can run any code. So kernels are not kept directly
in a shared place but in a folder of this user within it; if that cannot be made, they are not kept.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import xxhash

from projseg import __version__

SETTING: Final = "NUMBA_CACHE_DIR"
LOGGER: Final = logging.getLogger("projseg")
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


@cache
def cache_folder() -> Path | None:
    """Return the folder, made if it was absent, or None if compiled kernels cannot be kept.

    It is looked for once in each process: in NUMBA_CACHE_DIR, in the user's cache and in the
    system's temporary directory. Places that cannot be used are logged. It is not inside the
    package, because no part of the package may remain importable after it is uninstalled.
    """
    named = os.environ.get(SETTING)
    if named:
        try:
            return _private_folder(Path(named))
        except OSError as error:
            LOGGER.warning("kernels cannot be kept in %s=%s: %s", SETTING, named, error)
    for base in _usual_places():
        try:
            folder = _private_folder(base)
            _refuse_strange_owners(folder)
        except OSError:
            continue
        return folder
    LOGGER.warning(
        "compiled kernels cannot be kept, so each process compiles them anew, which can take a "
        "minute; set %s to a directory that this user can write",
        SETTING,
    )
    return None


def _usual_places() -> Iterator[Path]:
    user_cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(user_cache):  # a user without an entry in passwd has no home: still "~/.cache"
        yield Path(user_cache)
    try:
        yield Path(tempfile.gettempdir())
    except FileNotFoundError:
        return


def _private_folder(base: Path) -> Path:
    """Return this user's folder within `base`; raise OSError unless they alone can write there.

    Its name contains projseg's release, because Numba does not notice changes of kernels that a
    kernel calls, and Numba's, because one release overwrites the files of another; and the place of
    the install, as two installs overwrite each other's too.
    """
    user = os.geteuid()
    folder = base / f"projseg-{__version__}-numba-{_numba_version()}-{user}{_install()}"
    for path in (*reversed(base.parents), base, folder):
        if not path.exists():
            path.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} is not a directory")
    if found.st_uid != user or found.st_mode & _WRITABLE_BY_OTHERS:
        raise PermissionError(f"{folder} is not this user's alone")
    tempfile.TemporaryFile(dir=folder).close()  # a read-only file system shows itself only so
    return folder.resolve()


def _install() -> str:
    """Return what tells this install from others, or nothing of an archive, which moves about."""
    place = Path(__file__).resolve().parents[1]
    return f"-{xxhash.xxh3_64_hexdigest(os.fsencode(place))[:8]}" if place.is_dir() else ""


def _numba_version() -> str:
    """Return Numba's release, read from its files where they are as usual: importing it is slow."""
    spec = None if "numba" in sys.modules else find_spec("numba")
    if spec is not None and spec.origin is not None:
        with suppress(OSError, UnicodeDecodeError):
            text = (Path(spec.origin).parent / "_version.py").read_text("utf-8")
            if found := re.search(r'"version": "([^"]+)"', text):
                return found[1]
    # Imported here, because few processes get here.
    from numba import __version__ as numba_version

    return str(numba_version)


def _refuse_strange_owners(folder: Path) -> None:
    """Raise PermissionError if a parent of the folder belongs to neither this user nor root.

    Its owner could replace the folder by one of their own.
    """
    for parent in folder.parents:
        if parent.stat().st_uid not in (0, os.geteuid()):
            raise PermissionError(f"{parent} belongs to another user")
