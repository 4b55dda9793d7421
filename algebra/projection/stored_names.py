"""Names of a projection's stored columns, which are canonical text.

They do not depend on output names: when an alias changes, a definition stays the same, and so must
the columns in older segments.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import xxhash

from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import Column, Expression
from projseg.segment_format.layout.footer import ROW_NUMBER
from projseg.segment_format.layout.format_limits import name_problem

__all__ = ["ROW_NUMBER", "state_column_name", "stored_column"]

_READABLE_CHARACTERS: Final = 48
_NAMES_KEPT: Final = 4096  # each question asks for those of every segment that it reads


@lru_cache(maxsize=_NAMES_KEPT)
def stored_column(expression: Expression) -> Column:
    """Return the stored grouping column of an expression."""
    return Column(expression.type, _short(to_sql(expression)))


@lru_cache(maxsize=_NAMES_KEPT)
def state_column_name(primitive_text: str, part: str) -> str:
    """Return the stored name of one part of a primitive's state."""
    return _short(f"{primitive_text}.{part}")


def _short(text: str) -> str:
    """Return `text` if it is a legal column name, else its beginning and a 128-bit hash of it."""
    if name_problem(text) is None:
        return text
    readable = "".join(c for c in text[:_READABLE_CHARACTERS] if " " < c <= "~")
    return f"{readable}#{xxhash.xxh3_128_hexdigest(text.encode('utf-8', 'surrogatepass'))}"
