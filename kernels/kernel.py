"""Kernels: functions of arrays that Numba compiles at their first call over many values.

Importing Numba and loading the first compiled kernels takes about 0.4 seconds, as long as all else
from the start of a process to its first answer. Many answers come from a few thousand rows, so
kernels that are marked as `interpretable` run as the Python they are written in until the process
has spent a part of that time on it.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType
from typing import Any, Final, overload

import numpy as np

from projseg.memory.forks import hold_while_forking

INTERPRETED_VALUES_MAX: Final = 300_000  # values of all calls together, at 0.4 us each
_IS_INTERPRETER_WANTED: Final = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

# A child forked while another thread imports Numba could never import it itself.
_loading: Final = threading.RLock()
hold_while_forking(_loading)


class Interpreter:
    """Decides whether calls are interpreted, until compiling would have been quicker."""

    def __init__(self, values_max: float) -> None:
        self._values_left = values_max

    def takes(self, arguments: tuple[Any, ...]) -> bool:
        """Whether a call over these arguments is to be interpreted; count them if so."""
        sizes = (argument.size for argument in arguments if isinstance(argument, np.ndarray))
        value_count = sum(sizes)
        if value_count > self._values_left:
            self._values_left = 0
            return False
        self._values_left -= value_count
        return True

    def retire(self) -> None:
        """Interpret nothing from now on."""
        self._values_left = 0


interpreter = Interpreter(math.inf if _IS_INTERPRETER_WANTED else INTERPRETED_VALUES_MAX)


class Kernel:
    """A function of arrays and scalars that is compiled when that is worth it.

    Parameters
    ----------
    function : callable
        What Numba compiles. It calls other kernels and intrinsics by their names.
    is_interpretable : bool
        Whether Python gives the same result. Two things differ from Numba: NumPy's scalars keep
        the width of their type, and a number that does not fit an array's is refused. In that
        case the call is made again, compiled, so until then it must have changed nothing that it
        reads.
    is_inlined : bool
        Whether it is compiled into each kernel that calls it.
    """

    def __init__(
        self, function: Callable[..., Any], *, is_interpretable: bool, is_inlined: bool
    ) -> None:
        self.function = function
        self.is_interpretable = is_interpretable
        self._is_inlined = is_inlined
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Call it, interpreted or compiled."""
        if self._compiled is not None:
            return self._compiled(*arguments)
        if self.is_interpretable and interpreter.takes(arguments):
            # NumPy warns where the arithmetic of its scalars wraps around, as Numba's does.
            with np.errstate(all="ignore"), suppress(OverflowError):
                return self.function(*arguments)
        return self.compiled()(*arguments)

    def compiled(self) -> Any:
        """Return what Numba makes of it; each signature is compiled at its first call."""
        with _loading:
            if self._compiled is None:
                # Imported here, because it imports Numba.
                from projseg.kernels.compiler import compiled

                self._compiled = compiled(self._linked(), is_inlined=self._is_inlined)
        return self._compiled

    def _linked(self) -> FunctionType:
        """Return the function over what Numba knows: the compiled forms of what it calls."""
        function = self.function
        assert isinstance(function, FunctionType)
        named = ((name, function.__globals__.get(name)) for name in function.__code__.co_names)
        called = {
            name: value.compiled() for name, value in named if isinstance(value, Kernel | Intrinsic)
        }
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

    def made(function: Callable[..., Any]) -> Kernel:
        is_interpretable = interpretable or _IS_INTERPRETER_WANTED
        return Kernel(function, is_interpretable=is_interpretable, is_inlined=False)

    return made if function is None else made(function)


def inlined_kernel(function: Callable[..., Any]) -> Kernel:
    """Make a kernel that is compiled into each that calls it: a few operations on scalars."""
    return Kernel(function, is_interpretable=True, is_inlined=True)


class Intrinsic:
    """An operation that compiled kernels spell in machine code.

    Parameters
    ----------
    function : callable
        What it does, in Python.
    emit : callable
        The same as Numba's `intrinsic` takes it.
    """

    def __init__(self, function: Callable[..., Any], emit: Callable[..., Any]) -> None:
        self._function, self._emit = function, emit
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Do it in Python."""
        return self._function(*arguments)

    def compiled(self) -> Any:
        """Return what compiled kernels call."""
        if self._compiled is None:
            # Imported here, because it imports Numba.
            from projseg.kernels.compiler import intrinsic

            self._compiled = intrinsic(self._emit)
        return self._compiled
