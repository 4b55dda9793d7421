"""Spark's Python workers: errors in one line, and imports kept out of the collections of garbage.

Spark's daemon has a worker collect garbage after each task, and after each call that makes a source
or plans a read; the next call waits for it. With the engine imported that takes tens of
milliseconds, as long as many reads.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isgeneratorfunction
from typing import ParamSpec, TypeVar, cast

from projseg.errors import ProjsegError

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_is_frozen = False


def in_one_line(method: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Let Spark show a deliberate error of a method, or generator, without its traceback."""

    @wraps(method)
    def called(*args: _Parameters.args, **named: _Parameters.kwargs) -> _Result:
        with _hidden_traceback():
            return method(*args, **named)

    @wraps(method)
    def yielded(*args: _Parameters.args, **named: _Parameters.kwargs) -> Iterator[object]:
        with _hidden_traceback():
            yield from cast("Iterator[object]", method(*args, **named))

    return (
        cast("Callable[_Parameters, _Result]", yielded) if isgeneratorfunction(method) else called
    )


@contextmanager
def _hidden_traceback() -> Iterator[None]:
    """Hide the traceback of a deliberate error; those that nobody foresaw keep theirs.

    Spark's worker looks for `SPARK_HIDE_TRACEBACK` when it writes an error down, and then ends; so
    the setting concerns this one error.
    """
    try:
        yield
    except ProjsegError as error:
        if error.code != "PROJSEG_INTERNAL":
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def freeze_imports() -> None:
    """Let collections skip all that is in memory, once for each worker; elsewhere do nothing.

    To be called once what a worker needs is imported.
    """
    global _is_frozen
    if not _is_frozen and _is_worker():
        _is_frozen = True
        gc.freeze()


def _is_worker() -> bool:
    """Whether a daemon of Python workers forked this process."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and str(spec.name).endswith(".daemon")
