"""Errors as JSON can hold them: a worker tells what it met, and who asked raises the same.

An error of projseg keeps its class, code and message; one of Python or Arrow its class and
arguments, if the class takes them again. Any other is `PROJSEG_INTERNAL`, with its name.
"""

from __future__ import annotations

import builtins
import traceback
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from projseg.errors import ProjsegError, StorageError, error_class

_PLAIN: Final = (str, int, float, type(None))


def told(error: Exception) -> dict[str, Any]:
    """Return an error as JSON can hold it."""
    name = type(error).__name__
    if isinstance(error, ProjsegError):
        number = error.errno if isinstance(error, StorageError) else None
        return {"error": name, "code": error.code, "message": error.message, "number": number}
    return {
        "error": name,
        "arguments": [one if isinstance(one, _PLAIN) else repr(one) for one in error.args],
        "message": f"{name}: {error}",
        "trace": "".join(traceback.format_exception(error)),
    }


def error_of(told: Mapping[str, Any]) -> Exception:
    """Return the error that `told` was made of, or the nearest that is known here."""
    if "code" in told:
        return _own_error(told)
    error = _foreign_error(told)
    error.add_note(f"In a worker of the query pool:\n{told['trace']}")
    return error


def _own_error(told: Mapping[str, Any]) -> ProjsegError:
    error = (error_class(told["error"]) or ProjsegError)(told["code"], told["message"])
    if isinstance(error, StorageError):
        error.errno = told["number"]
    return error


def _foreign_error(told: Mapping[str, Any]) -> Exception:
    kind = getattr(builtins, told["error"], None) or getattr(pa.lib, told["error"], None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(*told["arguments"])
        except TypeError:
            pass  # it takes other arguments than it keeps
    return ProjsegError("PROJSEG_INTERNAL", told["message"])
