"""`Join`: a dimension beside a query's table, how its row is found, and refused joins."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from projseg.errors import (
    InvalidInputError,
    ProjsegError,
    UnsupportedFeatureError,
    did_you_mean,
)

_HOWS: Final = ("inner", "left", "semi", "anti")
_JSON_FIELDS: Final = ("table", "on", "name", "how", "where", "version")
_SEVERAL_ROWS: Final = re.compile(r"join '(.*?)': several of its rows have (.*), so a row would")


@dataclass(frozen=True)
class Join:
    """A table of which at most one row matches each row that a query reads.

    Its columns are written with the name before them, `d.region`, in every text of the query and in
    those of later joins. That at most one row matches is proved from the table's rows.

    Parameters
    ----------
    table : Table, str or path
        The dimension. A `Table` is read at its version, and a location at the newest version.
    on : str
        Equalities between columns of the dimension and expressions over the query's table or
        earlier joins, and conditions on the dimension alone, with AND between them.
    name : str or None
        The name with which its columns are written; if left out, the last part of the location.
    how : str
        `inner`: rows without a match are left out. `left`: the dimension's columns are null for
        them. `semi` and `anti`: only rows with a match, or without one, are kept, the dimension's
        columns are not to be had, and several rows may match.
    where : str or None
        Rows of the dimension for which it is not true match nothing.
    version : int or None
        The version to read of a location.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_QUERY.
    """

    table: Any
    on: str
    name: str | None = None
    how: str = "inner"
    where: str | None = None
    version: int | None = field(default=None, kw_only=True)
    # The opened version, and the columns that a definition declares of it, if there are such.
    snapshot: Any = field(default=None, init=False, compare=False, repr=False)
    declared: Any = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        snapshot = getattr(self.table, "snapshot", None)
        if snapshot is not None:
            if self.version not in (None, snapshot.version):
                raise _bad(f"version is {self.version}, of a table at version {snapshot.version}")
            object.__setattr__(self, "snapshot", snapshot)
            object.__setattr__(self, "declared", getattr(self.table, "declared", None))
            object.__setattr__(self, "version", snapshot.version)
            object.__setattr__(self, "table", snapshot.storage.location)
        elif isinstance(self.table, str | os.PathLike):
            object.__setattr__(self, "table", os.fspath(self.table))
        else:
            raise _bad(f"table is {self.table!r}; it is a Table or a location")
        for name in ("on", "name", "how", "where"):
            value = getattr(self, name)
            is_optional = name in ("name", "where")
            if not isinstance(value, str) and not (is_optional and value is None):
                raise _bad(f"{name} takes a text, found {value!r}")
        if self.how not in _HOWS:
            raise _bad(f"how is {self.how!r}; it is one of {', '.join(_HOWS)}")
        if type(self.version) not in (int, type(None)):
            raise _bad(f"version is {self.version!r}; it is a number")
        if self.name is None:
            object.__setattr__(self, "name", str(self.table).rstrip("/").rpartition("/")[2])
        if not self.name or "." in self.name or "`" in self.name:
            raise _bad(f"name is {self.name!r}; give one without dots and quotes")

    def __getstate__(self) -> dict[str, Any]:
        # Another process opens the version itself.
        return {**self.__dict__, "snapshot": None}

    def __str__(self) -> str:
        condition = f" WHERE {self.where}" if self.where is not None else ""
        version = "" if self.version is None else f" VERSION AS OF {self.version}"
        title = str(self.table).rstrip("/").rpartition("/")[2]
        alias = "" if title == self.name else f" {self.name}"
        return f"{self.how.upper()} JOIN {title}{version}{alias} ON {self.on}{condition}"


def join_content(join: Join) -> dict[str, Any]:
    """Return a join as JSON has it, without fields that were left out."""
    found = {name: getattr(join, name) for name in _JSON_FIELDS}
    return {name: value for name, value in found.items() if value is not None}


def join_of_content(content: object) -> Join:
    """Return the join that `join_content` wrote."""
    if not isinstance(content, Mapping) or not {"table", "on"} <= content.keys():
        raise _bad("JSON must be an object with at least 'table' and 'on'")
    for name in content:
        if name not in _JSON_FIELDS:
            known = did_you_mean(str(name), _JSON_FIELDS)
            raise _bad(f"JSON has an unknown field '{name}'{known}")
    return Join(**content)


def with_texts(join: Join, on: str, where: str | None) -> Join:
    """Return the same join with other texts, of the version that is open already."""
    found = replace(join, on=on, where=where)
    object.__setattr__(found, "snapshot", join.snapshot)
    object.__setattr__(found, "declared", join.declared)
    return found


def _bad(problem: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_BAD_QUERY", f"a join's {problem}")


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
    """Return the join that an error of this module names, and why; None for another error."""
    if error.code == "PROJSEG_NOT_A_STAR":
        return error.message.partition(";")[0]
    found = _SEVERAL_ROWS.match(error.message)
    return f"{found[1]} ({found[2]})" if found else None
