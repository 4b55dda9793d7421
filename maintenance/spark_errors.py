"""Find projseg's own errors in Spark's message about a failed Python process."""

from __future__ import annotations

import re
from typing import Final

from projseg.errors import CODES, ProjsegError, error_class

_LAST_LINE: Final = re.compile(r"projseg\.errors\.(\w+): \[(PROJSEG_\w+)\] (.*)")


def error_of(error: BaseException) -> ProjsegError | None:
    """Return the projseg error that one of Spark's stands for, or None if it is another.

    The extension shows it in one line, and keeps its class among the parameters of the message.
    """
    parameters: dict[str, str] = getattr(error, "getMessageParameters", dict)() or {}
    return error_in("\n".join([str(error), *map(str, parameters.values())]))


def error_in(text: str) -> ProjsegError | None:
    """Return the projseg error that a traceback ends with, or None if it ends otherwise."""
    lines = _LAST_LINE.findall(text)
    if not lines:
        return None
    name, code, message = lines[-1]  # those before it are its causes
    kind = error_class(name)
    return None if kind is None or code not in CODES else kind(code, message)
