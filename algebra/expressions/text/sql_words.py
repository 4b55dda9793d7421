"""Names, strings and types as words of SQL."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]  # not in its __all__

from projseg.algebra.expressions.text.dialect import parse_sql
from projseg.algebra.expressions.text.spark_dialect import SparkExpression
from projseg.errors import InvalidInputError
from projseg.segment_format.layout.logical_types import is_nested, type_name


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


# What sqlglot's parser takes for more than a name, though its tokenizer does not.
_WORDS_OF_THE_PARSER: Final = frozenset({"connect_by_root", "if"})


@lru_cache(maxsize=4096)
def _is_plain(name: str) -> bool:
    if not (name.isascii() and name.isidentifier()) or name.lower() in _WORDS_OF_THE_PARSER:
        return False
    tokens = SparkExpression().tokenize(name)
    return [token.token_type for token in tokens] == [TokenType.VAR] or _reads_as_a_name(name)


def _reads_as_a_name(word: str) -> bool:
    """Return whether a word of SQL is a column's name wherever an expression may stand."""
    try:
        tree = parse_sql(f"{word} = 1 AND {word} IS NULL AND {word} IN (1) AND f({word})")
    except InvalidInputError:
        return False
    names = [column.sql() for column in tree.find_all(exp.Column)]
    return names == [word] * 4 and tree.find(exp.Alias, exp.Cast) is None
