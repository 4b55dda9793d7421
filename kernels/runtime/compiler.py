"""Kernels compiled by Numba, without the global lock and kept on disk, and their machine code."""

from __future__ import annotations

import hashlib
import logging
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import count
from typing import Any, Final

import numpy as np
import numpy.ma  # by Numba at its first call otherwise, when a fork may happen
from numba import njit, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic
from numba.np.numpy_support import as_dtype, from_dtype

from projseg.kernels.runtime.cache_folder import cache_folder
from projseg.kernels.runtime.machine_code import NONE, machine_code
from projseg.kernels.runtime.stored_code import (
    FORM,
    StoredKernel,
    listed_kernels,
    may_run,
    processor_stamp,
    store,
)
from projseg.memory.forks import hold_while_forking

_WORD_BITS: Final = 64


def stored_kernel(compiled: Any, source: int, processor: int | None) -> StoredKernel | None:
    """Return a Numba `CompileResult` in the form that files hold; None if only Numba can run it.

    `source` is the stamp of its sources, `processor` where it runs.
    """
    signature = compiled.signature
    arguments = [text_of(one) for one in signature.args]
    results = _results(signature.return_type)
    texts = [text for text in arguments if text is not None]
    if processor is None or results is None or len(texts) < len(arguments):
        return None
    content = compiled.library._get_compiled_object()  # noqa: SLF001 - Numba has no other way
    code = machine_code(content, compiled.fndesc.llvm_func_name)
    if code is None:
        return None
    is_tuple = isinstance(signature.return_type, types.BaseTuple)
    return StoredKernel(FORM, processor, source, texts, results, is_tuple, code)


def text_of(numba_type: Any) -> str | None:
    """Return a type as `type_of` writes it of a value of the type."""
    if isinstance(numba_type, types.Array):
        if not numba_type.aligned:
            return None
        dtype = as_dtype(numba_type.dtype)
        suffix = "" if numba_type.mutable else "r"
        return f"{dtype.kind}{dtype.itemsize}{numba_type.layout}{numba_type.ndim}{suffix}"
    if isinstance(numba_type, types.NoneType):
        return NONE
    if type(numba_type) in (types.Integer, types.Float, types.Boolean):
        dtype = as_dtype(numba_type)
        return f"s{dtype.kind}{dtype.itemsize}"
    return None


def numba_type_of(text: str) -> Any:
    """Return the type from its text, which `text_of` made."""
    if text == NONE:
        return types.none
    if text.startswith("s"):
        return from_dtype(np.dtype(text[1:]))
    plain = text.removesuffix("r")
    layout: Any = plain[2]
    item = from_dtype(np.dtype(plain[:2]))
    return types.Array(item, int(plain[3:]), layout, readonly=plain != text)


def _results(numba_type: Any) -> list[str] | None:
    """Return the types of the results: none, one scalar, or a tuple of whole words."""
    if isinstance(numba_type, types.NoneType):
        return []
    if not isinstance(numba_type, types.BaseTuple):
        text = None if isinstance(numba_type, types.Array) else text_of(numba_type)
        return None if text is None else [text]
    items: Any = numba_type
    texts = [text_of(one) for one in items if getattr(one, "bitwidth", None) == _WORD_BITS]
    found = [text for text in texts if text is not None]
    return found if len(found) == len(items) else None


__all__ = ["compiled", "intrinsic"]

LOGGER: Final = logging.getLogger("projseg")

# A child forked while another thread compiles or loads a kernel could never do so itself.
hold_while_forking(global_compiler_lock)


def compiled(function: Callable[..., Any], *, is_inlined: bool, name: str, source: int) -> Any:
    """Return a callable that compiles the function once for each signature it is called with.

    `name` and `source`, the stamp of its sources, identify its machine code on disk; an inlined
    function is compiled into each that calls it.
    """
    options: Any = {"inline": "always"} if is_inlined else {}
    dispatcher: Any = njit(nogil=True, **options)(function)
    # Numba's own cache would take a folder that others can write.
    if cache_folder() is not None:
        cache = _KernelCache(dispatcher.py_func, name, source)
        dispatcher._cache = cache  # noqa: SLF001 - Numba has no other way
    return dispatcher


