"""The errors of joins that are no star, and what they say in short."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from projseg.errors import InvalidInputError, ProjsegError, UnsupportedFeatureError

_SEVERAL_ROWS: Final = re.compile(r"join '(.*?)': several of its rows have (.*), so a row would")


def not_a_star(name: str, problem: str) -> UnsupportedFeatureError:
    """Return the error of a join that is not one of a fact with a dimension."""
    return UnsupportedFeatureError(
        "PROJSEG_NOT_A_STAR",
        f"join '{name}' {problem}; projseg joins each row of one table with at most one row of "
        "others, by equal keys. Do the rest in DuckDB, Polars or Spark",
    )


def key_not_unique(name: str, keys: Sequence[str], value: Sequence[object]) -> InvalidInputError:
    """Return the error of a dimension in which several rows have one key."""
    return InvalidInputError(
        "PROJSEG_JOIN_KEY_NOT_UNIQUE",
        f"join '{name}': several of its rows have {key_values(keys, value)}, so a row would be "
        "counted several times; add a condition that keeps one of them to ON, or use a semi join",
    )


def key_values(keys: Sequence[str], value: Sequence[object]) -> str:
    """Return the columns of a key and a value of them as messages have it."""
    return f"{', '.join(keys)} = {', '.join(map(repr, value))}"


def refused_join(error: ProjsegError) -> str | None:
    """Return the join that an error of this module names, and why; None of another error."""
    if error.code == "PROJSEG_NOT_A_STAR":
        return error.message.partition(";")[0]
    found = _SEVERAL_ROWS.match(error.message)
    return f"{found[1]} ({found[2]})" if found else None
