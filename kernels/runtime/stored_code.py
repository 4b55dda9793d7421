"""Run compiled kernels without Numba: their machine code is kept in files, and called from here.

Importing Numba and loading its first kernel takes longer than most queries over millions of rows. A
call through `ctypes` takes some microseconds more than Numba's own, so a process that has made many
of them imports Numba after all.

The files lie in the same folder as Numba's, which nobody else can write. A file holds the code for
one combination of argument types, made on this kind of processor from the sources that are there;
any other is no file to the reader. A wheel brings code of many kernels in one file beside this
module (`shipped_code`), for any processor of x86-64 at level 3; this code is used for kernels
without stored code.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import xxhash

from projseg.kernels.runtime.cache_folder import SETTING, cache_folder
from projseg.kernels.runtime.machine_code import (
    IMPORTED,
    KernelFailedError,
    MachineCode,
    c_types,
    c_values_of,
    result_layout,
)

FORM: Final = 1  # of the files
_CPU_FILE: Final = "/proc/cpuinfo"
_CPU_LINES: Final = ("vendor_id", "cpu family", "model", "stepping", "flags")
_NAME_BYTES_MAX: Final = 200
_SUCCESS: Final = (0, -2)  # Numba's statuses of a result, and of None
_PROT_READ_EXECUTE: Final = 5
_STAMP_BYTES: Final = 8
_WORD_BYTES: Final = 8

ANY_LEVEL_3: Final = 3
"""Stands for every processor with `LEVEL_3`."""
LEVEL_3: Final = {
    "abm": "lzcnt",
    "avx": "avx",
    "avx2": "avx2",
    "bmi1": "bmi",
    "bmi2": "bmi2",
    "cx16": "cx16",
    "f16c": "f16c",
    "fma": "fma",
    "lahf_lm": "sahf",
    "movbe": "movbe",
    "pni": "sse3",
    "popcnt": "popcnt",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "ssse3": "ssse3",
}
"""What x86-64-v3 has, as Linux names it, and LLVM."""
SHIPPED_FILE: Final = Path(__file__).with_name("shipped.code")
SHIPPED_LIST: Final = Path(__file__).with_name("shipped_kernels.json")


class StoredKernel(msgspec.Struct, frozen=True, array_like=True):
    """The content of a file: machine code, what it was made for and from, and its types.

    Types are written as by `type_of`; a kernel that returns None has no results.
    """

    form: int
    processor: int
    source: int
    arguments: list[str]
    results: list[str]
    is_tuple: bool
    code: MachineCode


def listed_kernels() -> dict[str, list[str]]:
    """Return types of arguments by the kernel's module and name, as `module.function`."""
    found: dict[str, list[str]] = json.loads(SHIPPED_LIST.read_text())
    return found


def may_run() -> bool:
    """Whether machine code may be kept and run here: Numba's settings would change it."""
    others = (name for name in os.environ if name.startswith("NUMBA_") and name != SETTING)
    return processor_stamp() is not None and next(others, None) is None


@cache
def processor_stamp() -> int | None:
    """Return a number that tells kinds of processors apart; None where they do not say."""
    lines = _cpu_lines()
    return (
        xxhash.xxh3_64_intdigest("\n".join(lines).encode())
        if len(lines) >= len(_CPU_LINES)
        else None
    )


@cache
def _cpu_lines() -> list[str]:
    """Return Linux's lines about the first processor."""
    try:
        with open(_CPU_FILE) as file:
            first = file.read(1 << 13).split("\n\n")[0]
    except OSError:
        return []
    return [line for line in first.splitlines() if line.startswith(_CPU_LINES)]


def store(kernel: StoredKernel, name: str) -> None:
    """Keep a kernel's code for later processes, or raise OSError."""
    path = _path(name, kernel.arguments)
    if path is None:
        return
    content = msgspec.msgpack.encode(kernel)
    stamp = xxhash.xxh3_64_digest(content)
    made = path.with_name(f"{path.name}.{os.getpid()}")
    made.write_bytes(stamp + content)
    os.replace(made, path)


def load(name: str, arguments: list[str], source: int) -> Callable[..., Any] | None:
    """Return a kernel for arguments of these types, of `type_of`; None if none on disk fits."""
    path = _path(name, arguments)
    kernel = (None if path is None else _read(path, source)) or _shipped(name, arguments, source)
    address = None if kernel is None else _placed(kernel.code)
    return None if kernel is None or address is None else _callable(kernel, address)


