"""Kernels: functions of arrays that Numba compiles at their first call over many values.

Importing Numba and loading the first compiled kernels takes longer than most queries. So what Numba
compiled is also kept as machine code, which a process that has made few calls runs without it
(`stored_code`). Where no such code is kept yet, kernels that are marked as `interpretable` run as
the Python they are written in until the process has spent a part of the time of that import on it.

Where the system lets no process make memory executable, all run as Python, slowly.

Numba compiles a kernel for each combination of types at its first use on a machine, which takes
longer than thousands of queries over few rows. So few rows are widened to one of few types, in
microseconds; many rows stay narrow, because reading memory would take longer.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from types import FunctionType
from typing import Any, Final, TypeAlias, TypeVar, overload

import numpy as np
import xxhash
from numpy.typing import NDArray

from projseg.errors import UnsupportedFeatureError
from projseg.kernels.runtime.machine_code import KernelFailedError, TypeKey, type_key, type_of
from projseg.memory.forks import cached_property, hold_while_forking

FEW_ROWS = 1 << 14  # tests of narrow kernels set it to 0
CALLS_BEFORE_NUMBA: Final = 20_000
"""Of all kernels; each is up to ten microseconds slower than by Numba, which is then loaded."""
_INTERPRETED_VALUES_MAX: Final = 300_000  # values of all calls together, at 0.4 us each
# Machine code of a kernel is loaded in the time of interpreting so many values.
_VALUES_TO_LOAD_FOR: Final = 1_000
_IS_INTERPRETER_WANTED: Final = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
_STAMP_FACTOR: Final = 0x9E3779B97F4A7C15
_STAMP_MAX: Final = 2**64 - 1
_LOGGER: Final = logging.getLogger("projseg")

Narrow: TypeAlias = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.uint32]
"""Ids of groups or of a dictionary, or numbers above a base."""
Integers: TypeAlias = Narrow | NDArray[np.int64]
"""Whole numbers, narrow or as wide as they come."""
Words: TypeAlias = Narrow | NDArray[np.uint64]
"""Values of one, two, four or eight bytes, whatever they mean."""
_Ids = TypeVar("_Ids", NDArray[np.unsignedinteger[Any]], NDArray[np.unsignedinteger[Any]] | None)

# A child forked while another thread imports Numba could never import it itself.
_loading: Final = threading.RLock()
hold_while_forking(_loading)

_calls_of_stored = itertools.count(1)
# Which kernels run as stored machine code, for which types of arguments.
_STORED: Final[list[tuple[Kernel, list[str]]]] = []


@cache
def _source_stamp(module: str) -> int:
    """Return a number that changes with the source of a module."""
    spec = sys.modules[module].__spec__
    assert spec is not None
    assert spec.origin is not None
    loader: Any = spec.loader
    return xxhash.xxh3_64_intdigest(loader.get_data(spec.origin))  # reads zip archives, too


class Interpreter:
    """Decides whether calls are interpreted, until compiling would have been quicker."""

    def __init__(self, values_max: float) -> None:
        self._values_left = values_max
        self.is_retired = False
        self.is_alone = _IS_INTERPRETER_WANTED
        """Whether nothing is compiled: it is not wanted, or the system forbids it."""

    def takes(self, value_count: int) -> bool:
        """Whether to interpret a call over `value_count` values; if so, count the values."""
        if value_count > self._values_left:
            self._values_left = 0
            return False
        self._values_left -= value_count
        return True

    def retire(self) -> None:
        """Let Numba run every kernel from now on."""
        self._values_left = 0
        self.is_retired = True


interpreter = Interpreter(_INTERPRETED_VALUES_MAX)


def _count_anew() -> None:
    """Start over in a forked child, which has no thread that loads Numba."""
    global _calls_of_stored
    _calls_of_stored = itertools.count(1)


os.register_at_fork(after_in_child=_count_anew)


def _load_numba() -> None:
    """Let Numba run every kernel, once what runs as stored code is loaded."""
    for kernel, types in _STORED:
        kernel.load_compiled(types)
    interpreter.retire()


def _compiler() -> Callable[..., Any] | None:
    """Return the module that compiles kernels; None if all are interpreted."""
    if interpreter.is_alone:
        return None
    try:
        # Imported here, because it imports Numba, which tries at once to make memory executable.
        from projseg.kernels.runtime.compiler import compiled
    except PermissionError:
        interpreter.is_alone = True
        _LOGGER.warning(
            "the system does not let this process make memory executable (SELinux, seccomp or "
            "MemoryDenyWriteExecute), so nothing is compiled and all is up to a hundred times "
            "slower; allow it for processes that use projseg"
        )
        return None
    return compiled


def _load_numba_beside() -> None:
    """Load Numba in a thread of its own, while queries go on with stored code.

    Numba would compile what the install brought: that stays as it is.
    """
    # Imported here, as in `Kernel._loaded`.
    from projseg.kernels.runtime.stored_code import brought

    if brought():
        return
    # While Python ends no thread can start, and none is needed.
    with suppress(RuntimeError):
        threading.Thread(target=_load_numba, name="projseg-numba").start()


def _value_count(arguments: tuple[Any, ...]) -> int:
    """Return how many values the arrays among some arguments hold."""
    return sum(one.size for one in arguments if isinstance(one, np.ndarray))


class Kernel:
    """A function of arrays and scalars that is compiled when that is worth it.

    It calls other kernels and intrinsics by their names. It is interpretable if Python gives the
    same result. Two things differ from Numba: NumPy's scalars keep the width of their type, and a
    number that does not fit an array's is refused. In that case the call is made again, compiled,
    so until then it must have changed nothing that it reads.
    """

    def __init__(
        self, function: Callable[..., Any], *, is_interpretable: bool, is_inlined: bool
    ) -> None:
        assert isinstance(function, FunctionType)
        self.function = function
        self.is_interpretable = is_interpretable
        self._is_inlined = is_inlined
        self._compiled: Any = None
        self._value_count = 0  # of all calls before its code is loaded
        self._by_types: dict[tuple[TypeKey, ...], Callable[..., Any] | None] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call it, interpreted or compiled."""
        if self._compiled is not None:
            return self._compiled(*arguments)
        stored = self._stored(arguments)
        if stored is not None:
            try:
                return stored(*arguments)
            except KernelFailedError:
                pass  # it is called again, compiled by Numba, which names the error
        elif self.is_interpretable and interpreter.takes(_value_count(arguments)):
            # NumPy warns where the arithmetic of its scalars wraps around, as Numba's does.
            with np.errstate(all="ignore"), suppress(OverflowError):
                return self.function(*arguments)
        return self.compiled()(*arguments)

    def _stored(self, arguments: tuple[Any, ...]) -> Callable[..., Any] | None:
        """Return the machine code for these types of arguments, if a file has it."""
        if interpreter.is_retired or interpreter.is_alone:
            return None
        key = tuple(map(type_key, arguments))
        known = self._by_types.get(key)
        if known is None and self._is_early(arguments):
            return None
        if next(_calls_of_stored) == CALLS_BEFORE_NUMBA:
            _load_numba_beside()
        if known is None and key not in self._by_types:
            types = [text for one in arguments if (text := type_of(one)) is not None]
            self._by_types[key] = self._loaded(types) if len(types) == len(key) else None
        return self._by_types[key]

    def _is_early(self, arguments: tuple[Any, ...]) -> bool:
        """Whether calls were so small, this one among them, that loading code takes longer."""
        self._value_count += _value_count(arguments)
        return self.is_interpretable and self._value_count <= _VALUES_TO_LOAD_FOR

    def _loaded(self, types: list[str]) -> Callable[..., Any] | None:
        with _loading:
            # Imported here, because many processes load no machine code.
            from projseg.kernels.runtime.stored_code import load, may_run

            found = load(self.name, types, self.stamp) if may_run() else None
            if found is not None:
                _STORED.append((self, types))
            return found

    @property
    def name(self) -> str:
        """A name that no other kernel has."""
        module, function = self.function.__module__.rpartition(".")[2], self.function
        return f"{module}.{function.__qualname__}-{function.__code__.co_firstlineno}"

    @cached_property
    def stamp(self) -> int:
        """A number that changes with the sources of the kernel and of those it calls."""
        stamp = _source_stamp(self.function.__module__)
        for _, called in self._called():
            if isinstance(called, Kernel):
                stamp = stamp * _STAMP_FACTOR + called.stamp & _STAMP_MAX
        return stamp

    def _called(self) -> Iterator[tuple[str, Kernel | Intrinsic]]:
        """Yield the kernels and intrinsics that the function names."""
        for name in self.function.__code__.co_names:
            value = self.function.__globals__.get(name)
            if isinstance(value, Kernel | Intrinsic):
                yield name, value

    def compiled(self) -> Any:
        """Return Numba's dispatcher, which compiles a signature at its first call.

        Where nothing is compiled it is the function itself.
        """
        with _loading:
            if self._compiled is None:
                compiled = _compiler()
                if compiled is None:
                    self._compiled = self._interpreted
                    return self._compiled
                self._compiled = compiled(
                    self._linked(),
                    is_inlined=self._is_inlined,
                    name=self.name,
                    source=self.stamp,
                )
        return self._compiled

    def _interpreted(self, *arguments: Any) -> Any:
        """Call the function as it is written.

        Raises UnsupportedFeatureError (PROJSEG_CANNOT_COMPILE) if a number fits its array in
        machine code only.
        """
        try:
            with np.errstate(all="ignore"):
                return self.function(*arguments)
        except OverflowError as error:
            raise UnsupportedFeatureError(
                "PROJSEG_CANNOT_COMPILE",
                f"kernel {self.name} cannot be interpreted over these values ({error}), and "
                "nothing is compiled in this process; let it make memory executable",
            ) from error

    def load_compiled(self, types: Sequence[str]) -> None:
        """Have Numba load, or compile, the kernel for arguments of these types."""
        with _loading:
            if _compiler() is None:
                return
            # Imported here, because it imports Numba.
            from projseg.kernels.runtime.compiler import numba_type_of

            self.compiled().compile(tuple(map(numba_type_of, types)))

    def _linked(self) -> FunctionType:
        """Return the function, calling the compiled forms of other kernels, which Numba knows."""
        function = self.function
        called = {name: value.compiled() for name, value in self._called()}
        names = function.__globals__ | called
        linked = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
        linked.__qualname__, linked.__module__ = function.__qualname__, function.__module__
        return linked


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...


