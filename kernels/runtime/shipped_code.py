"""Compile kernels into the machine code that a wheel brings.

A build makes one file of the kernels and types of arguments in `shipped_kernels.json`, so that a
fresh machine compiles nothing before its first answers:

    python -m projseg.kernels.runtime.shipped_code make FILE

The list is what processes with an empty folder of kernels compiled; this adds to it:

    python -m projseg.kernels.runtime.shipped_code list FOLDER
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

import projseg.kernels
from projseg.kernels.runtime.cache_folder import SETTING
from projseg.kernels.runtime.kernel import Kernel
from projseg.kernels.runtime.stored_code import (
    ANY_LEVEL_3,
    LEVEL_3,
    SHIPPED_LIST,
    listed_kernels,
    shipped_name,
)

__all__ = ["make"]

_KEPT: Final = re.compile(r"(\w+\.\w+)-\d+\.([\w-]+)\.[0-9a-f]+\.code")


def kernels() -> dict[str, Kernel]:
    """Return all kernels by the names of the list."""
    package = projseg.kernels
    found = {}
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Kernel) and value.function.__module__ == module.name:
                found[_plain(value.name)] = value
    return found


def _plain(name: str) -> str:
    """Return a kernel's name without its line, which changes with the text above it."""
    return name.rpartition("-")[0]


def make(path: Path) -> int:
    """Compile what is listed into a file, and return how many kernels it holds.

    Numba must not have been imported in the process: it reads once for what it compiles.
    """
    features = ",".join(f"+{name}" for name in LEVEL_3.values())
    os.environ |= {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": features}
    known, contents = kernels(), dict[str, Any]()
    with TemporaryDirectory() as folder:
        os.environ[SETTING] = folder
        for name, listed in listed_kernels().items():
            contents |= _compiled(known[name], listed)
    path.write_bytes(msgspec.msgpack.encode(contents))
    return len(contents)


def _compiled(kernel: Kernel, listed: list[str]) -> Iterator[tuple[str, Any]]:
    # Imported here, because it imports Numba.
    from projseg.kernels.runtime.compiler import numba_type_of, stored_kernel

    dispatcher = kernel.compiled()
    for texts in listed:
        signature = tuple(map(numba_type_of, texts.split("-")))
        dispatcher.compile(signature)
        stored = stored_kernel(dispatcher.overloads[signature], kernel.stamp, ANY_LEVEL_3)
        if stored is not None:
            yield shipped_name(kernel.name, stored.arguments), stored


def add_to_list(folder: Path) -> None:
    """Add the stored kernels of a folder to the list."""
    found = {name: set(listed) for name, listed in listed_kernels().items()}
    for path in folder.rglob("*.code"):
        if match := _KEPT.fullmatch(path.name):
            found.setdefault(match[1], set()).add(match[2])
    ordered = {name: sorted(found[name]) for name in sorted(found)}
    SHIPPED_LIST.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    command, place = sys.argv[1:]
    if command == "make":
        print(f"{make(Path(place))} kernels in {place}")
    else:
        add_to_list(Path(place))
