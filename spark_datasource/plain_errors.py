"""Errors of the planning processes of Spark's Python sources, in one line."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from projseg.errors import ProjsegError

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def in_one_line(method: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Let Spark show a deliberate error of a method without its traceback.

    Spark's worker looks for `SPARK_HIDE_TRACEBACK` when it writes an error down, and then ends; so
    the setting concerns this one error. Errors that nobody foresaw keep their traceback.

    Parameters
    ----------
    method : callable
        What Spark calls to plan.

    Returns
    -------
    callable
        The same.
    """

    @wraps(method)
    def called(*args: _Parameters.args, **named: _Parameters.kwargs) -> _Result:
        try:
            return method(*args, **named)
        except ProjsegError as error:
            if error.code != "PROJSEG_INTERNAL":
                os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise

    return called
