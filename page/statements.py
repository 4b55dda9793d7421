"""What is typed into the query box: the statement, and the tables that it names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from projseg.algebra.query.statement_words import explained_select
from projseg.errors import InvalidInputError
from projseg.table.sql_statements import tables_in

SQL_BYTES_MAX: Final = 64 << 10
_PREFIXES: Final = {"run": "", "explain": "EXPLAIN ", "analyze": "EXPLAIN ANALYZE "}


class BoxStatement(NamedTuple):
    """A statement, and what a button puts before it."""

    prefix: str
    sql: str


def box_statement(typed: str, action: str) -> BoxStatement:
    """Return what is to be asked for a text and a button.

    Raises InvalidInputError (PROJSEG_BAD_ARGUMENT) if there is no such button, or no text that is
    short enough.
    """
    sql = typed.replace("\r\n", "\n").strip().rstrip(";").rstrip()
    if not sql or len(sql.encode()) > SQL_BYTES_MAX:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"a statement has 1 to {SQL_BYTES_MAX:,} bytes"
        )
    if action not in _PREFIXES:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"action is {action!r}; give run, explain or analyze"
        )
    prefix = _PREFIXES[action]
    asked = explained_select(sql) if prefix else None
    return BoxStatement(prefix, sql if asked is None else asked.select.lstrip())


def check_names(sql: str, name: str, names: Sequence[str]) -> None:
    """Refuse a statement that names another table than that of its view: PROJSEG_BAD_SQL.

    A text that cannot be parsed is let through: the error of its answer says why.
    """
    last = name.rpartition(".")[2]
    own = {name.casefold(), last.casefold()}
    others = {one.casefold() for one in names} | {
        one.rpartition(".")[2].casefold() for one in names
    }
    for parts in tables_in(sql):
        written = ".".join(parts)
        is_free = len(parts) == 1 and written.isidentifier() and written.casefold() not in others
        if not (is_free or written.casefold() in own):
            raise InvalidInputError(
                "PROJSEG_BAD_SQL",
                f"'{written}' is not the table of this page; name it '{last}' or t, or ask on the "
                "page of the other table",
            )