@overload
def kernel(*, interpretable: bool) -> Callable[[Callable[..., Any]], Kernel]: ...


def kernel(function: Callable[..., Any] | None = None, /, *, interpretable: bool = False) -> Any:
    """Make a kernel of a function; see `Kernel`."""

    def decorate(function: Callable[..., Any]) -> Kernel:
        return Kernel(function, is_interpretable=interpretable, is_inlined=False)

    return decorate if function is None else decorate(function)


def inlined_kernel(function: Callable[..., Any]) -> Kernel:
    """Make a kernel that is compiled into each that calls it: a few operations on scalars."""
    return Kernel(function, is_interpretable=True, is_inlined=True)


class Intrinsic:
    """An operation in Python that compiled kernels have in machine code, by Numba's `intrinsic`."""

    def __init__(self, function: Callable[..., Any], emit: Callable[..., Any]) -> None:
        self._function, self._emit = function, emit
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Do it in Python."""
        return self._function(*arguments)

    def compiled(self) -> Any:
        """Return the intrinsic that compiled kernels call."""
        if self._compiled is None:
            # Imported here, because it imports Numba.
            from projseg.kernels.runtime.compiler import intrinsic

            self._compiled = intrinsic(self._emit)
        return self._compiled


def are_few(row_count: int) -> bool:
    """Whether `row_count` is so small that widening the rows costs next to nothing."""
    return row_count < FEW_ROWS


def widened_ids(ids: _Ids) -> _Ids:
    """Return few ids as uint32[n], many unchanged."""
    if ids is None or not are_few(len(ids)):
        return ids
    return ids.astype(np.uint32, copy=False)


def widened_values(values: NDArray[Any]) -> NDArray[Any]:
    """Return few unsigned values of at most 32 bits as int64[n], others and many unchanged."""
    is_narrow = values.dtype.kind == "u" and values.dtype.itemsize < 8
    return values.astype(np.int64) if is_narrow and are_few(len(values)) else values