def _path(name: str, arguments: list[str]) -> Path | None:
    folder = cache_folder()
    file = f"{name}.{'-'.join(arguments)}.{processor_stamp():x}.code"
    return folder / file if folder is not None and len(file) <= _NAME_BYTES_MAX else None


def shipped_name(name: str, arguments: list[str]) -> str:
    """Return the key in `SHIPPED_FILE` of a kernel for some types of arguments."""
    return f"{name}.{'-'.join(arguments)}"


def _shipped(name: str, arguments: list[str], source: int) -> StoredKernel | None:
    """Return a kernel that the install brought, if it fits this processor and these sources."""
    content = brought().get(shipped_name(name, arguments))
    return None if content is None else _decoded(content, ANY_LEVEL_3, source)


@cache
def brought() -> dict[str, msgspec.Raw]:
    """Return the kernels that the install brought for this processor, by `shipped_name`."""
    flags = next((line for line in _cpu_lines() if line.startswith("flags")), "")
    try:
        content = SHIPPED_FILE.read_bytes() if LEVEL_3.keys() <= set(flags.split()) else b"\x80"
        return msgspec.msgpack.decode(content, type=dict[str, msgspec.Raw])
    except (OSError, msgspec.MsgspecError):
        return {}


def _read(path: Path, source: int) -> StoredKernel | None:
    """Return the kernel in a file if it fits this processor and these sources."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    stamp, rest = content[:_STAMP_BYTES], content[_STAMP_BYTES:]
    if xxhash.xxh3_64_digest(rest) != stamp:  # cut short
        return None
    return _decoded(rest, processor_stamp(), source)


def _decoded(
    content: bytes | msgspec.Raw, processor: int | None, source: int
) -> StoredKernel | None:
    try:
        kernel = msgspec.msgpack.decode(content, type=StoredKernel)
    except msgspec.MsgspecError:
        return None
    wanted = (FORM, processor, source)
    return kernel if (kernel.form, kernel.processor, kernel.source) == wanted else None


def _placed(code: MachineCode) -> int | None:
    """Put code into memory; return its entry's address, or None if the system runs no such code."""
    library = ctypes.CDLL(None)
    functions = {name: _address(library, name) for _, name in code.imports}
    if not all(functions.values()):
        return None
    memory = mmap.mmap(-1, len(code.image), prot=mmap.PROT_READ | mmap.PROT_WRITE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    image = bytearray(code.image)
    for place in code.places:
        word = int.from_bytes(image[place : place + 8], "little") + base
        image[place : place + 8] = word.to_bytes(8, "little")
    for place, name in code.imports:
        image[place : place + 8] = functions[name].to_bytes(8, "little")
    memory[:] = bytes(image)
    page = mmap.PAGESIZE
    size = ctypes.c_size_t(-(-len(code.image) // page) * page)
    if library.mprotect(ctypes.c_void_p(base), size, _PROT_READ_EXECUTE) != 0:
        return None
    # A thread may be in the code while the interpreter ends and frees all objects.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
    return base + code.entry


def _address(library: ctypes.CDLL, name: str) -> int:
    """Return where a function of the C library is; 0 if there is none of that name here."""
    function = getattr(library, name, None) if name in IMPORTED else None
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


def _callable(kernel: StoredKernel, address: int) -> Callable[..., Any]:
    argument_types = [one for text in kernel.arguments for one in c_types(text)]
    # A prototype of this kind gives back the interpreter's lock during the call.
    pointer = ctypes.c_void_p
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, *argument_types)
    function = prototype(address)
    layout = result_layout(kernel.results)
    # The first word is for the address of an error, what follows for the results.
    returned_type = ctypes.c_char * (_WORD_BYTES + layout.size)
    converters = [c_values_of(text) for text in kernel.arguments]

    def call(*arguments: Any) -> Any:
        returned = returned_type()
        start = ctypes.addressof(returned)
        values: list[Any] = []
        for convert, argument in zip(converters, arguments, strict=True):
            values += convert(argument)
        if function(start + _WORD_BYTES, start, *values) not in _SUCCESS:
            raise KernelFailedError
        if layout.size == 0:
            return None
        found = layout.unpack_from(returned, _WORD_BYTES)
        return found if kernel.is_tuple else found[0]

    return call
