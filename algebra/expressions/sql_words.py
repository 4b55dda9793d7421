"""Names, strings and types as words of SQL."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions.dialect import parse_sql
from projseg.errors import InvalidInputError
from projseg.segment_format.types import is_nested, type_name


def quoted_name(name: str) -> str:
    """Return a column's name as SQL, in backticks if it would be read as something else."""
    return name if _is_plain(name) else backquoted(name)


def backquoted(name: str) -> str:
    """Return a name as SQL in backticks, whatever it is."""
    return "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """Return a string as an SQL constant."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def sql_type(arrow_type: pa.DataType) -> str:
    """Return a type as CAST writes it; fields of structs keep their case."""
    name = type_name(arrow_type)
    return name if is_nested(arrow_type) else name.upper()


@lru_cache(maxsize=4096)
def _is_plain(name: str) -> bool:
    if not (name.isascii() and name.isidentifier()):
        return False
    for before, after in (("", " = 1"), ("", " IS NULL"), ("", " IN (1)"), ("f(", ")")):
        try:
            tree = parse_sql(before + name + after)
        except InvalidInputError:
            return False
        names = [column.sql() for column in tree.find_all(exp.Column)]
        if names != [name] or tree.find(exp.Alias, exp.Cast) is not None:
            return False
    return True