@cache
def _numbers_of_kernels() -> tuple[Iterator[int], int]:
    """Return a counter of kernels that starts at the stored ones, and their approximate total."""
    folder = cache_folder()
    kept = 0 if folder is None else len(list(folder.glob("**/*.nbi")))
    return count(kept + 1), len(listed_kernels())


def _show_compiling() -> None:
    """Say on a terminal what is waited for; what is compiled wipes it out."""
    numbers, usual = _numbers_of_kernels()
    number = next(numbers)
    _on_terminal(f"\rcompiling kernels (once per machine): {number} of {max(number, usual)}\x1b[K")


def _on_terminal(text: str) -> None:
    """Write to standard error itself, if it is a terminal."""
    screen = sys.__stderr__
    with suppress(OSError, ValueError):  # it may be closed
        if screen is not None and screen.isatty():
            screen.write(text)
            screen.flush()


class _Locator:
    """Tells Numba where a kernel is kept, and how to tell versions of its source apart."""

    def __init__(self, function: Callable[..., Any], source: str) -> None:
        self._line = function.__code__.co_firstlineno
        self._stamp = _digest(function.__module__)
        self._py_file = source  # named in Numba's warning about what it cannot keep

    @classmethod
    def from_function(cls, function: Callable[..., Any], source: str) -> _Locator:
        """Return the locator of a function of a module."""
        return cls(function, source)

    def get_cache_path(self) -> str:
        """Return the folder."""
        return str(cache_folder())

    def get_source_stamp(self) -> bytes:
        """Return a value that changes with the module's source."""
        return self._stamp

    def get_disambiguator(self) -> str:
        """Return a text that tells functions of the same name in a module apart."""
        return str(self._line)

    def ensure_cache_path(self) -> None:
        """Do nothing: `cache_folder` made the folder."""


@cache
def _digest(module: str) -> bytes:
    package, _, name = module.rpartition(".")
    source = pkgutil.get_data(package, f"{name}.py")  # reads zip archives, too
    return hashlib.sha256(source or b"").digest()


class _KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes: list[type[object]] = [_Locator]  # noqa: RUF012 - Numba's own declaration


class _KernelCache(FunctionCache):
    """A cache whose faults fail no query: with a full disk or a torn file, kernels are compiled."""

    _impl_class = _KernelCacheImpl

    def __init__(self, function: Callable[..., Any], name: str, source: int) -> None:
        super().__init__(function)
        self._code_name, self._code_source = name, source

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the kernel compiled for the types `sig`, or None if it is not to be had.

        Numba would first load all that compiling needs, a quarter of a second of modules; what is
        compiled already needs the run-time system alone.
        """
        try:
            rtsys.initialize(target_context)
            found = self._load_overload(sig, target_context)
            if found is None:
                LOGGER.info("kernel %s is compiled, for this machine's first time", self._name)
                _show_compiling()
            return found
        except Exception as error:  # noqa: BLE001 - bytes cut short break pickle in any way
            LOGGER.info("kernel %s is compiled anew: %s", self._name, error)
            self._guarded(self.flush)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel, if that is possible."""
        _on_terminal("\r\x1b[K")
        self._guarded(lambda: super(_KernelCache, self).save_overload(sig, data))
        self._guarded(lambda: self._store(data))

    def _store(self, compiled: Any) -> None:
        """Keep its machine code for processes that do without Numba."""
        kernel = (
            stored_kernel(compiled, self._code_source, processor_stamp()) if may_run() else None
        )
        if kernel is not None:
            store(kernel, self._code_name)

    def _guarded(self, change: Callable[[], None]) -> None:
        try:
            change()
        except OSError as error:
            LOGGER.info("kernel %s is not kept: %s", self._name, error)
